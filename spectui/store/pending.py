"""A conversation as it should be on disk; writes the parts that are not there yet.

The UI thread changes it while the writer's thread saves it. No lock is needed: rows are immutable and replaced whole,
messages and rounds are only appended. The writer appends first and replaces the row that refers to the new part
afterwards; `write_conversation` reads in the opposite order, so what it writes is complete.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import NamedTuple

from spectui.knobs import Setup
from spectui.speculation.records import Round
from spectui.store.database import is_damage
from spectui.store.records import Reply, StoredConversation, StoredMessage
from spectui.store.rounds.packed import CHUNK, PackedRounds
from spectui.store.rounds.packing import pack

_log = logging.getLogger(__name__)


class ConversationRow(NamedTuple):
    """A conversation's row. `head` is the message that the current path ends with; times are seconds since the epoch."""

    id: str
    title: str
    created: float
    updated: float
    system: str
    target: str
    head: int


class ReplyRow(NamedTuple):
    """A reply's row. `setup` is JSON; `stop` is None until the reply has ended."""

    setup: str
    stop: str | None = None
    prompt_tokens: int | None = None
    prompt_s: float | None = None
    first_token_s: float | None = None
    thinking: bool = False
    mixed: bool = False
    dropped: int = 0


class PendingMessage:
    """A message, and the part of it that is on disk.

    A reply's text is `text` and that of all rounds from `text_rounds` on. The chat shows the same `rounds`: the journal appends
    to them. `early` are those behind them that the engine has told and the chat has not taken yet: they are saved too.
    """

    __slots__ = (
        "_lock", "created", "early", "id", "numbered", "parent", "reply", "role", "rounds", "saved", "saved_reply",
        "saved_rounds", "text", "text_rounds",
    )  # fmt: skip

    def __init__(
        self, id: int, parent: int | None, role: str, text: str, created: float, reply: ReplyRow | None = None
    ) -> None:
        self.id, self.parent, self.role, self.text, self.created = id, parent, role, storable(text), created
        self.reply = reply
        self.rounds = PackedRounds()
        self.text_rounds = 0
        self.early: deque[Round] = deque()
        self.numbered = 0
        """Rounds that a reply had before it was continued: those of the engine are numbered from there."""
        self._lock = Lock()  # for rounds and early to be read and changed together
        # What is on disk belongs to the writer's thread.
        self.saved = False
        self.saved_reply: ReplyRow | None = None
        self.saved_rounds = 0

    @classmethod
    def of(cls, message: StoredMessage) -> PendingMessage:
        """A message that was read from the disk."""
        reply = message.reply
        row = reply_row(reply) if reply is not None else None
        made = cls(message.id, message.parent, message.role, message.text, message.created, row)
        if reply is not None:
            made.rounds, made.text_rounds = reply.rounds, len(reply.rounds)
        return made

    def hear(self, round: Round) -> None:
        """Save a round that the chat has not taken yet. In the engine's thread."""
        with self._lock:
            self.early.append(renumbered(round, self.numbered))

    def take(self, round: Round) -> bool:
        """Append a round. Returns False if it was not heard before."""
        with self._lock:
            self.rounds.append(round)
            heard = bool(self.early)
            if heard:
                self.early.popleft()
            return heard

    def take_early(self) -> None:
        """Append what the chat does not take any more."""
        with self._lock:
            for round in self.early:
                self.rounds.append(round)
            self.early.clear()

    def so_far(self) -> RoundsSoFar:
        """All rounds of this moment."""
        with self._lock:
            return RoundsSoFar(self.rounds, len(self.rounds), tuple(self.early))

    def is_saved(self) -> bool:
        """Whether all of it is on disk."""
        return self.saved and self.saved_reply is self.reply and self.saved_rounds >= len(self.so_far())


class RoundsSoFar:
    """A reply's rounds at one moment: the first `taken` of its own, and the early ones."""

    def __init__(self, rounds: PackedRounds, taken: int, early: tuple[Round, ...]) -> None:
        self._rounds, self._taken, self._early = rounds, taken, early

    def __len__(self) -> int:
        return self._taken + len(self._early)

    def between(self, start: int, stop: int) -> list[Round]:
        """The rounds from number `start` up to `stop`, which must exist."""
        own = self._rounds.between(start, min(stop, self._taken)) if start < self._taken else []
        return [*own, *self._early[max(0, start - self._taken) : max(0, stop - self._taken)]]


def renumbered(round: Round, before: int) -> Round:
    """A round of a continuation, numbered after the `before` rounds that the reply had."""
    if not before:
        return round
    tokens = tuple(token._replace(round=token.round + before) for token in round.tokens)
    return dataclasses.replace(round, index=round.index + before, tokens=tokens)


class PendingConversation:
    """A conversation: the messages of this chat, and those read from the disk."""

    def __init__(self, row: ConversationRow, messages: Iterable[PendingMessage] = ()) -> None:
        self.row = row
        self.messages = list(messages)
        self.closed = False
        """Nothing more will be said in it."""
        # What is on disk belongs to the writer's thread.
        self.saved_in: object = None
        """The file that has the saved part; None: unknown."""
        self.saved_row: ConversationRow | None = None
        self.failures: set[str] = set()
        """Kinds of errors over messages that could not be written."""

    @classmethod
    def of(cls, conversation: StoredConversation, saved_in: object) -> PendingConversation:
        """A conversation that was read from this file, or from a file that is not known (None)."""
        messages = conversation.messages
        row = ConversationRow(*conversation[:6], messages[-1].id if messages else 0)
        made = cls(row, map(PendingMessage.of, messages))
        made.saved_in, made.saved_row = saved_in, row
        for message in made.messages:
            message.saved, message.saved_reply, message.saved_rounds = True, message.reply, len(message.rounds)
        return made

    def find(self, message: int | None) -> PendingMessage | None:
        """The message of this id; None if it is not there. The latest are found first."""
        return next((each for each in reversed(self.messages) if each.id == message), None)

    def is_saved(self) -> bool:
        """Whether all of it is on disk."""
        return self.saved_row is self.row and all(message.is_saved() for message in self.messages)

    def is_there(self, connection: sqlite3.Connection, file: object) -> bool:
        """Note which part is in this file, which may be a new one. Returns False if the conversation was deleted there."""
        if self.saved_row is None:
            return True
        there = connection.execute("SELECT 1 FROM conversation WHERE id = ?", (self.row.id,)).fetchone() is not None
        if self.saved_in == file:
            return there
        ids = set()
        if there and self.saved_in is None:  # it was read before the writer had opened the file
            rows = connection.execute("SELECT id FROM message WHERE conversation = ?", (self.row.id,))
            ids = {identity for (identity,) in rows}
        else:
            self.saved_row = None
        for message in self.messages:
            if message.id not in ids:
                message.saved, message.saved_reply, message.saved_rounds = False, None, 0
        self.saved_in = file
        return True


class Written:
    """The parts that `write_conversation` wrote, to be noted after the commit."""

    def __init__(self, pending: PendingConversation, file: object) -> None:
        self.pending = pending
        self.row = pending.row
        self._file = file
        self.messages: list[tuple[PendingMessage, ReplyRow | None, int]] = []
        self.failures: set[str] = set()
        """Kinds of errors over messages that cannot be written at all: those are not tried again."""

    def note(self) -> None:
        """It is on disk now."""
        self.pending.saved_in, self.pending.saved_row = self._file, self.row
        self.pending.failures |= self.failures
        for message, reply, size in self.messages:
            message.saved, message.saved_reply, message.saved_rounds = True, reply, size


def write_conversation(connection: sqlite3.Connection, pending: PendingConversation, file: object) -> Written | None:
    """Write what is not in this file yet, within the caller's transaction; None: another process has deleted it.

    `file` identifies the file: in a new one all of it is written, and replaces rows that another spectui may have copied from
    a damaged file. Call `note` of what is returned after the commit. Raises one of `database.FAULTS`.
    """
    if not pending.is_there(connection, file):
        return None
    written = Written(pending, file)
    messages = tuple(pending.messages)
    if pending.saved_row is not written.row:
        connection.execute(
            # Another spectui may have renamed it: the title stays.
            "INSERT INTO conversation VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " updated = excluded.updated, system = excluded.system, target = excluded.target, head = excluded.head",
            written.row,
        )
    for message in messages:
        if not message.is_saved():
            reply, rounds = message.reply, message.so_far()
            connection.execute("SAVEPOINT message")
            try:
                _write_message(connection, written.row.id, message, reply, rounds)
            except Exception as error:
                if isinstance(error, sqlite3.OperationalError) or is_damage(error):
                    raise
                # A message that cannot be written at all must not block the others.
                connection.execute("ROLLBACK TO message")
                _log.error("a message cannot be written to disk", exc_info=error)
                written.failures.add(type(error).__name__)
            connection.execute("RELEASE message")
            written.messages.append((message, reply, len(rounds)))
    return written


def reply_row(reply: Reply) -> ReplyRow:
    """The row of a reply that was read from the disk."""
    figures = reply.prompt_tokens, reply.prompt_s, reply.first_token_s
    return ReplyRow(setup_json(reply.setup), reply.stop, *figures, reply.thinking, reply.mixed, reply.dropped)


def setup_json(setup: Setup) -> str:
    """The part of the set-up that a reply's row stores."""
    return json.dumps(dataclasses.asdict(setup))


def storable(text: str) -> str:
    """The text with "?" for lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _write_message(
    connection: sqlite3.Connection,
    conversation: str,
    message: PendingMessage,
    reply: ReplyRow | None,
    rounds: RoundsSoFar,
) -> None:
    start, size = message.saved_rounds, len(rounds)
    if not message.saved:
        start = 0
        text = message.text + "".join(_texts(rounds, message.text_rounds, size))
        connection.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET conversation ="
            " excluded.conversation, parent = excluded.parent, role = excluded.role, text = excluded.text,"
            " created = excluded.created",
            (message.id, conversation, message.parent, message.role, text, message.created),
        )
        connection.execute("DELETE FROM reply WHERE message = ?", (message.id,))  # and its chunks
    elif size > start:
        text = "".join(_texts(rounds, start, size))
        connection.execute("UPDATE message SET text = text || ? WHERE id = ?", (text, message.id))
    if reply is None:
        return
    if not message.saved or message.saved_reply is not reply:
        connection.execute(
            # The set-up of a reply stays: a newer spectui may have written more into it than this one has read.
            "INSERT INTO reply VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (message) DO UPDATE SET stop = excluded.stop,"
            " prompt_tokens = excluded.prompt_tokens, prompt_s = excluded.prompt_s, first_token_s = excluded.first_token_s,"
            " thinking = excluded.thinking, mixed = excluded.mixed, dropped = excluded.dropped",
            (message.id, *reply),
        )
    for at in range(start, size, CHUNK):
        packed = pack(rounds.between(at, min(at + CHUNK, size)))
        connection.execute(
            "INSERT INTO chunk SELECT ?1, 1 + coalesce(max(number), -1), ?2 FROM chunk WHERE message = ?1",
            (message.id, packed),
        )


def _texts(rounds: RoundsSoFar, start: int, stop: int) -> Iterator[str]:
    for at in range(start, stop, CHUNK):
        for round in rounds.between(at, min(at + CHUNK, stop)):
            for token in round.tokens:
                yield storable(token.text)
