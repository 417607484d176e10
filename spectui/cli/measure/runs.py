"""Makes the runs of bench and tune: each is written to a file and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from spectui.cli.measure.common import tell_if_busy
from spectui.errors import SpectuiError, UsageError

if TYPE_CHECKING:
    from spectui.engine.events import Loaded
    from spectui.engine.protocol import SessionEngine
    from spectui.knobs import Knobs, Setup
    from spectui.measure.bench.conditions import Conditions
    from spectui.measure.bench.results import Run
    from spectui.measure.bench.runner import PlannedRun
    from spectui.measure.progress import ProgressLine


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
    except (Stopped, click.Abort):
        stopped = stopped or [1]
    except UsageError:
        raise
    except SpectuiError as error:
        problem = None if stopped else error  # Ctrl+C stopped the loading, and the error only says that
    finally:
        worker.close()
        line.end()
    if problem is not None and not runs:
        raise problem
    return BenchResult(runs, problem, bool(stopped))


def progress_text(run: Run) -> str:
    """The last run, for the progress line."""
    return f"{run.prompt}, {run.setting.label}: {run.speed:.1f} t/s"
