"""The open conversation as statements: each change of it is one, and all are played again until they are committed.

The chat's threads add statements, and the writer's thread plays them. It removes those that were committed, so what waits is
what is not on disk. A new file gets the whole conversation.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from threading import RLock
from typing import Any, NamedTuple

from spectui.knobs import Setup
from spectui.speculation.records import Round
from spectui.store.database import is_damage
from spectui.store.records import Reply, StoredConversation, StoredMessage
from spectui.store.rounds.packed import CHUNK, PackedRounds
from spectui.store.rounds.packing import pack

_log = logging.getLogger(__name__)

_CONVERSATION = (
    # Another spectui may have renamed it: the title stays.
    "INSERT INTO conversation VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET updated = excluded.updated,"
    " system = excluded.system, target = excluded.target, head = excluded.head"
)
_MESSAGE = (
    # Another spectui may have copied it from a damaged file.
    "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET conversation = excluded.conversation,"
    " parent = excluded.parent, role = excluded.role, text = excluded.text, created = excluded.created"
)
_NO_REPLY = "DELETE FROM reply WHERE message = ?"  # and its chunks
_REPLY = (
    # The set-up of a reply stays: a newer spectui may have written more into it than this one has read.
    "INSERT INTO reply VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (message) DO UPDATE SET stop = excluded.stop,"
    " prompt_tokens = excluded.prompt_tokens, prompt_s = excluded.prompt_s, first_token_s = excluded.first_token_s,"
    " thinking = excluded.thinking, mixed = excluded.mixed, dropped = excluded.dropped"
)
_CHUNK = "INSERT INTO chunk SELECT ?1, 1 + coalesce(max(number), -1), ?2 FROM chunk WHERE message = ?1"


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

    @classmethod
    def of(cls, setup: Setup, **fields: Any) -> ReplyRow:
        """The row of a reply by these models."""
        return cls(json.dumps(dataclasses.asdict(setup)), **fields)


@dataclasses.dataclass(slots=True, eq=False)
class LoggedMessage:
    """A message. A reply's text is `text` and that of all rounds from `text_rounds` on; the chat has the same `rounds`."""

    id: int
    parent: int | None
    role: str
    text: str
    created: float
    reply: ReplyRow | None = None
    rounds: PackedRounds = dataclasses.field(default_factory=PackedRounds)
    text_rounds: int = 0

    @classmethod
    def of(cls, message: StoredMessage) -> LoggedMessage:
        """A message that was read from the disk."""
        fields = message.id, message.parent, message.role, storable(message.text), message.created
        reply = message.reply
        return cls(*fields, _reply_row(reply), reply.rounds, len(reply.rounds)) if reply is not None else cls(*fields)


class Statement(NamedTuple):
    """A statement of SQL with its values."""

    sql: str
    values: Sequence[object]


class NewRounds(NamedTuple):
    """The rounds from number `start` up to `stop` of a message, to be added to those on disk, with their text."""

    message: LoggedMessage
    start: int
    stop: int


class ConversationLog:
    """A conversation, and the statements that wait to be played.

    `lock` is held to change it, and to read more than one thing of it.
    """

    def __init__(
        self, row: ConversationRow, lock: RLock, messages: Iterable[LoggedMessage] = (), saved_in: int | None = None
    ) -> None:
        """`saved_in`: the number of the file that has all of it; None: it is not known whether one has it."""
        self.row = row
        self.lock = lock
        self.messages = list(messages)
        self.waiting: deque[Statement | NewRounds] = deque()
        self.closed = False
        """Nothing more will be said in it."""
        # These belong to the writer's thread.
        self.saved_in = saved_in
        """The number of the file that has all of it but what waits."""
        self.failures: set[str] = set()
        """Kinds of errors over statements that cannot be played at all."""

    @classmethod
    def of(cls, conversation: StoredConversation, lock: RLock, saved_in: int | None) -> ConversationLog:
        """A conversation that was read from the disk."""
        messages = conversation.messages
        row = ConversationRow(*conversation[:6], messages[-1].id if messages else 0)
        return cls(row, lock, map(LoggedMessage.of, messages), saved_in)

    def find(self, message: int | None) -> LoggedMessage | None:
        """The message of this id; None if it is not there. The latest are found first."""
        return next((each for each in reversed(self.messages) if each.id == message), None)

    def set_row(self, **changes: Any) -> None:
        """Change the conversation's row."""
        self.row = self.row._replace(**changes)
        self.waiting.append(Statement(_CONVERSATION, self.row))

    def add(self, message: LoggedMessage) -> None:
        """Add a message, with the rounds that it has."""
        self.messages.append(message)
        self.waiting.extend(self._all_of(message))
        self.set_row(updated=message.created, head=message.id)

    def set_reply(self, message: LoggedMessage, **changes: Any) -> None:
        """Change the row of a reply, which may not have been added yet."""
        row = message.reply or ReplyRow.of(Setup())  # damage may have taken it
        message.reply = row._replace(**changes)
        if self.find(message.id) is message:
            self.waiting.append(Statement(_REPLY, (message.id, *message.reply)))

    def grow(self, message: LoggedMessage, round: Round) -> None:
        """Add a round to a message, which may not have been added yet."""
        message.rounds.append(round)
        if self.find(message.id) is message:
            self.waiting.append(NewRounds(message, len(message.rounds) - 1, len(message.rounds)))

    def statements(self, *, whole: bool) -> Sequence[Statement | NewRounds]:
        """The statements that wait. With `whole`, those of the whole conversation wait from now on."""
        with self.lock:
            if whole:
                self.waiting = deque([Statement(_CONVERSATION, self.row)])
                for message in self.messages:
                    self.waiting.extend(self._all_of(message))
            return tuple(self.waiting)

    def _all_of(self, message: LoggedMessage) -> Iterator[Statement | NewRounds]:
        fields = message.id, self.row.id, message.parent, message.role, message.text, message.created
        yield Statement(_MESSAGE, fields)
        yield Statement(_NO_REPLY, (message.id,))
        if message.reply is not None:
            yield Statement(_REPLY, (message.id, *message.reply))
            if message.rounds:
                yield NewRounds(message, 0, len(message.rounds))


def play(connection: sqlite3.Connection, statements: Iterable[Statement | NewRounds]) -> set[str]:
    """Play these statements within the caller's transaction. Raises one of `database.FAULTS`, after which all are to be played
    again.

    Returns the kinds of errors over statements that cannot be played at all: those must not block the others.
    """
    failures: set[str] = set()
    for step in _steps(statements):
        connection.execute("SAVEPOINT step")
        try:
            step(connection)
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) or is_damage(error):
                raise
            connection.execute("ROLLBACK TO step")
            _log.error("a part of a message cannot be written to disk", exc_info=error)
            failures.add(type(error).__name__)
        connection.execute("RELEASE step")
    return failures


def _steps(statements: Iterable[Statement | NewRounds]) -> Iterator[Callable[[sqlite3.Connection], object]]:
    """What each statement does. Rounds that follow each other are packed together."""
    for message, group in groupby(statements, lambda each: each.message if isinstance(each, NewRounds) else None):
        if message is None:
            yield from (partial(_execute, each) for each in group if isinstance(each, Statement))
        else:
            rounds = [each for each in group if isinstance(each, NewRounds)]
            start, stop = rounds[0].start, rounds[-1].stop
            yield partial(_add_text, message, max(start, message.text_rounds), stop)
            yield partial(_add_rounds, message, start, stop)


def _execute(statement: Statement, connection: sqlite3.Connection) -> None:
    connection.execute(statement.sql, statement.values)


def _add_text(message: LoggedMessage, start: int, stop: int, connection: sqlite3.Connection) -> None:
    text = "".join(token.text for part in _parts(message, start, stop) for round in part for token in round.tokens)
    connection.execute("UPDATE message SET text = text || ? WHERE id = ?", (storable(text), message.id))


def _add_rounds(message: LoggedMessage, start: int, stop: int, connection: sqlite3.Connection) -> None:
    for part in _parts(message, start, stop):
        connection.execute(_CHUNK, (message.id, pack(part)))


def _parts(message: LoggedMessage, start: int, stop: int) -> Iterator[list[Round]]:
    return (message.rounds.between(at, min(at + CHUNK, stop)) for at in range(start, stop, CHUNK))


def _reply_row(reply: Reply) -> ReplyRow:
    return ReplyRow.of(
        reply.setup, stop=reply.stop, prompt_tokens=reply.prompt_tokens, prompt_s=reply.prompt_s,
        first_token_s=reply.first_token_s, thinking=reply.thinking, mixed=reply.mixed, dropped=reply.dropped,
    )  # fmt: skip


def storable(text: str) -> str:
    """The text with "?" for lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()
