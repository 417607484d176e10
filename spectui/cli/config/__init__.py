"""`spectui config`: settings, where they come from, and profiles from and for other programs."""

from __future__ import annotations

import click

from spectui.cli.config.exporting import export_command
from spectui.cli.config.importing import import_command
from spectui.cli.config.own import init, path, show
from spectui.cli.options import Group


@click.group("config", cls=Group, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show settings and their origins; import and export profiles."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for each in (show, path, init, import_command, export_command):
    command.add_command(each)
