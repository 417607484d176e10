"""What the commands that measure have in common: their options, prompts, length and seed of the replies, and the making of
runs. Each run is written to a file and counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.exceptions import Exit

from spectui.cli.models.server import ModelOptions
from spectui.cli.options import INTERRUPTED, Command, NewFile, setting_options
from spectui.cli.terminal import json_option
from spectui.errors import SpectuiError, UsageError
from spectui.measure.prompts import PREDICT, SEED, USUAL

if TYPE_CHECKING:
    from spectui.engine.events import Loaded
    from spectui.engine.protocol import SessionEngine
    from spectui.knobs import Knobs, Setup
    from spectui.measure.bench.conditions import Conditions
    from spectui.measure.bench.prompt_files import Prompt
    from spectui.measure.bench.results import Run
    from spectui.measure.bench.runner import PlannedRun
    from spectui.measure.progress import ProgressLine

Result = TypeVar("Result")

_WIDEST = 120
"""Columns of text, at most."""

_PROMPT_OPTIONS = (
    click.option("--prompts", "names", metavar="NAME,...", help=f"built-in prompts (default {','.join(USUAL)})"),
    click.option(
        "-f", "--file", "prompt_file", type=click.Path(path_type=Path), metavar="FILE",
        help="your prompts: one a line, or a .jsonl file with conversations; - reads standard input",
    ),
    click.option(
        "--results", type=NewFile(), metavar="FILE",
        help="write the runs to this file (default: a new one in the state directory)",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class MeasureOptions(ModelOptions):
    """The options that these commands share."""

    as_json: bool = False
    names: str | None = None
    prompt_file: Path | None = None
    results: Path | None = None

    def own_setup(self) -> Setup:
        """The set-up of models of this machine, the demo pair where none are named. Raises SpectuiError, and UsageError where
        the settings mean a server."""
        from spectui.engine.demo import default_setup

        if self.server_setup() is not None:
            raise UsageError(
                f"This measures models of this machine, and {self.settings.origins['server']} names a server: give a model "
                "with -m."
            )
        setup = super().own_setup()
        if setup.model is None:
            click.echo("spectui: No model is named (-m), so the demo pair is measured.", err=True)
        return default_setup(setup)

    def prompts(self) -> list[Prompt]:
        """The prompts of the file, or the built-in ones of these names. Raises UsageError."""
        from spectui.measure.bench import prompt_files

        system = self.settings.setup.system
        if self.prompt_file is None:
            names = USUAL if self.names is None else [name.strip() for name in self.names.split(",")]
            return prompt_files.built_in(names, system)
        if self.names is not None:
            raise UsageError("Give the prompts with --prompts or with -f, not with both.")
        return prompt_files.read(self.prompt_file, system)

    def knobs(self, model: str | None) -> Knobs:
        """The knobs, as the model's file recommends them where nothing sets them, with a seed and a length of a reply where a
        person left these open, so that runs write the same."""
        from spectui.gguf_files.check import recommended_sampling

        knobs = self.settings.recommended(recommended_sampling(model)[0] if model else {}, model or "").knobs
        return replace(
            knobs, seed=knobs.seed if knobs.seed >= 0 else SEED, predict=knobs.predict if knobs.predict > 0 else PREDICT
        )


def measurement(
    name: str, *sections: str, replies: bool = True, lists: Collection[str] = (), without: Collection[str] = ()
) -> Callable[[Callable[..., None]], click.Command]:
    """Decorator: a command that measures with the settings of these sections. It is called with click's context,
    `MeasureOptions`, and the options that it has besides. `replies`: it measures replies to prompts. `lists`, `without`: see
    `setting_options`."""

    def decorate(function: Callable[..., None]) -> click.Command:
        defaults = {"predict": PREDICT, "seed": SEED} if replies else {}
        options = setting_options(*sections, lists=lists, without=without, defaults=defaults, kind=MeasureOptions)
        command = options(click.pass_context(function))
        command = json_option(command)
        for option in reversed(_PROMPT_OPTIONS) if replies else ():
            command = option(command)
        return click.command(name, cls=Command)(command)

    return decorate


def in_engine(
    ctx: click.Context, worker: SessionEngine, notices: bool, function: Callable[..., Result], *arguments: Any
) -> Result:
    """What the function returns. It is called with the engine's session and the arguments; the engine's progress is shown, and
    its notices too if wanted, and it is closed. Ctrl+C ends the command. Raises what the function raises."""
    from spectui.cli.run import Printer, outcome, stopping

    printer = Printer(text=False, colours=False, notices=notices)
    try:
        with stopping(worker.stop) as stopped:
            result = outcome(worker, worker.call(function, *arguments), printer)
    finally:
        worker.close()
        printer.end()
    if stopped:
        ctx.exit(INTERRUPTED)
    return result


def columns() -> int:
    """Columns for text on standard output."""
    return min(_WIDEST, shutil.get_terminal_size((100, 24)).columns)


def tell_if_busy(effect: str) -> str:
    """Say on standard error which other processes use the machine, if any do, and return that; takes a second. `effect`: what
    that does to the figures."""
    from spectui.measure.quiet import busy

    if other := busy():
        click.echo(f"spectui: The machine is busy ({other}): {effect}.", err=True)
    return other


class BenchResult(NamedTuple):
    """All runs, the error that ended them, and whether Ctrl+C did."""

    runs: list[Run]
    problem: SpectuiError | None
    stopped: bool


def make_runs(
    worker: SessionEngine,
    setup: Setup,
    knobs: Knobs,
    file: Path,
    line: ProgressLine,
    measure: Callable[[Loaded, Conditions, Callable[[PlannedRun], Run]], None],
    tell: Callable[[Sequence[Run]], None],
) -> BenchResult:
    """Load the models, have `measure` make runs by the function that it is given, and close the worker.

    `tell` is called with the runs so far after each of them. Raises UsageError, and the SpectuiError that ended it where there
    are no runs.
    """
    from spectui.cli.run import stopping
    from spectui.measure.bench.results import ResultsFile
    from spectui.measure.bench.runner import EngineModels, Stopped, prepare

    runs: list[Run] = []
    problem: SpectuiError | None = None
    stopped: list[int] = []
    try:
        out = ResultsFile(file)
        with stopping(worker.stop) as stopped:
            loaded, shared, make = prepare(EngineModels(worker, setup), knobs)
            tell_if_busy("speeds will be too low, and uneven")

            def make_and_tell(planned: PlannedRun) -> Run:
                run = make(planned)
                runs.append(run)
                out.append(run)
                tell(runs)
                if stopped:
                    raise Stopped
                return run

            measure(loaded, shared, make_and_tell)
    except (Stopped, click.Abort, Exit):
        stopped = stopped or [1]
    except UsageError:
        raise
    except SpectuiError as error:
        problem = error
    finally:
        worker.close()
        line.show("")
    if problem is not None and not runs:
        raise problem
    return BenchResult(runs, problem, bool(stopped))


def progress_text(run: Run) -> str:
    """The last run, for the progress line."""
    return f"{run.prompt}, {run.setting.label}: {run.speed:.1f} t/s"
