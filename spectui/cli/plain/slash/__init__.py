"""The commands of `spectui chat --plain`, after a slash: what has a key in the window, and makes sense without drawing."""

from __future__ import annotations

from spectui.cli.plain.slash import conversations, see, steer, talk
from spectui.cli.plain.slash.command import Command

COMMANDS: dict[str, Command] = {**talk.COMMANDS, **conversations.COMMANDS, **steer.COMMANDS, **see.COMMANDS}
"""By name, in the order in which the help has them."""
