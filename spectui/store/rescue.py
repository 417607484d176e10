"""What can still be read of a damaged file's conversations, copied to a new one.

SQLite gives up a query at the first damaged page, and its own recovery is not in Python's module: so each table is asked for
ranges of its keys, and a range that fails for its two halves.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic

from spectui.store.database import FAULTS, careful, refuse_planted, transaction

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


def rescue(damaged: Path, connection: sqlite3.Connection) -> int:
    """Add what can be read to this database, where it has not got it. The number of conversations that something came of."""
    ends, came = monotonic() + PATIENCE_S, 0
    with suppress(*FAULTS), closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as source:
        careful(source)
        refuse_planted(source)
        source.set_progress_handler(lambda: monotonic() > ends, 10_000)
        messages = list(_by_range(source, "message", "id"))
        replies = list(_by_range(source, "reply", "message"))
        conversations = [
            row
            for order in ("", "DESC")
            for row in _until_damage(source, f"SELECT * FROM conversation ORDER BY id {order}")
        ]
        with transaction(connection):
            _add(connection, "message", messages)
            _add(connection, "reply", replies)
            _add(connection, "conversation", conversations)
            for statement in _MEND:
                connection.execute(statement)
        came = len({row[1] for row in messages})
        for row in messages:
            _add(connection, "chunk", _until_damage(source, "SELECT * FROM chunk WHERE message = ?", row[0]))
    return came


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
