"""The window's end: a command of `spectui` that measures, in a process of its own.

llama.cpp computes in one thread of a process, and the window's process has a chat: so the window measures as a person does,
by the same command. What it shows is what the command prints, and before that the runs that the command has written.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, NamedTuple

from spectui.config import settings
from spectui.errors import UsageError
from spectui.measure.bench.results import read
from spectui.measure.bench.summary import Winner, summarise, winner
from spectui.measure.live.command import results_of
from spectui.measure.progress import MARK
from spectui.measure.report.tables import text
from spectui.paths import program

_PREFIX = "spectui: "
"""Begins each line that the program says on standard error."""

_LAST = 5
"""Lines of standard error that are kept for a process that ends without a word."""


class Progress(NamedTuple):
    """`done`: share of the work, 0..1. `what`: what is measured, and the time left once that is known."""

    done: float
    what: str


class View(NamedTuple):
    """What a measurement has found: lines of text, and what is to be used by it."""

    lines: tuple[str, ...] = ()
    winner: Winner | None = None


class MeasurementProcess:
    """Runs one command. Its attributes change as the process tells more; `changes` counts that. No method waits but `close`."""

    def __init__(self, arguments: Sequence[str], width: int = 100) -> None:
        """`arguments`: those of `spectui`, such as ("bench", "-m", "model.gguf"). `width`: columns of its output."""
        self.progress: Progress | None = None
        self.view = View()
        """What the command has printed or, before that, the table of its runs."""
        self.notices: tuple[str, ...] = ()
        """What the command said on standard error."""
        self.code: int | None = None
        """The exit code; None while it runs."""
        self.changes = 0
        self.stops = 0
        """How often somebody has asked it to stop."""
        self._arguments, self._width = tuple(arguments), width
        self._runs = results_of(arguments)
        self._process: subprocess.Popen[str] | None = None
        self._state = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="spectui-measurement", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self.code is None

    @property
    def failed(self) -> bool:
        """It ended by itself with an error."""
        return self.code not in (None, 0) and not self.stops

    def stop(self) -> None:
        """End as Ctrl+C does: what was measured is kept and shown. The second call ends the process at once."""
        with self._state:
            self.stops += 1
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the process know how often it was asked to stop."""
        if self._process is None or not self.stops:
            return
        if self.stops > 1:
            self._process.kill()
        elif self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def close(self, timeout: float = 2.0) -> None:
        """Stop, and end the process after at most `timeout` seconds."""
        for _ in range(2):
            self.stop()
            self._thread.join(timeout)

    def _run(self) -> None:
        command = program("spectui", *self._arguments)
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
                errors="replace", env=own_environment() | {"COLUMNS": str(self._width)}, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # an argument may hold what no argument can, such as a zero byte
            self.notices = (f"The measurement could not be started: {getattr(error, 'strerror', None) or error}.",)
            self._end(1)
            return
        with self._state:
            self._process = process
            self._pass_on()
        assert process.stdout is not None and process.stderr is not None
        said = threading.Thread(
            target=self._listen, args=(process.stderr,), name="spectui-measurement-said", daemon=True
        )
        said.start()
        output = tuple(line.rstrip("\n") for line in process.stdout)
        code = process.wait()
        said.join()
        self._look(output)
        self._end(code)

    def _look(self, output: tuple[str, ...] = ()) -> None:
        """Read the runs so far."""
        try:
            summary = summarise(read(self._runs) if self._runs is not None and self._runs.exists() else [])
        except UsageError:
            self.view = View(output)
        else:
            self.view = View(output or (tuple(text(summary, self._width)) if summary.rows else ()), winner(summary))

    def _end(self, code: int) -> None:
        self.code = code
        self.changes += 1

    def _listen(self, stderr: IO[str]) -> None:
        others: deque[str] = deque(maxlen=_LAST)
        for said in stderr:
            if said.startswith(MARK):
                with suppress(ValueError):
                    done, what = said[len(MARK) :].rstrip("\n").split("\t", 1)
                    self.progress = Progress(float(done), what)
                    self._look()
            elif said.startswith(_PREFIX):
                self.notices += (said.removeprefix(_PREFIX).strip(),)
            elif said.strip():
                others.append(said.strip())
            self.changes += 1
        if not self.notices and others:
            self.notices = (" ".join(others),)


def own_environment() -> dict[str, str]:
    """The environment without settings: a command says all of its own."""
    variables = {row.variable for row in settings()}
    return {name: value for name, value in os.environ.items() if name not in variables}
