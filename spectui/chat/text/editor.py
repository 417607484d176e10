"""Programs that have the terminal for a while: a person's own editor for a text, or a search for settings."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
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

    Nothing is raised while the terminal is theirs: the window would not take it back.
    """
    code = None
    with meanwhile, _Signals() as signals:
        try:
            for line in lines:
                # Standard error of a chat is a file.
                code = signals.wait(subprocess.Popen(shlex.split(line), stderr=subprocess.STDOUT))
        except (OSError, ValueError):
            return None
    return code


class _Signals:
    """Within the block, a signal that ends spectui ends the program first, which would keep it waiting. Ctrl+C is its own."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._caught: list[int] = []
        self._before: dict[int, Any] = {}
        self._woken = -1

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            self._woken = signal.set_wakeup_fd(-1)  # the window's loop would act on Ctrl+C afterwards
            numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
            self._before = {number: signal.signal(number, self._take) for number in numbers}
        return self

    def wait(self, program: subprocess.Popen[bytes]) -> int:
        """The code that this program ends with."""
        self._program = program
        if self._caught:
            program.terminate()
        # Of two signals at once the system may give the second to another thread, which does not wake one that waits for
        # a process. Python runs the handler when this thread goes on.
        while True:
            with suppress(subprocess.TimeoutExpired):
                return program.wait(_LOOK_S)

    def _take(self, number: int, frame: Any) -> None:
        if number != signal.SIGINT:
            self._caught.append(number)
            if self._program is not None:
                self._program.terminate()

    def __exit__(self, *raised: object) -> None:
        if not self._before:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woken)
        for number in self._caught:
            signal.raise_signal(number)
