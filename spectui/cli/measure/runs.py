"""What bench, tune and compare have in common: a plan whose runs are made, written to a file and counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from spectui.cli.options import NewFile
from spectui.errors import ExistsError, SpectuiError, UsageError

if TYPE_CHECKING:
    from spectui.engine.protocol import SessionEngine
    from spectui.knobs import Knobs
    from spectui.measure.bench.results import Run
    from spectui.measure.bench.runner import EngineModels, Plan
    from spectui.measure.progress import ProgressLine

_WIDEST = 120
"""Columns of wrapped sentences, at most."""

results_option = click.option(
    "--results",
    type=NewFile(),
    metavar="FILE",
    help="write the runs to this file (default: a new one in the state directory)",
)


class Made(NamedTuple):
    """All runs, the error that ended them, and whether Ctrl+C did."""

    runs: list[Run]
    problem: SpectuiError | None
    stopped: bool


def columns() -> int:
    """Columns for text on standard output."""
    return min(_WIDEST, shutil.get_terminal_size((100, 24)).columns)


def results_file(command: str, file: Path | None) -> Path:
    """Where the runs go. Raises ExistsError."""
    from spectui.measure.bench.results import new_file

    if file is None:
        return new_file(command)
    if file.exists():
        hint = "go on with it by --resume, print it by --show, or " if command == "bench" else ""
        raise ExistsError(f"{file} exists already: {hint}name another with --results.")
    return file


def make_runs(
    worker: SessionEngine,
    models: EngineModels,
    plan: Callable[[], Plan],
    knobs: Knobs,
    file: Path,
    line: ProgressLine,
    tell: Callable[[list[Run]], None],
    done: list[Run] | None = None,
) -> Made:
    """Make the runs of a plan, which may load models when it is asked for, and close the worker.

    `tell` is called with the runs that were made after each of them. `done`: those that were made before. Raises UsageError,
    and the SpectuiError that ended it where there are no runs.
    """
    from spectui.cli.run import stopping
    from spectui.measure.bench.conditions import conditions
    from spectui.measure.bench.results import ResultsFile
    from spectui.measure.bench.runner import measure

    before = done or []
    made: list[Run] = []
    problem: SpectuiError | None = None
    stopped: list[int] = []
    try:
        out = ResultsFile(file)
        with stopping(worker.stop) as stopped:
            runs = plan()  # loads the models, and makes a draft that is missing: then all files have their sizes
            for run in measure(models.answer, runs, knobs, conditions(models.setup, knobs)):
                run = replace(run, **models.facts)
                made.append(run)
                out.append(run)
                tell(made)
                if stopped:
                    break
    except click.Abort:
        stopped = stopped or [1]
    except UsageError:
        raise
    except SpectuiError as error:
        problem = None if stopped else error  # Ctrl+C stopped the loading, and the error only says that
    finally:
        worker.close()
        line.end()
    if problem is not None and not (before or made):
        raise problem
    return Made([*before, *made], problem, bool(stopped))


def told(runs: list[Run]) -> str:
    """The last run, for the progress line."""
    run = runs[-1]
    return f"{run.prompt}, {run.setting.label}: {run.speed:.1f} t/s"
