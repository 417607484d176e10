"""`spectui costs`: what passes of a pair cost on this machine, by their size, and from which acceptance drafts pay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from spectui.cli.measure.common import SLOWER_PASSES, json_option, prepare_stdout, tell_if_busy
from spectui.cli.measure.runs import columns
from spectui.cli.models.hub import hub_options
from spectui.cli.models.server import own_setup
from spectui.cli.options import INTERRUPTED, SERVER, Command, configuration, setting_options
from spectui.errors import SpectuiError


@click.command("costs", cls=Command)
@click.option("--again", is_flag=True, help="measure anew what was measured at an earlier start")
@json_option
@hub_options
@setting_options("models", "devices", "speculation", without=SERVER)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    again: bool,
    as_json: bool,
    profile: str | None,
    config_path: Path | None,
    hub_target: str | None,
    hub_draft: str | None,
    **values: Any,
) -> None:
    """Say what passes cost here, and which drafts pay.

    The costs are those that loading measures, once for each pair and machine: of passes over 1 to 16 tokens, and of drafting.
    """
    from spectui.cli.run import Printer, outcome, stopping
    from spectui.engine.isolation.process import engine_for
    from spectui.measure import costs as report

    settings = configuration(profile, config_path, values)
    prepare_stdout()
    setup = replace(own_setup(settings, hub_target, hub_draft), no_profile="off")
    printer, worker = Printer(text=False, colours=False), engine_for(setup)
    try:
        with stopping(worker.stop) as stopped:
            busy = tell_if_busy(SLOWER_PASSES)
            loaded = outcome(worker, worker.call(report.load, setup, again), printer)
    except SpectuiError:
        if stopped:
            ctx.exit(INTERRUPTED)  # Ctrl+C stopped the loading, and the error only says that
        raise
    finally:
        worker.close()
        printer.end()
    if stopped or loaded.costs is None:
        ctx.exit(INTERRUPTED)
    if as_json:
        click.echo(json.dumps(report.json_object(loaded, loaded.costs, busy)))
    else:
        for line in report.text_lines(loaded, loaded.costs, columns()):
            click.echo(line)
