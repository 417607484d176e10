"""The open conversation in memory, and its rows on disk.

The chat's threads change the conversation, which notes what of it the disk lacks. The writer's thread writes that; where the
commit fails it is lacking still, and a new file lacks the whole conversation.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterable, Mapping
from threading import RLock
from typing import Any, NamedTuple

from spectui.store.records import OpenMessage, Reply, StoredConversation
from spectui.store.rounds.packed import CHUNK
from spectui.store.rounds.packing import pack

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
    " mixed = excluded.mixed, dropped = excluded.dropped"
)
_CHUNK = "INSERT INTO chunk SELECT ?1, 1 + coalesce(max(number), -1), ?2 FROM chunk WHERE message = ?1"


class Written(NamedTuple):
    """What `write` has written, once it is committed."""

    version: int
    rounds: Mapping[int, int]
    """Messages with new rounds, by their ids: how many they have on disk."""


class ConversationLog:
    """A conversation with the messages that are known of it. `lock` is held to change it, and to read several things of it."""

    def __init__(
        self, conversation: StoredConversation, messages: Iterable[OpenMessage], lock: RLock, saved_in: int | None = None
    ) -> None:
        """`messages`: those of all its branches. `saved_in`: the number of the file that has all of it; None: it is not known
        whether one has it."""
        self.conversation = conversation._replace(messages=(), others=())
        self.messages = {message.id: message for message in messages}
        self.head = conversation.messages[-1].id if conversation.messages else 0
        """The message that the current path ends with."""
        self.lock = lock
        self.version = 0
        """Changes so far."""
        self.lacking: dict[int, int | None] = {}
        """The messages that the disk has otherwise, each with its first round that is not there; None: all are there."""
        self.closed = False
        """Nothing more will be said in it."""
        # These belong to the writer's thread.
        self.saved_in = saved_in
        """The number of the file that has all of it but what is lacking."""
        self.saved_version = 0
        self.refused_by: int | None = None
        """The number of the file that cannot take it, as it has a value that no row there can have."""

    def is_saved(self, file_number: int | None) -> bool:
        """Whether all of it is in the file of this number."""
        return (self.saved_in, self.saved_version) == (file_number, self.version)

    def change(self, head: int | None = None, **changes: Any) -> None:
        """Change the conversation's row."""
        self.head = self.head if head is None else head
        self.conversation = self.conversation._replace(**changes)
        self.version += 1

    def add(self, message: OpenMessage) -> None:
        """Add a message, with the rounds that it has."""
        self.messages[message.id] = message
        self.note(message, 0)
        self.change(head=message.id, updated=message.created)

    def note(self, message: OpenMessage, first_round: int | None = None) -> None:
        """A message has changed, and has new rounds from this number on. Nothing happens where it was not added."""
        if message.id in self.messages:
            if self.lacking.get(message.id) is None:
                self.lacking[message.id] = first_round
            self.version += 1

    def committed(self, written: Written, file_number: int | None) -> None:
        """All that was written is in the file of this number."""
        with self.lock:
            if self.version == written.version:
                self.lacking.clear()
            else:  # has changed meanwhile
                self.lacking |= written.rounds
            self.saved_in, self.saved_version = file_number, written.version


def write(connection: sqlite3.Connection, log: ConversationLog, *, whole: bool) -> Written:
    """Write what the disk lacks of a conversation, or the `whole` of it, within the caller's transaction.

    After an error all is to be written again.
    """
    with log.lock:
        version, conversation = log.version, (*log.conversation[:6], log.head)
        lacking = dict.fromkeys(log.messages, 0) if whole else log.lacking
        messages = [(log.messages[identity].stored(), first) for identity, first in lacking.items()]
        stops = {
            message.id: len(message.reply.rounds) if message.reply is not None else 0
            for message, first in messages
            if first is not None  # otherwise those from the disk would be unpacked
        }
    connection.execute(_CONVERSATION, conversation)
    for message, first in messages:
        number, parent, role, text, created, reply = message
        connection.execute(_MESSAGE, (number, conversation[0], parent, role, text, created))
        if first == 0:
            connection.execute(_NO_REPLY, (number,))
        if reply is None:
            continue
        connection.execute(_REPLY, _reply_row(number, reply))
        for at in range(first or 0, stops.get(number, 0), CHUNK):
            rounds = reply.rounds.between(at, min(at + CHUNK, stops[number]))
            connection.execute(_CHUNK, (number, pack(rounds)))
    return Written(version, stops)


def _reply_row(message: int, reply: Reply) -> tuple[object, ...]:
    setup, stop, prompt_tokens, prompt_s, first_token_s, _, mixed, dropped, grammar = reply
    table = json.dumps(dataclasses.asdict(setup) | {"grammar": grammar})
    return message, table, stop, prompt_tokens, prompt_s, first_token_s, 0, mixed, dropped
