"""What the window measures with: a command of `spectui` that finds the best settings for a chat's pair, in its own process.

llama.cpp computes in one thread of a process, and the window's process has a chat: so the window measures as a person does,
by the same command. What it shows is what the command prints, and before that the runs that the command has written.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from spectui.config import settings
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup, specs
from spectui.measure.bench.results import new_file, read
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import summarise, winner
from spectui.measure.progress import MARK
from spectui.measure.report.tables import text
from spectui.paths import program
from spectui.text import escaped

OPTIONS = "--minutes 5"
"""The options that it is proposed with."""

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
"""The knobs that it takes from the chat. The other ones are what it varies, or would make it too long."""

_PREFIX = "spectui: "
"""Begins each line that the program says on standard error."""

PATIENCE_S = 2.0
"""Longest time in which a killed process is waited for."""

LONGEST_LINE = 10_000_000
"""Bytes of a line that the command says."""

_LAST = 5
"""Lines of standard error that are kept for a process that ends without a word."""


def arguments(setup: Setup, knobs: Knobs, options: str) -> tuple[str, ...]:
    """What `spectui` is called with. Raises UsageError if the options cannot be split into words."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise UsageError(f"The options cannot be read: {error}.") from None
    # The options come last: of a flag that is given twice the last one counts.
    results = ("--results", str(new_file("tune")))
    return ("tune", "--live", "--config", os.devnull, *results, *flags(setup, knobs), *words)


def results_of(arguments: Sequence[str]) -> Path | None:
    """The file to which the command writes its runs; None for one that writes none."""
    named = [value for flag, value in pairwise(arguments) if flag == "--results"]
    return Path(named[-1]) if named else None


def flags(setup: Setup, knobs: Knobs) -> list[str]:
    """The models, the settings that differ from the defaults, and always the temperature."""
    written = []
    for owner in (setup, knobs):
        for key, default, spec in specs(type(owner)):
            value = getattr(owner, key)
            if (value != default or key == "temperature") and (owner is setup or key in _SAMPLING):
                for each in map(escaped, value) if isinstance(value, tuple) else [str(value)]:
                    written += [spec.flags[0], each]
    return written


def in_short(setup: Setup) -> str:
    """The command before its options, with the models' names in place of their paths."""
    models = [
        part for flag, path in (("-m", setup.model), ("-md", setup.draft)) if path for part in (flag, Path(path).name)
    ]
    return shlex.join(["spectui", "tune", *models])


class Progress(NamedTuple):
    """`done`: share of the work, 0..1. `what`: what is measured, and the time left once that is known."""

    done: float
    what: str


class View(NamedTuple):
    """What a measurement has found: lines of text, and what is to be used by it."""

    lines: tuple[str, ...] = ()
    winner: Setting | None = None


class MeasurementProcess:
    """Runs one command, in an event loop. Its attributes change as the process tells more."""

    def __init__(
        self, arguments: Sequence[str], width: int = 100, changed: Callable[[], object] = lambda: None
    ) -> None:
        """`arguments`: those of `spectui`, such as ("bench", "-m", "model.gguf"). `width`: columns of its output. `changed` is
        called when there is news."""
        self.progress: Progress | None = None
        self.view = View()
        """What the command has printed or, before that, the table of its runs."""
        self.notices: tuple[str, ...] = ()
        """What the command said on standard error."""
        self.code: int | None = None
        """The exit code; None before its end."""
        self.stops = 0
        """How often somebody has asked it to stop."""
        self._arguments, self._width, self._changed = tuple(arguments), width, changed
        self._runs = results_of(arguments)
        self._process: Process | None = None

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self.code is None

    @property
    def failed(self) -> bool:
        """It ended by itself with an error."""
        return self.code not in (None, 0) and not self.stops

    def stop(self) -> None:
        """End as Ctrl+C does: what was measured is kept and shown. The second call ends the process at once."""
        self.stops += 1
        self._pass_on()

    def _pass_on(self) -> None:
        """Let the process know how often it was asked to stop."""
        if self._process is None or self._process.returncode is not None:
            return
        if self.stops > 1:
            self._process.kill()
        elif self.stops and self._process.stdin is not None:
            self._process.stdin.close()

    async def close(self) -> None:
        """End the process at once. Its runs are in their file."""
        self.stops = 2
        self._pass_on()
        if self._process is not None:
            with suppress(asyncio.TimeoutError):  # a driver may keep it
                await asyncio.wait_for(self._process.wait(), PATIENCE_S)

    async def run(self) -> None:
        """Run it, until it ends."""
        command = program("spectui", *self._arguments)
        environment = own_environment() | {"COLUMNS": str(self._width)}
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True, limit=LONGEST_LINE,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # an argument may hold what no argument can, such as a zero byte
            self.notices = (f"The measurement could not be started: {getattr(error, 'strerror', None) or error}.",)
            self._end(1)
            return
        self._pass_on()
        assert self._process.stdout is not None and self._process.stderr is not None
        output, _ = await asyncio.gather(self._process.stdout.read(), self._listen(self._process.stderr))
        code = await self._process.wait()
        await asyncio.to_thread(self._look, tuple(output.decode(errors="replace").splitlines()))
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
        self._changed()

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        others: list[str] = []
        async for line in stderr:
            said = line.decode(errors="replace").rstrip("\n")
            if said.startswith(MARK):
                with suppress(ValueError):
                    done, what = said.removeprefix(MARK).split("\t", 1)
                    self.progress = Progress(float(done), what)
                    await asyncio.to_thread(self._look)
            elif said.startswith(_PREFIX):
                self.notices += (said.removeprefix(_PREFIX).strip(),)
            elif said.strip():
                others = [*others, said.strip()][-_LAST:]
            self._changed()
        if not self.notices and others:
            self.notices = (" ".join(others),)


def own_environment() -> dict[str, str]:
    """The environment without settings: a command says all of its own."""
    variables = {row.variable for row in settings()}
    return {name: value for name, value in os.environ.items() if name not in variables}
