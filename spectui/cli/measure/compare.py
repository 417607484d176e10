"""`spectui compare`: which of several drafts is best for a target on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spectui.cli.measure.common import (
    SLOWER_PASSES,
    chosen_prompts,
    json_option,
    prepare_stdout,
    prompt_options,
    repeatable,
    tell_if_busy,
)  # fmt: skip
from spectui.cli.measure.runs import columns, make_runs, results_file, results_option, told
from spectui.cli.models.hub import hub_options
from spectui.cli.models.server import own_setup
from spectui.cli.options import ENGINE, INTERRUPTED, SERVER, Command, configuration, setting_options
from spectui.paths import expanded

if TYPE_CHECKING:
    from spectui.measure.bench.results import Run

_PROMPTS = "python,table,toaster,story"
_PREDICT, _SEED = 64, 0


@click.command("compare", cls=Command)
@click.argument("drafts", nargs=-1, required=True, metavar="DRAFT...")
@prompt_options(_PROMPTS)
@click.option("--runs", default=3, type=click.IntRange(1, 100), metavar="N", help="replies to each prompt (default 3)")
@click.option(
    "--minutes",
    default=10.0,
    type=click.FloatRange(0, min_open=True),
    metavar="M",
    help="most time to take (default 10)",
)
@results_option
@json_option
@hub_options
@setting_options(*ENGINE, without=SERVER, defaults={"predict": _PREDICT, "seed": _SEED})
@click.pass_context
def command(
    ctx: click.Context,
    /,
    drafts: tuple[str, ...],
    names: str | None,
    prompt_file: Path | None,
    runs: int,
    minutes: float,
    results: Path | None,
    as_json: bool,
    profile: str | None,
    config_path: Path | None,
    hub_target: str | None,
    hub_draft: str | None,
    **values: Any,
) -> None:
    """Say which of several drafts is best for a target.

    The target is loaded once and the drafts one after the other; each answers the same prompts, beside plain decoding. Ctrl+C
    ends it and prints what there is.
    """
    from spectui.engine.isolation.process import engine_for
    from spectui.gguf_files.check import check_file
    from spectui.measure.bench.runner import EngineModels
    from spectui.measure.bench.settings import NO_DRAFT
    from spectui.measure.bench.summary import summarise
    from spectui.measure.compare import Comparison, Draft
    from spectui.measure.progress import ProgressLine
    from spectui.measure.report import compare as report
    from spectui.measure.report import tables

    settings = configuration(profile, config_path, values)
    prompts = chosen_prompts(names, prompt_file, settings.setup.system, _PROMPTS)
    prepare_stdout()
    setup = own_setup(settings, hub_target, hub_draft)
    check_file(setup.model or "", "target")  # before the second in which other processes are watched
    named = [str(expanded(draft)) for draft in drafts]
    if setup.draft is not None and (values["draft"] is not None or hub_draft is not None):
        named.append(setup.draft)  # one of a profile is no part of this command
    named = list(dict.fromkeys(named))
    knobs = repeatable(settings.knobs, _SEED, _PREDICT)
    alone = replace(setup, draft=None, remember="off")
    file = results_file("compare", results)
    found = Comparison([Draft(name) for name in (NO_DRAFT, *named)], knobs, prompts, runs, 60 * minutes)
    line = ProgressLine(60 * minutes)
    tell_if_busy(SLOWER_PASSES)
    worker = engine_for(setup)
    models = EngineModels(worker, alone)

    def tell(made: list[Run]) -> None:
        line(found.share, told(made))

    made = make_runs(worker, models, lambda: found.plan(models), knobs, file, line, tell)
    found.complete &= made.problem is None and not made.stopped
    summary = summarise(made.runs)
    if as_json:
        click.echo(tables.as_json(summary, made.runs, report.json_parts(found)))
    else:
        for text in (*report.text(found), "", *tables.text(summary, columns())):
            click.echo(text)
    if made.problem is not None:
        raise made.problem
    if made.stopped:
        ctx.exit(INTERRUPTED)
