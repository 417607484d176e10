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

from spectui.store.database import is_damage
from spectui.store.records import StoredConversation, StoredMessage
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
_TEXT = "UPDATE message SET text = text || ? WHERE id = ?"
_CHUNK = "INSERT INTO chunk SELECT ?1, 1 + coalesce(max(number), -1), ?2 FROM chunk WHERE message = ?1"


class Statement(NamedTuple):
    """A statement of SQL with its values."""

    sql: str
    values: Sequence[object]


class Growth(NamedTuple):
    """A message has grown: by this text, and by its rounds from number `start` up to `stop`."""

    message: int
    text: str
    rounds: PackedRounds
    start: int
    stop: int


class ConversationLog:
    """A conversation with the messages that are known of it, and the statements that wait to be played.

    `lock` is held to change it, and to read more than one thing of it.
    """

    def __init__(self, conversation: StoredConversation, lock: RLock, saved_in: int | None = None) -> None:
        """`saved_in`: the number of the file that has all of it; None: it is not known whether one has it."""
        self.conversation = conversation._replace(messages=(), others=())
        self.messages = {message.id: message for message in (*conversation.messages, *conversation.others)}
        self.head = conversation.messages[-1].id if conversation.messages else 0
        """The message that the current path ends with."""
        self.lock = lock
        self.waiting: deque[Statement | Growth] = deque()
        self.closed = False
        """Nothing more will be said in it."""
        # These belong to the writer's thread.
        self.saved_in = saved_in
        """The number of the file that has all of it but what waits."""
        self.failures: set[str] = set()
        """Kinds of errors over statements that cannot be played at all."""

    def change(self, head: int | None = None, **changes: Any) -> None:
        """Change the conversation's row."""
        self.head = self.head if head is None else head
        self.conversation = self.conversation._replace(**changes)
        self.waiting.append(self._row)

    def add(self, message: StoredMessage) -> None:
        """Add a message, with the rounds that it has."""
        self.messages[message.id] = message
        self.waiting.extend(self._all_of(message))
        self.change(head=message.id, updated=message.created)

    def change_reply(self, message: StoredMessage) -> None:
        """The row of a reply is another one."""
        self.messages[message.id] = message
        self.waiting.append(_reply_statement(message))

    def grow(self, message: StoredMessage, text: str) -> None:
        """A reply has grown by this text, and by a round."""
        self.messages[message.id] = message
        assert message.reply is not None
        stop = len(message.reply.rounds)
        self.waiting.append(Growth(message.id, text, message.reply.rounds, stop - 1, stop))

    def statements(self, *, whole: bool) -> Sequence[Statement | Growth]:
        """The statements that wait. With `whole`, those of the whole conversation wait from now on."""
        with self.lock:
            if whole:
                self.waiting = deque([self._row])
                for message in self.messages.values():
                    self.waiting.extend(self._all_of(message))
            return tuple(self.waiting)

    @property
    def _row(self) -> Statement:
        return Statement(_CONVERSATION, (*self.conversation[:6], self.head))

    def _all_of(self, message: StoredMessage) -> Iterator[Statement | Growth]:
        number, parent, role, text, created, reply = message
        yield Statement(_MESSAGE, (number, self.conversation.id, parent, role, text, created))
        yield Statement(_NO_REPLY, (number,))
        if reply is not None:
            yield _reply_statement(message)
            if reply.rounds:
                yield Growth(number, "", reply.rounds, 0, len(reply.rounds))


def play(connection: sqlite3.Connection, statements: Iterable[Statement | Growth]) -> set[str]:
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


def _steps(statements: Iterable[Statement | Growth]) -> Iterator[Callable[[sqlite3.Connection], object]]:
    """What each statement does. What a message has grown by meanwhile is written at once."""
    for message, group in groupby(statements, lambda each: each.message if isinstance(each, Growth) else None):
        if message is None:
            yield from (partial(_execute, each) for each in group if isinstance(each, Statement))
        else:
            grown = [each for each in group if isinstance(each, Growth)]
            yield partial(_execute, Statement(_TEXT, ("".join(each.text for each in grown), message)))
            yield partial(_add_rounds, grown[0]._replace(stop=grown[-1].stop))


def _execute(statement: Statement, connection: sqlite3.Connection) -> None:
    connection.execute(statement.sql, statement.values)


def _add_rounds(growth: Growth, connection: sqlite3.Connection) -> None:
    for at in range(growth.start, growth.stop, CHUNK):
        packed = pack(growth.rounds.between(at, min(at + CHUNK, growth.stop)))
        connection.execute(_CHUNK, (growth.message, packed))


def _reply_statement(message: StoredMessage) -> Statement:
    assert message.reply is not None
    setup, stop, prompt_tokens, prompt_s, first_token_s, _, *marks = message.reply
    figures = stop, prompt_tokens, prompt_s, first_token_s
    return Statement(_REPLY, (message.id, json.dumps(dataclasses.asdict(setup)), *figures, *marks))


def storable(text: str) -> str:
    """The text with "?" for lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()
