"""What a command that draws a window asks of the terminal."""

from __future__ import annotations

import os

from spectui.errors import UsageError


def must_move_cursor() -> None:
    """Raise UsageError where the terminal cannot move its cursor, so that nothing can be drawn: TERM=dumb, a typewriter."""
    name = os.environ.get("TERM", "")
    if not name or name.startswith(("xterm", "tmux", "screen")):
        return
    try:
        import curses

        curses.setupterm(name, 1)
        moves = curses.tigetstr("cup") is not None
    except Exception:  # there is no curses, or it does not know the terminal: that may be a new one
        moves = name not in ("dumb", "unknown")
    if not moves:
        raise UsageError(
            f"This terminal (TERM={name}) cannot move its cursor, so no window can be drawn in it: "
            "spectui chat --plain chats line by line."
        )
