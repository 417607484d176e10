"""`spectui fit`: whether a pair that is not downloaded would pay on this machine."""

from __future__ import annotations

from dataclasses import replace
from textwrap import wrap

import click

from spectui.cli.measure.common import columns, in_engine
from spectui.cli.measure.costs import print_costs
from spectui.cli.options import SERVER, Command, Options, setting_options
from spectui.cli.terminal import json_option, prepare_stdout


@click.command("fit", cls=Command)
@click.argument("name", required=False)
@click.option("--target", metavar="NAME", help="the target, such as qwen3-8b")
@click.option("--draft", metavar="NAME", help="the draft, such as qwen3-0.6b")
@click.option("--quant", default="Q4_K_M", metavar="TYPE", help="the type of their weights (default Q4_K_M)")
@setting_options("devices", "speculation", without=(*SERVER, "model", "draft"))
@json_option
@click.pass_context
def command(
    ctx: click.Context, /, options: Options, name: str | None, target: str | None, quant: str, as_json: bool, draft: str | None
) -> None:
    """Say whether a pair would pay that is not downloaded.

    NAME is a pair such as qwen2.5-coder:7b+0.5b, or a target alone. Without it the known models are listed. Random weights of
    the models' shapes are measured, for up to a minute.
    """
    from spectui.engine.isolation.process import engine_for
    from spectui.measure import fit

    prepare_stdout()
    if name is None and target is None and draft is None:
        click.echo("\n".join(wrap(" ".join(fit.known()), columns(), break_on_hyphens=False)))
        return
    wanted = fit.pair(name, target, draft, quant)
    setup = replace(options.settings.setup, model=None, draft=None, server="", no_profile="off")
    loaded = in_engine(ctx, engine_for(setup), False, fit.measure, setup, *wanted)
    print_costs(fit, loaded, as_json)
