"""What is said before llama.cpp, or a model file that is lost, ends the process."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from spectui.gguf_files.parts import files_of
from spectui.llama.library import symbol
from spectui.text import safe

_kept: list[object] = []  # what C calls must not be collected


def on_abort(listener: Callable[[str], None]) -> None:
    """Call `listener` with the last words before the process ends: ggml's, or which model file was lost.

    It is called in the thread that fails. Nothing prevents the end.
    """
    global _tell_lost
    _tell_lost = lambda what, _: listener(what)  # noqa: E731

    def report(message: bytes) -> None:
        # It begins with the file and the line.
        listener(safe(re.sub(r"^\S+:\d+: ", "", message.decode("utf-8", "replace"))).strip())

    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(report)
    _kept.append(callback)
    symbol("ggml_set_abort_callback", ctypes.c_void_p, ctypes.c_void_p)(callback)


def watch_file(path: str) -> None:
    """If this file, or a later part of it, which llama.cpp maps into the memory, is cut off or its disk fails: end with a
    sentence and code 1.

    The system tells a thread that reads what is lost by SIGBUS. A handler of Python's is called after the read, which is then
    tried for ever; and many of these threads are not Python's. So C calls this one. `forget_file` ends it.
    """
    for file in files_of(path):
        with suppress(OSError):  # a file that is gone already is told as such when it is opened
            _sizes[str(file)] = file.stat().st_size
    if hasattr(signal, "SIGBUS"):  # anew for each file: Python's faulthandler may have taken its place
        ctypes.pythonapi.PyOS_setsig(int(signal.SIGBUS), _file_lost)


def forget_file(path: str) -> None:
    """The file and its later parts are not used any more."""
    for file in files_of(path):
        _sizes.pop(str(file), None)


_sizes: dict[str, int] = {}  # of the files that are in use, when they were opened
_losing = threading.Lock()  # of several threads, one tells it


@ctypes.CFUNCTYPE(None, ctypes.c_int)  # type: ignore[untyped-decorator]
def _file_lost(_: int) -> None:
    _losing.acquire()
    if lost := [path for path, size in _sizes.items() if _size(path) < size]:
        what = f"The model file {' or '.join(map(safe, lost))} was cut off or its disk failed while it was in use"
        _tell_lost(f"{what} (bus error)", "copy it there again")
    else:
        _tell_lost("A file in use was cut off, or a disk or the memory failed (bus error)", "start spectui again")
    os._exit(1)


def _size(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_size
    return 0


def _say_lost(what: str, advice: str) -> None:
    """On the terminal and, where standard error goes to a log, there too."""
    screen = sys.stderr.fileno() if sys.stderr is not None else 2
    for file in {2, screen}:
        with suppress(OSError):
            os.write(file, f"\nspectui: {what}: {advice}.\n".encode(errors="surrogateescape"))


_tell_lost: Callable[[str, str], None] = _say_lost
