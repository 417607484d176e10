"""`spectui tune`: the best fixed setting of a pair, found by measuring."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from spectui.cli.measure.common import MeasureOptions, columns, make_runs, measurement, progress_text
from spectui.cli.options import ENGINE, INTERRUPTED, SERVER
from spectui.cli.terminal import prepare_stdout
from spectui.errors import ExistsError
from spectui.paths import absolute

if TYPE_CHECKING:
    from spectui.config import Configuration
    from spectui.engine.events import Loaded
    from spectui.knobs import Setup
    from spectui.measure.bench.conditions import Conditions
    from spectui.measure.bench.results import Run
    from spectui.measure.bench.runner import PlannedRun
    from spectui.measure.bench.settings import Setting
    from spectui.measure.tune import Search

_OF_THE_MEASUREMENT = ("seed", "predict")
"""Flags that are the measured replies' own: in a profile they would cut every reply, and make all the same."""


@measurement("tune", *ENGINE, without=SERVER)
@click.option("--minutes", default=5.0, type=click.FloatRange(0.05, 600), metavar="M", help="time to take (default 5)")
@click.option("--save", metavar="NAME", help="write what is fastest as a profile of the configuration file")
@click.option("--replace", "replacing", is_flag=True, help="replace a profile that exists")
def command(ctx: click.Context, options: MeasureOptions, minutes: float, save: str | None, replacing: bool) -> None:
    """Find the fastest settings of a pair.

    They are the best fixed setting, or auto if that beats it; what no setting gives is said too. Ctrl+C ends the search and
    prints what is known until then.
    """
    from spectui import paths
    from spectui.engine.isolation.process import engine_for
    from spectui.gguf_files.check import check_file
    from spectui.measure import report
    from spectui.measure.bench.results import new_file
    from spectui.measure.bench.summary import summarise
    from spectui.measure.progress import ProgressLine
    from spectui.measure.tune import Search, candidates, sentences
    from spectui.profiles.file import ProfileFile

    settings = options.settings
    prepare_stdout()
    file = options.config_path or paths.config_file()
    if save is not None:
        save = save.strip()
        ProfileFile(file).check(save, replace=replacing)
    prompts, setup = options.prompts(), options.own_setup()
    knobs = options.knobs(setup.model)
    check_file(setup.model or "", "target")
    if options.results is not None and options.results.exists():
        raise ExistsError(f"{options.results} exists already: name another file with --results.")
    search = Search(prompts, knobs.predict, 60 * minutes, perf_counter, knobs.temperature)
    line = ProgressLine(60 * minutes)
    loaded: list[Loaded] = []

    def measure(pair: Loaded, conditions: Conditions, make: Callable[[PlannedRun], Run]) -> None:
        loaded.append(pair)
        search.run(candidates(pair.draft is not None), make)

    def tell(runs: Sequence[Run]) -> None:
        line(min(1.0, search.used), progress_text(runs[-1]))

    results = options.results or new_file("tune")
    made = make_runs(engine_for(setup, knobs), setup, knobs, results, line, measure, tell)
    if not loaded:
        ctx.exit(INTERRUPTED)
    summary = summarise(made.runs)
    advice = list(sentences(search, summary.chosen, loaded[0].costs))
    best = summary.chosen if search.finished else None
    if options.as_json:
        known = {"complete": search.finished, "best": search.best and asdict(search.best),
                 "winner": best and best.knobs, "tried": search.tried, "sentences": advice}  # fmt: skip
        click.echo(report.as_json(summary, made.runs, known))
    else:
        wrapped = (line for sentence in advice for line in wrap(sentence, columns()))
        for text in (*report.text(summary, columns()), *wrapped):
            click.echo(text)
    if save is not None:
        if best is None:
            click.echo(f"spectui: Profile {save} was not saved: it ended before the best setting was repeated.", err=True)
        else:
            ProfileFile(file).write({save: profile_settings(settings, setup, best)}, replace=replacing)
            _say_saved(save, file, best, search)
    if made.problem is not None:
        raise made.problem
    if made.stopped:
        ctx.exit(INTERRUPTED)


def _say_saved(name: str, file: Path, best: Setting, search: Search) -> None:
    from spectui.measure.tune import flags

    click.echo(f"spectui: Profile {name} in {file}: {best.label}.", err=True)
    if best.knobs.get("policy") == "auto" and search.best is not None:
        click.echo(
            "spectui: For programs that have no automatic length there is the best fixed setting: spectui config "
            f"export {shlex.quote(name)} --to llama-server {flags(search.best)}",
            err=True,
        )


def profile_settings(settings: Configuration, setup: Setup, winner: Setting) -> dict[str, Any]:
    """The pair, its whole set-up and the sampling as the person gave them, and what won.

    The seed and the length of the measured replies are left out where flags gave them.
    """
    from spectui.config import SETTINGS, rooted
    from spectui.knobs import Knobs, Setup

    holders: dict[type, Setup | Knobs] = {Setup: setup, Knobs: settings.knobs}
    given: dict[str, Any] = {}
    for key, row in SETTINGS.items():
        holder = holders.get(row.owner)
        origin = settings.origins[key]
        if holder is None or (key in _OF_THE_MEASUREMENT and origin.startswith("flag ")):
            continue
        value = getattr(holder, key)
        if value is not None and (origin != "default" or key in ("model", "draft")):
            given[key] = rooted(row.spec, value, absolute("."))
    return {**given, **winner.knobs}
