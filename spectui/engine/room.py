"""Whether a conversation fits the context."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.engine.events import Message
from spectui.errors import SpectuiError


class NoRoomError(SpectuiError):
    """The prompt has more tokens than the context holds."""


def no_room(messages: Sequence[Message], tokens: int, n_ctx: int) -> NoRoomError:
    """The error about a prompt of these messages and so many tokens. A last message of the user is what was asked."""
    alone = sum(message.role == "user" for message in messages) == 1
    what = "The prompt has" if alone else "The conversation with this prompt has"
    return NoRoomError(
        f"{what} {tokens} tokens and the context holds {n_ctx}: shorten the prompt, or set a larger context with "
        "-c/--ctx-size."
    )
