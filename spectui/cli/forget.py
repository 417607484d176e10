"""`spectui forget`: delete what is saved to draft better."""

from __future__ import annotations

import click

from spectui.cli.options import Command


@click.command("forget", cls=Command)
def command() -> None:
    """Delete what is saved for drafting: the past replies of --remember, and the draft copies.

    Conversations stay: spectui history deletes them.
    """
    from spectui.engine import replies
    from spectui.engine.loading import draft_copy

    click.echo(
        f"Forgotten: the past replies of {replies.delete_all()} models, {draft_copy.delete_all()} copies of drafts."
    )
