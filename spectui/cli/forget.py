"""`spectui forget`: delete what --remember kept."""

from __future__ import annotations

import click

from spectui.cli.options import Command


@click.command("forget", cls=Command)
def command() -> None:
    """Delete the past replies that --remember kept for drafting. Conversations stay: see spectui history."""
    from spectui.engine.replies import forget

    click.echo(f"Forgotten: the past replies of {forget()} models.")
