"""A conversation as it is read from the disk, and the messages of the open one."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup, check, specs
from spectui.speculation.records import Round
from spectui.store.rounds.packed import PackedRounds

if TYPE_CHECKING:
    from spectui.engine.events import Finished

FAILED = "failed"
"""The `stop` of a reply that failed; of the others it is the value of a `StopReason`."""


class Reply(NamedTuple):
    """How a message of the assistant was made. `stop` is None while it is written, and stays None if spectui dies.

    `setup` names the models that began it; the knobs and the seed are in the rounds. `mixed`: the reply was continued under
    another set-up. `dropped`: how many messages, from the conversation's first on, the prompts behind it leave out. `grammar`:
    what it has to obey, a JSON schema; "" if it is free. Times are in seconds.
    """

    setup: Setup
    stop: str | None
    prompt_tokens: int | None
    prompt_s: float | None
    first_token_s: float | None
    rounds: PackedRounds
    mixed: bool = False
    dropped: int = 0
    grammar: str = ""

    @property
    def knobs(self) -> Knobs | None:
        """The knobs of the last round; None if there is no round."""
        return self.rounds[-1].knobs if self.rounds else None

    def continued(self, *, otherwise: bool) -> Reply:
        """The reply, in progress again; `otherwise`: under another set-up."""
        return self._replace(stop=None, mixed=self.mixed or otherwise)

    def ended(self, stop: str, finished: Finished | None) -> Reply:
        """The reply, ended for this reason. A continuation does not change the figures of its beginning."""
        if finished is None or self.prompt_tokens is not None:
            return self._replace(stop=stop)
        return self._replace(
            stop=stop,
            prompt_tokens=finished.prompt_tokens,
            prompt_s=finished.prompt_s,
            first_token_s=self.first_token_s or finished.time_to_first_token_s,
        )


def unknown_reply() -> Reply:
    """A reply whose record is lost: its setup, stop and times are unknown."""
    return Reply(Setup(), None, None, None, None, PackedRounds())


class StoredMessage(NamedTuple):
    """A message. `parent` is the id of the message before it, None at the start; several messages may have one parent."""

    id: int
    parent: int | None
    role: str
    text: str
    created: float
    reply: Reply | None = None


def _new_id() -> int:
    """A message's id: a random number, so that the disk need not be read for the next one."""
    return int.from_bytes(os.urandom(8), "big") >> 2


@dataclass(slots=True, eq=False)
class OpenMessage:
    """A message of the open conversation, which the journal writes. A prompt's `reply` is empty.

    `content` is its text so far, `parent` the message before it, and `created` when it was made, in seconds since the epoch.
    `reply` says how it was made. Once the journal has the message, the two change with its `lock` held.
    """

    role: str
    content: str
    id: int = field(default_factory=_new_id)
    parent: Self | None = None
    created: float = field(default_factory=time.time)
    reply: Reply = field(default_factory=unknown_reply)

    @classmethod
    def of(cls, stored: StoredMessage, parent: Self | None = None) -> Self:
        """A message that was read from the disk."""
        return cls(stored.role, stored.text, stored.id, parent, stored.created, stored.reply or unknown_reply())

    @property
    def rounds(self) -> PackedRounds:
        """The rounds that made the reply."""
        return self.reply.rounds

    def add(self, round: Round) -> None:
        """The reply has grown by a round."""
        self.content += storable("".join(token.text for token in round.tokens))
        self.rounds.add(round)

    def stored(self) -> StoredMessage:
        """The message as it is now, for the disk or a file."""
        parent = self.parent.id if self.parent is not None else None
        reply = self.reply if self.reply != unknown_reply() else None
        return StoredMessage(self.id, parent, self.role, self.content, self.created, reply)


class StoredConversation(NamedTuple):
    """A conversation: `messages` are those of its current path, the one last written to, and `others` those of its other
    branches, each after its parent. Times are seconds since the epoch."""

    id: str
    title: str
    created: float
    updated: float
    system: str
    target: str
    messages: tuple[StoredMessage, ...]
    others: tuple[StoredMessage, ...] = ()

    @property
    def unfinished(self) -> bool:
        """Whether its last prompt has no complete reply."""
        last = self.messages[-1] if self.messages else None
        return last is not None and (last.reply is None or last.reply.stop is None)


class Summary(NamedTuple):
    """A conversation in the list. `messages` is how many there are, in all branches; `excerpt`: the words around what was
    searched, where a message has it."""

    id: str
    title: str
    updated: float
    target: str
    messages: int
    excerpt: str = ""


def storable(text: str) -> str:
    """The text with "?" for lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def setup_of(table: object) -> Setup:
    """The set-up that a JSON object from disk describes. Unknown names are ignored; bad values have their default."""
    values: dict[str, Any] = {}
    for key, default, spec in specs(Setup):
        kind = str if default is None else type(default)
        if isinstance(table, dict) and isinstance(table.get(key), kind) and not isinstance(table[key], bool):
            with suppress(UsageError):
                check(key, table[key], spec)
                values[key] = table[key]
    return Setup(**values)
