"""`spectui replay`: a conversation once more in the window, without a model."""

from __future__ import annotations

from functools import partial

import click

from spectui.cli.options import Command, color_option
from spectui.cli.terminal import must_draw
from spectui.errors import UsageError


@click.command("replay", cls=Command)
@click.argument("name", metavar="ID|demo")
@click.option("--speed", type=float, default=1.0, metavar="X", help="play at so many times the recorded speed (default 1)")
@color_option
@click.pass_context
def command(ctx: click.Context, /, name: str, speed: float) -> None:
    """Play a conversation in the window; demo is one that ships. No model is loaded."""
    from spectui.chat.player import DEMO, FASTEST, SLOWEST, ConversationPlayer, demo_file
    from spectui.store.database import database_file
    from spectui.store.library import open_conversation

    if not SLOWEST <= speed <= FASTEST:
        raise UsageError(f"--speed must be between {SLOWEST:g} and {FASTEST:g}, not {speed:g}.")
    player = ConversationPlayer(open_conversation(demo_file() if name == DEMO else database_file(), name), speed)
    must_draw("spectui replay")
    from spectui.chat.session import ChatSession
    from spectui.config import load
    from spectui.ui.app import show
    from spectui.ui.screen.replay import ReplayScreen

    died, screen = "spectui died while it played a conversation.", partial(ReplayScreen, player=player)
    ctx.exit(show(ChatSession(player, player.setup), load({}).ui, died, make_screen=screen))
