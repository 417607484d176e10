"""Whether a conversation fits the context, and how many of its oldest turns must go so that it does."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from spectui.engine.events import Message
from spectui.errors import SpectuiError


class NoRoomError(SpectuiError):
    """The prompt has more tokens than the context holds. `to_drop`: see `to_drop`."""

    def __init__(self, message: str, to_drop: int = 0, tokens: int = 0, n_ctx: int = 0) -> None:
        super().__init__(message)
        self.to_drop, self.tokens, self.n_ctx = to_drop, tokens, n_ctx


LARGER = "set a larger context with -c/--ctx-size"


def no_room(messages: Sequence[Message], tokens: int, n_ctx: int, to_drop: int = 0, larger: str = LARGER) -> NoRoomError:
    """The error about a prompt of these messages and so many tokens. A last message of the user is what was asked. `larger`:
    the way to more room."""
    alone = sum(message.role == "user" for message in messages) == 1
    what = "The prompt has" if alone else "The conversation with this prompt has"
    guided = messages[0].role == "system" and not to_drop  # dropped turns leave room for both
    shorter = "the prompt or the system prompt" if guided else "the prompt"
    return NoRoomError(
        f"{what} {tokens} tokens and the context holds {n_ctx}: shorten {shorter}, or {larger}.", to_drop, tokens, n_ctx
    )


def to_drop(messages: Sequence[Message], n_ctx: int, count: Callable[[Sequence[Message]], int]) -> int:
    """How many of the oldest messages behind the system prompt must go so that at least half of the context is free.

    Those are whole turns, a prompt with its reply. The last turn stays: if it takes more than half, all others go. 0 if
    there are no others, or if the last turn has no room even so. `count` gives the tokens of a conversation.
    """
    first = next((at for at, message in enumerate(messages) if message.role != "system"), 0)
    starts = [at for at in range(first + 1, len(messages)) if messages[at].role == "user"]

    def tokens(start: int) -> int:
        return count((*messages[:first], *messages[start:]))

    fits = bisect_left(starts, -(n_ctx // 2), key=lambda start: -tokens(start))
    start = starts[min(fits, len(starts) - 1)] if starts else 0
    return start - first if starts and tokens(start) <= n_ctx else 0
