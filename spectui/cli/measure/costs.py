"""`spectui costs`: what passes of a pair cost on this machine, by their size, and what follows for the length of drafts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from spectui.cli.measure.common import SLOWER_PASSES, json_option, prepare_stdout, tell_if_busy
from spectui.cli.models.hub import hub_options
from spectui.cli.models.server import own_setup
from spectui.cli.options import INTERRUPTED, SERVER, Command, configuration, setting_options
from spectui.errors import SpectuiError, UsageError

_STOLEN = 0.05
"""Share of the cores that a shared host may give others before it is told."""


@click.command("costs", cls=Command)
@click.option("--contexts", default="0,512,2048", metavar="N,N,...", help="context lengths (default 0,512,2048)")
@click.option("--runs", default=5, type=click.IntRange(1, 1000), metavar="N", help="passes of each size (default 5)")
@click.option(
    "--minutes",
    default=3.0,
    type=click.FloatRange(0, min_open=True),
    metavar="M",
    help="most time to measure (default 3)",
)
@json_option
@hub_options
@setting_options("models", "devices", "speculation", without=SERVER)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    contexts: str,
    runs: int,
    minutes: float,
    as_json: bool,
    profile: str | None,
    config_path: Path | None,
    hub_target: str | None,
    hub_draft: str | None,
    **values: Any,
) -> None:
    """Measure what passes cost here, and say which drafts pay.

    Passes over 1 to 32 tokens are measured at several context lengths, for both models; the sizes at which the cost steps are
    marked. Ctrl+C ends the measurement and prints what there is.
    """
    from spectui.cli.run import Printer, outcome, stopping
    from spectui.engine.isolation.process import engine_for
    from spectui.engine.session import Session
    from spectui.measure.costs import Measurement, measure
    from spectui.measure.progress import ProgressLine
    from spectui.measure.quiet import Stolen
    from spectui.measure.report import costs as report

    lengths = context_lengths(contexts)
    settings = configuration(profile, config_path, values)
    prepare_stdout()
    setup = own_setup(settings, hub_target, hub_draft)
    printer, line = Printer(text=False, colours=False), ProgressLine(60 * minutes)
    worker = engine_for(setup)
    found, problem = Measurement(), None
    try:
        with stopping(worker.stop) as stopped:
            loaded = outcome(worker, worker.call(Session.load, setup), printer)
            other, stolen = tell_if_busy(SLOWER_PASSES), Stolen()
            if stopped:
                ctx.exit(INTERRUPTED)

            def call(function: Callable[..., Any], *arguments: Any) -> Any:
                return outcome(worker, worker.call(function, *arguments), printer)

            measure(call, lengths, runs, 60 * minutes, line, found, lambda: bool(stopped))
    except SpectuiError as error:
        problem = error
    finally:
        worker.close()
        printer.end()
        line.end()
    if problem is not None and not found.cells:
        if stopped:
            ctx.exit(INTERRUPTED)  # Ctrl+C stopped the loading, and the error only says that
        raise problem
    found.stopped |= problem is not None
    if as_json:
        click.echo(json.dumps(report.json_object(loaded, found, other, stolen.share)))
    else:
        for text in report.text_lines(loaded, found):
            click.echo(text)
        if stolen.share > _STOLEN:
            click.echo(f"Meanwhile {stolen} of the cores' time away, so the same command may print other figures.")
    if problem is not None and not stopped:
        raise problem
    if stopped:
        ctx.exit(INTERRUPTED)


def context_lengths(text: str) -> list[int]:
    """The numbers in "0,512". Raises UsageError."""
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = []
    if not lengths or min(lengths) < 0:
        raise UsageError(f"--contexts is numbers of tokens with commas, such as 0,512, not {text!r}.")
    return lengths
