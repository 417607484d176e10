"""What can still be read of a damaged file's conversations, copied to a new one.

SQLite gives up a query at the first damaged page, and its own recovery is not in Python's module: so each table is asked for
ranges of its keys, and a range that fails for its two halves.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from spectui.store.database import (
    FAULTS,
    StoreError,
    as_store_errors,
    connect,
    harden,
    reject_foreign_schema,
    set_aside,
    transaction,
)

PATIENCE_S = 10.0
"""A damaged tree may run in circles: what has not come over by then stays behind."""

FAILED_RANGES = 1000
"""The widest are asked for first, so what is lost beside the damage itself is a small part of a page."""

_LAST_ID = 2**62
_MEND = (
    # A lost message is left out of its conversation: who answered it answers the one before.
    "UPDATE message SET parent = (SELECT id FROM message AS earlier WHERE earlier.conversation = message.conversation"
    " AND earlier.created < message.created ORDER BY created DESC LIMIT 1)"
    " WHERE parent IS NOT NULL AND parent NOT IN (SELECT id FROM message)",
    "INSERT OR IGNORE INTO conversation SELECT conversation, substr(text, 1, 60), min(created), 0, '', '', 0"
    " FROM message GROUP BY conversation",
    "UPDATE conversation SET (head, updated) = (SELECT id, created FROM message WHERE conversation = conversation.id"
    " ORDER BY created DESC LIMIT 1) WHERE head NOT IN (SELECT id FROM message)",
    "DELETE FROM conversation WHERE id NOT IN (SELECT conversation FROM message)",
)


@dataclass(slots=True)
class Rescued:
    """What came of a file that was set aside."""

    aside: Path
    conversations: int = 0
    """Those that something came of."""
    in_time: bool = True

    @property
    def sentence(self) -> str:
        """What a person is told of it."""
        number = self.conversations
        came = f", with what could be read of {number} conversation{'s' if number > 1 else ''}" if number else ""
        late = f"; reading it took too long, and was ended after {PATIENCE_S:g} seconds" if not self.in_time else ""
        return f"The file of the conversations is damaged: it is now {self.aside}, and a new one is begun{came}{late}."


def begin_anew(file: Path) -> Rescued:
    """Set a damaged file aside, and make a new one of what can be read of it. Raises StoreError."""
    rescued = Rescued(file)
    try:
        rescued.aside = set_aside(file)
    except OSError as error:
        raise StoreError(f"The conversations' damaged file {file} cannot be set aside: {error.strerror}.") from error
    with as_store_errors(file), closing(connect(file)) as connection:
        rescue(rescued, connection)
    return rescued


def rescue(rescued: Rescued, connection: sqlite3.Connection) -> None:
    """Add what can be read of the file aside to this database, and say in `rescued` what came.

    A message that is there already stays as it is, with its tokens: whoever said it has written it anew.
    """
    ends = monotonic() + PATIENCE_S
    damaged = rescued.aside
    with suppress(*FAULTS), closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as source:
        harden(source)
        reject_foreign_schema(source)
        source.set_progress_handler(lambda: monotonic() > ends, 10_000)
        read = list(_by_range(source, "message", "id"))
        replies = list(_by_range(source, "reply", "message"))
        conversations = [
            row
            for order in ("", "DESC")
            for row in _until_damage(source, f"SELECT * FROM conversation ORDER BY id {order}")
        ]
        with transaction(connection):
            there = {identity for (identity,) in connection.execute("SELECT id FROM message")}
            messages = [row for row in read if row[0] not in there]
            _add(connection, "message", messages)
            _add(connection, "reply", replies)
            _add(connection, "conversation", conversations)
            for statement in _MEND:
                connection.execute(statement)
        rescued.conversations = len({row[1] for row in read})
        for row in messages:
            if monotonic() > ends:
                break
            _add(connection, "chunk", _until_damage(source, "SELECT * FROM chunk WHERE message = ?", row[0]))
    rescued.in_time = monotonic() <= ends


def _by_range(source: sqlite3.Connection, table: str, key: str) -> Iterator[tuple[object, ...]]:
    ranges, failed = deque([(0, _LAST_ID)]), 0
    query = f"SELECT * FROM {table} NOT INDEXED WHERE {key} BETWEEN ? AND ? ORDER BY {key}"
    while ranges and failed < FAILED_RANGES:
        low, high = ranges.popleft()
        try:
            for row in source.execute(query, (low, high)):
                if isinstance(row[0], int):  # of another kind in a damaged schema only
                    yield row
                    low = row[0] + 1
        except FAULTS:
            failed += 1
            middle = (low + high) // 2
            if low < high:
                ranges += [(low, middle), (middle + 1, high)]


def _until_damage(source: sqlite3.Connection, query: str, *values: object) -> Iterator[tuple[object, ...]]:
    with suppress(*FAULTS):
        yield from source.execute(query, values)


def _add(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[object, ...]]) -> None:
    for row in rows:
        connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
