"""What a command asks of the terminal, and of the person there."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, cast

import click

from spectui.errors import SpectuiError, UsageError
from spectui.text import LOOKALIKES

if TYPE_CHECKING:
    from io import TextIOWrapper

yes_option = click.option("--yes", is_flag=True, help="do not ask first")
json_option = click.option("--json", "as_json", is_flag=True, help="print one JSON object instead of the text")


def prepare_stdout(what: str = "the figures") -> None:
    """Let standard output take every character, since a terminal's encoding may lack some. Raises SpectuiError where it is
    closed."""
    if sys.stdout is None:
        raise SpectuiError(f"Standard output is closed, so there is nowhere to write {what}.")
    cast("TextIOWrapper", sys.stdout).reconfigure(errors=LOOKALIKES)


def confirm(what: str, yes: bool, instead: str = "") -> None:
    """Ask before something that takes long or cannot be brought back, unless a person said `yes` before.

    `what`: a sentence without its full stop. Raises UsageError where nobody can be asked, Abort on a no. `instead`: what to do
    there other than to add --yes.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(f"{what}: add --yes{instead}.")
    click.confirm(f"{what}. Go on?", abort=True, err=True)


def is_terminal() -> bool:
    """Are standard input and output a terminal?"""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def must_draw(command: str, instead: str = "") -> None:
    """Raise UsageError or Exit where this command's window cannot be drawn. `instead`: what to do there."""
    if not is_terminal() and "TEXTUAL_DRIVER" in os.environ:  # textual-serve draws in a browser
        return
    if not is_terminal():
        raise UsageError(f"{command} needs a terminal{instead}.")
    if sys.stderr is None or not sys.stderr.isatty():  # Textual draws there
        click.echo(f"spectui: {command} draws its window on standard error, which is no terminal here: leave out 2>.")
        raise click.exceptions.Exit(UsageError.exit_code)
    must_move_cursor()


def must_move_cursor() -> None:
    """Raise UsageError where the terminal cannot move its cursor, so that nothing can be drawn: TERM=dumb, a typewriter."""
    name = os.environ.get("TERM", "")
    if not name or name.startswith(("xterm", "tmux", "screen")):
        return
    try:
        import curses

        curses.setupterm(name, 1)
        moves = (curses.tigetstr("cup") or b"").startswith(b"\x1b[")  # others, such as a VT52, do it in their own way
    except Exception:  # there is no curses, or it does not know the terminal: that may be a new one
        moves = name not in ("dumb", "unknown")
    if not moves:
        raise UsageError(
            f"This terminal (TERM={name}) cannot move its cursor, so no window can be drawn in it: "
            "spectui chat --plain chats line by line."
        )
