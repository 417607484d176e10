"""`spectui forget`: delete what is saved to be faster."""

from __future__ import annotations

import click

from spectui.cli.options import Command
from spectui.cli.terminal import confirm, yes_option


@click.command("forget", cls=Command)
@yes_option
def command(yes: bool) -> None:
    """Delete what is saved to be faster.

    That is past replies, copies of drafts, and what models have read of conversations. It asks
    before it deletes the past replies of --remember; copies are made again when they are needed. Conversations stay: spectui
    history deletes them.
    """
    from spectui import paths
    from spectui.engine.kept import replies
    from spectui.engine.loading import draft_copy

    if saved := replies.saved():
        confirm(f"This deletes the past replies of {len(saved)} models, and nothing brings them back", yes)
    models, copies, read = replies.delete_all(), draft_copy.delete_all(), paths.delete_kept()
    if models or copies or read:
        click.echo(
            f"Forgotten: the past replies of {models} models, {copies} copies of drafts, what was read of {read} conversations."
        )
    else:
        click.echo("spectui: Nothing is saved to be faster.", err=True)
