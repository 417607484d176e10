"""What a command is, and how its words are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from spectui.errors import UsageError

if TYPE_CHECKING:
    from spectui.cli.plain.chat import PlainChat

Listed = TypeVar("Listed")


class Command(NamedTuple):
    """What is called with the chat and the words behind the command, and how the help tells of it."""

    run: Callable[[PlainChat, str], None]
    arguments: str
    help: str


def numbered(listed: Sequence[Listed], word: str, what: str, where: str) -> Listed:
    """One of a list that was shown, by its number from 1. Raises UsageError."""
    if not word:
        raise UsageError(f"Give the number of a {what}: /{where} shows the list.")
    if not word.isdecimal() or not 1 <= int(word) <= len(listed):
        raise UsageError(f"There is no {what} {word} in the list: /{where} shows it.")
    return listed[int(word) - 1]


_COMMANDS = {
    "drop": "/drop", "go-on": "/continue", "load": "/load", "models": "/load TARGET DRAFT", "new-chat": "/new",
    "placement": "/placement", "regenerate": "/regenerate", "safe-way": "/safe", "stop": "Ctrl+C", "undo": "/undo",
    "undrop": "/undrop", "without-draft": "/nodraft",
}  # fmt: skip
"""What an action of the chat is called here, by its id."""


def with_commands(sentence: str) -> str:
    """A sentence of `chat.sentences` with commands in place of the {ids} of actions."""
    return re.sub(r"\{([a-z-]+)\}", lambda found: _COMMANDS[found[1]], sentence)
