"""Programs that have the terminal for a while: a person's own editor for a text, or a search for settings."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from spectui.errors import SpectuiError
from spectui.text import printable

_LOOK_S = 0.5
"""Longest time from a signal to its handler."""


class EditorError(SpectuiError):
    """The editor cannot be used."""


def edited(text: str, meanwhile: AbstractContextManager[None]) -> str:
    """The text after `$VISUAL`, `$EDITOR` or vi; `meanwhile` the terminal is theirs. Blocks; raises EditorError."""
    words = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        with tempfile.TemporaryDirectory(prefix="spectui-", ignore_cleanup_errors=True) as directory:
            file = Path(directory) / "prompt.md"
            file.write_text(text, encoding="utf-8", errors="replace")
            code = in_terminal([f"{words} {shlex.quote(str(file))}"], meanwhile)
            after = file.read_text(encoding="utf-8-sig", errors="replace") if code is not None and file.is_file() else None
    except OSError as error:
        raise EditorError(f"No file for the editor can be made ({error.strerror or error}): set TMPDIR elsewhere.") from error
    if after is None:
        raise EditorError(f"The editor {words!r} cannot be used: set EDITOR to another one.")
    if code:
        raise EditorError(f"The editor {words!r} failed ({code}): the prompt is as it was.")
    return printable(after).rstrip("\n")


def in_terminal(lines: Sequence[str], meanwhile: AbstractContextManager[None]) -> int | None:
    """Run these commands one after another, and return the code that the last ends with; None if there is no such program.

    Nothing is raised while the terminal is theirs: the window would not take it back. A signal that ends spectui ends the
    program first, which would keep it waiting. Ctrl+C is the program's own.
    """
    code, caught, programs = None, list[int](), list[subprocess.Popen[bytes]]()

    def take(number: int, frame: Any) -> None:
        if number != signal.SIGINT:
            caught.append(number)
            for program in programs:
                program.terminate()

    with meanwhile, _handled(take, caught):
        try:
            for line in lines:
                # Standard error of a chat is a file.
                programs[:] = [subprocess.Popen(shlex.split(line), stderr=subprocess.STDOUT)]
                if caught:
                    programs[0].terminate()
                code = None
                # Of two signals at once the system may give the second to another thread, which does not wake one that waits
                # for a process. Python runs the handler when this thread goes on.
                while code is None:
                    with suppress(subprocess.TimeoutExpired):
                        code = programs[0].wait(_LOOK_S)
        except (OSError, ValueError):
            return None
    return code


@contextmanager
def _handled(take: Callable[[int, Any], None], caught: Sequence[int]) -> Iterator[None]:
    """Handle signals so within the block, and raise those that it has caught again after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    woken = signal.set_wakeup_fd(-1)  # the window's loop would act on Ctrl+C afterwards
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(number, take) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken)
        for number in caught:
            signal.raise_signal(number)
