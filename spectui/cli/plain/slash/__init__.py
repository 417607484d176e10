"""The commands of `spectui chat --plain`, after a slash: what has a key in the window, and makes sense without drawing."""

from __future__ import annotations

from spectui.cli.plain.slash import conversations, see, steer, talk
from spectui.cli.plain.slash.command import Run

RUN: dict[str, Run] = {**talk.RUN, **conversations.RUN, **steer.RUN, **see.RUN}
"""By the name in the table of commands, in the order in which the help has them."""
