"""`spectui costs`: what passes of a pair cost on this machine, by their size, and from which acceptance drafts pay."""

from __future__ import annotations

import json
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

import click

from spectui.cli.measure.common import MeasureOptions, columns, in_engine, measurement, tell_if_busy
from spectui.cli.options import SERVER
from spectui.cli.terminal import prepare_stdout

if TYPE_CHECKING:
    from spectui.engine.events import Loaded


@measurement("costs", "models", "devices", "speculation", replies=False, without=SERVER)
@click.option("--again", is_flag=True, help="measure anew what was measured at an earlier start")
def command(ctx: click.Context, options: MeasureOptions, again: bool) -> None:
    """Say what passes cost here, and which drafts pay.

    The costs are those that loading measures, once for each pair and machine: of passes over 1 to 16 tokens, and of drafting.
    """
    from spectui.engine.isolation.process import engine_for
    from spectui.measure import costs as report

    prepare_stdout()
    setup = replace(options.own_setup(), no_profile="off")
    loaded = in_engine(ctx, engine_for(setup), True, report.load, setup, again)
    print_costs(report, loaded, options.as_json)


def print_costs(report: ModuleType, loaded: Loaded, as_json: bool) -> None:
    """Print what was measured of this pair, by the report's `json_object` or its `text_lines`."""
    busy = tell_if_busy("passes may take longer than they need")
    if as_json:
        click.echo(json.dumps(report.json_object(loaded, loaded.costs, busy)))
    else:
        click.echo("\n".join(report.text_lines(loaded, loaded.costs, columns())))
