"""`spectui compare`: which of several drafts is best for a target on this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from spectui.cli.measure.common import SLOWER_PASSES, json_option, prepare_stdout, tell_if_busy
from spectui.cli.measure.live import live_option, progress_line
from spectui.cli.models.hub import fetched, hub_options
from spectui.cli.options import INTERRUPTED, Command, configuration, setting_options


@click.command("compare", cls=Command)
@click.argument("drafts", nargs=-1, required=True, metavar="DRAFT...")
@click.option("--prompts", "kinds", metavar="NAME,...", help="built-in prompts (default python,table,toaster,story)")
@click.option("--tokens", default=64, type=click.IntRange(8, 4096), metavar="N", help="length of a reply (default 64)")
@click.option("--runs", default=3, type=click.IntRange(1, 100), metavar="N", help="replies to each prompt (default 3)")
@click.option(
    "--minutes",
    default=10.0,
    type=click.FloatRange(0, min_open=True),
    metavar="M",
    help="most time to take (default 10)",
)
@json_option
@live_option
@setting_options("models", "devices", "speculation")
@hub_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    drafts: tuple[str, ...],
    kinds: str | None,
    tokens: int,
    runs: int,
    minutes: float,
    as_json: bool,
    live: bool,
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
    from spectui.cli.measure.until_failure import measure_until_failure
    from spectui.cli.run import stopping
    from spectui.engine.demo import default_setup
    from spectui.engine.isolation.process import engine_for
    from spectui.gguf_files.check import check_file
    from spectui.measure.compare import KINDS, Comparison, chosen_kinds, compare
    from spectui.measure.report import compare as report
    from spectui.measure.report.views import compare_view

    settings = configuration(profile, config_path, values)
    chosen = KINDS if kinds is None else chosen_kinds(kinds)
    prepare_stdout()
    setup = default_setup(fetched(settings, hub_target, hub_draft))
    check_file(setup.model or "", "target")  # before the second in which other processes are watched
    named = [str(Path(draft).expanduser()) for draft in drafts]
    if setup.draft is not None and (values["draft"] is not None or hub_draft is not None):
        named.append(setup.draft)  # one of a profile is no part of this command
    knobs = settings.knobs if settings.knobs.seed >= 0 else replace(settings.knobs, seed=0)
    line = progress_line(live, 60 * minutes)
    worker = engine_for(setup)
    try:
        other = tell_if_busy(SLOWER_PASSES)
        with stopping(worker.stop) as stopped:
            asked = (setup, named, knobs, chosen, tokens, runs, 60 * minutes)

            def watch(found: Comparison) -> None:
                line.show(lambda: compare_view(found))

            found, problem = measure_until_failure(worker, compare, asked, Comparison(), line, watch=watch)
    finally:
        worker.close()
        line.end()
    if problem is not None:
        if not any(row.replies for row in found.rows):
            raise problem
        found.stopped = True
    if live:
        line.show(lambda: compare_view(found))
        line.end()
    elif as_json:
        click.echo(json.dumps(report.json_object(found, setup, other)))
    else:
        for text in report.text_lines(found):
            click.echo(text)
    if problem is not None and not stopped:
        raise problem
    if stopped:
        ctx.exit(INTERRUPTED)
