"""The window's end: a command of `spectui` that measures, in a process of its own.

llama.cpp computes in one thread of a process, and the window's process has a chat: so the window measures as a person does,
by the same command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from spectui.config import settings
from spectui.measure.live.view import Progress, View, parsed

_PREFIX = "spectui: "
"""Begins each line that the program says on standard error."""

_LAST = 5
"""Lines of standard error that are kept for a process that ends without a word."""


class MeasurementProcess:
    """Runs one command. Its attributes change as the process tells more; `changes` counts that. No method waits but `close`."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """`arguments`: those of `spectui`, such as ("bench", "-m", "model.gguf")."""
        self.progress: Progress | None = None
        self.view = View()
        self.notices: tuple[str, ...] = ()
        """What the command said on standard error."""
        self.code: int | None = None
        """The exit code; None while it runs."""
        self.changes = 0
        self._arguments = tuple(arguments)
        self._process: subprocess.Popen[str] | None = None
        self.stopped = False
        """Somebody has stopped it, or has asked it to stop."""
        self.killed = False
        """It was told to end at once."""
        self._state = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="spectui-measurement", daemon=True).start()

    @property
    def running(self) -> bool:
        return self.code is None

    def stop(self) -> None:
        """End as Ctrl+C does: what was measured is kept and shown."""
        with self._state:
            self.stopped = True
            if self._process is not None and self._process.stdin is not None:
                with suppress(OSError):
                    self._process.stdin.close()

    def close(self, timeout: float = 2.0) -> None:
        """Stop, and end the process after at most `timeout` seconds."""
        self.stop()
        if not self._ended.wait(timeout):
            self.kill()
            self._ended.wait(timeout)

    def kill(self) -> None:
        """End the process at once."""
        with self._state:
            self.killed = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        command = [sys.executable, "-m", "spectui", *self._arguments]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
                errors="replace", env=own_environment(), start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # an argument may hold what no argument can, such as a zero byte
            self.notices = (f"The measurement could not be started: {getattr(error, 'strerror', None) or error}.",)
            self._end(1)
            return
        with self._state:
            self._process = process
        if self.stopped:
            self.stop()
        assert process.stdout is not None and process.stderr is not None
        said = threading.Thread(
            target=self._listen, args=(process.stderr,), name="spectui-measurement-said", daemon=True
        )
        said.start()
        for text in process.stdout:
            message = parsed(text)
            if isinstance(message, Progress):
                self.progress = message
            elif isinstance(message, View):
                self.view = message
            self.changes += 1
        code = process.wait()
        said.join()
        self._end(code)

    def _end(self, code: int) -> None:
        self.code = code
        self.changes += 1
        self._ended.set()

    def _listen(self, stderr: IO[str]) -> None:
        others: deque[str] = deque(maxlen=_LAST)
        for text in stderr:
            if text.startswith(_PREFIX):
                self.notices += (text.removeprefix(_PREFIX).strip(),)
                self.changes += 1
            elif text.strip():
                others.append(text.strip())
        if not self.notices and others:
            self.notices = (" ".join(others),)


def own_environment() -> dict[str, str]:
    """The environment without settings: a command says all of its own."""
    variables = {row.variable for row in settings()}
    return {name: value for name, value in os.environ.items() if name not in variables}
