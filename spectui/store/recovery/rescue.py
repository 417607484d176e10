"""Copying what can still be read of a damaged file's conversations to a new one.

SQLite ends a query at the first damaged page, and its own recovery is not in Python's module. So each table is read in ranges
of its keys, from both ends, and what is left of a range that fails is split in two.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from spectui.store.database import FAULTS, StoreError, as_store_errors, connect, harden, names_kept, set_aside, transaction

PATIENCE_S = 10.0
"""The pages of a damaged tree may form a circle: what has not been copied by then is left out."""

FAILED_RANGES = 1000
"""The widest ranges are read first, so damage in several places is found early."""

_LAST_ID = 2**62
_MEND = (
    # A lost message is left out of its conversation: what followed it follows the message before it.
    "UPDATE message SET parent = (SELECT id FROM message AS earlier WHERE earlier.conversation = message.conversation"
    " AND earlier.created < message.created ORDER BY created DESC LIMIT 1)"
    " WHERE parent IS NOT NULL AND parent NOT IN (SELECT id FROM message)",
    "INSERT OR IGNORE INTO conversation SELECT conversation, substr(text, 1, 60), min(created), 0, '', '', 0"
    " FROM message GROUP BY conversation",
    # Before heads are mended, since a conversation without messages has none, and its time may not be empty.
    "DELETE FROM conversation WHERE id NOT IN (SELECT conversation FROM message)",
    "UPDATE conversation SET (head, updated) = (SELECT id, created FROM message WHERE conversation = conversation.id"
    " ORDER BY created DESC LIMIT 1) WHERE head NOT IN (SELECT id FROM message)",
)


@dataclass(slots=True)
class Rescued:
    """What was copied of a file that was set aside."""

    aside: Path
    conversations: int = 0
    """How many of them have at least a message in the new file."""
    in_time: bool = True

    @property
    def sentence(self) -> str:
        """The sentence for the person."""
        number = self.conversations
        came = f", with what could be read of {number} conversation{'s' if number > 1 else ''}" if number else ""
        late = f"; reading it took too long, and was ended after {PATIENCE_S:g} seconds" if not self.in_time else ""
        return f"The file of the conversations is damaged: it is now {self.aside}, and a new one is begun{came}{late}."


def begin_anew(file: Path, damaged: tuple[int, int] | None) -> Rescued | None:
    """Set a damaged file, of this identity, aside, and copy what can be read of it to a new one. Raises StoreError.

    None: another spectui has done so.
    """
    try:
        aside = set_aside(file, damaged)
    except OSError as error:
        raise StoreError(f"The conversations' damaged file {file} cannot be set aside: {error.strerror}.") from error
    if aside is None:
        return None
    rescued = Rescued(aside)
    with as_store_errors(file), names_kept(file), closing(connect(file)) as connection:
        rescue(rescued, connection)
    return rescued


def rescue(rescued: Rescued, connection: sqlite3.Connection) -> None:
    """Copy what can be read of the file aside to this database, and note in `rescued` what that was.

    A message that is there already stays as it is, with its tokens: its own spectui has written it again.
    """
    ends = monotonic() + PATIENCE_S
    damaged = rescued.aside
    with suppress(*FAULTS), closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as source:
        harden(source)
        source.set_progress_handler(lambda: monotonic() > ends, 10_000)
        read = [row for row in _by_range(source, "message", "id") if row[1]]
        replies = [*_by_range(source, "reply", "message")]
        conversations = [
            row for order in ("", "DESC") for row in _until_damage(source, f"SELECT * FROM conversation ORDER BY id {order}")
        ]
        with transaction(connection):
            connection.execute("PRAGMA defer_foreign_keys = ON")
            there = _ids(connection, "SELECT id FROM message")
            messages = [row for row in read if row[0] not in there]
            _add(connection, "message", messages)
            there = _ids(connection, "SELECT id FROM message")
            _add(connection, "reply", (row for row in replies if row[0] in there))
            _add(connection, "conversation", conversations)
            for statement in _MEND:
                connection.execute(statement)
        rescued.conversations = len({row[1] for row in read})
        with_reply = _ids(connection, "SELECT message FROM reply")
        for identity in (row[0] for row in messages if row[0] in with_reply):
            if monotonic() > ends:
                break
            _add(connection, "chunk", _until_damage(source, "SELECT * FROM chunk WHERE message = ?", identity))
    rescued.in_time = monotonic() <= ends


def _ids(connection: sqlite3.Connection, query: str) -> set[object]:
    return {identity for (identity,) in connection.execute(query)}


def _by_range(source: sqlite3.Connection, table: str, key: str) -> Iterator[tuple[object, ...]]:
    """The rows of this table: each range of its integer key from both ends to the damage.

    Indices may be damaged too, so they are not used. A row beside a damaged page may be lost: SQLite reads ahead.
    """
    query = f"SELECT * FROM {table} NOT INDEXED WHERE {key} BETWEEN ? AND ? ORDER BY {key}"
    ranges, failed = deque([(0, _LAST_ID)]), 0
    while ranges and failed < FAILED_RANGES:
        low, high = ranges.popleft()
        try:
            for row in source.execute(query, (low, high)):
                if isinstance(row[0], int):  # of another type in a damaged schema only
                    yield row
                    low = row[0] + 1
        except FAULTS:
            failed += 1
            for row in _until_damage(source, f"{query} DESC", low, high):
                if isinstance(row[0], int):
                    yield row
                    high = row[0] - 1
            middle = (low + high) // 2
            if low < high:
                ranges += [(low, middle), (middle + 1, high)]


def _until_damage(source: sqlite3.Connection, query: str, *values: object) -> Iterator[tuple[object, ...]]:
    with suppress(*FAULTS):
        yield from source.execute(query, values)


def _add(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[object, ...]]) -> None:
    """Add those of the rows that are sound, and not there yet."""
    for row in rows:
        with suppress(sqlite3.IntegrityError):  # a value of another type
            connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
