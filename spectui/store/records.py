"""What is kept of a conversation, as its readers get it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup, check, specs
from spectui.store.packed import PackedRounds

FAILED = "failed"
"""A reply's stop, where something broke; else it is a `StopReason`'s value."""


class Reply(NamedTuple):
    """How a message of the assistant came about. `stop` is None while it is written, and stays so if spectui dies.

    `setup` names the models that began it; the knobs, the seed among them, are in the rounds. `thinking`: the prompt had
    opened it. `mixed`: it was gone on with under another set-up.
    """

    setup: Setup
    stop: str | None
    prompt_tokens: int | None
    prompt_s: float | None
    first_token_s: float | None
    rounds: PackedRounds
    thinking: bool = False
    mixed: bool = False

    @property
    def knobs(self) -> Knobs | None:
        """Those of the last round."""
        return self.rounds[-1].knobs if self.rounds else None


class StoredMessage(NamedTuple):
    """One message. `parent` is the message before it, None at the start; a message may have several children."""

    id: int
    parent: int | None
    role: str
    text: str
    created: float
    reply: Reply | None = None


class Conversation(NamedTuple):
    """A conversation along one path from its start: that which was last written. Times are seconds since the epoch."""

    id: str
    title: str
    created: float
    updated: float
    system: str
    target: str
    messages: tuple[StoredMessage, ...]

    @property
    def unfinished(self) -> bool:
        """Its last prompt has no whole reply."""
        last = self.messages[-1] if self.messages else None
        return last is not None and (last.reply is None or last.reply.stop is None)


class Summary(NamedTuple):
    """A line in the list of conversations."""

    id: str
    title: str
    created: float
    updated: float
    target: str
    messages: int


def setup_of(table: object) -> Setup:
    """The set-up that a table from disk describes; what another spectui called otherwise, or out of range, has its default."""
    values: dict[str, Any] = {}
    for key, default, spec in specs(Setup):
        kind = str if default is None else type(default)
        if isinstance(table, dict) and isinstance(table.get(key), kind) and not isinstance(table[key], bool):
            with suppress(UsageError):
                check(key, table[key], spec)
                values[key] = table[key]
    return Setup(**values)
