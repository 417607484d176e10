"""Reading the conversations back, and what a person may do to them: rename, delete, go on from an earlier message.

Texts are made safe to show on their way out, and what is of another kind than spectui writes there, as SQLite allows, is
made one that a reader can take. Every function opens the file for a moment; all raise StoreError.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from spectui.store.database import StoreError, opened, transaction
from spectui.store.packed import PackedRounds
from spectui.store.packing import PackedError, unpack
from spectui.store.records import Conversation, Reply, StoredMessage, Summary, setup_of
from spectui.text import safe

_LAST_TIME = 253_402_214_400  # the last day of the year 9999
_COLUMNS = "id, title, created, updated, target"


def summaries(file: Path, words: str = "") -> list[Summary]:
    """The conversations, the latest first; with `words`, those that have them in the title or in a message."""
    if not file.exists():
        return []
    pattern = "%" + words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    with opened(file) as connection:
        rows = connection.execute(
            f"SELECT {_COLUMNS}, (SELECT count(*) FROM message WHERE conversation = conversation.id) FROM conversation"
            " WHERE title LIKE ?1 ESCAPE '\\' OR id IN"
            " (SELECT conversation FROM message WHERE text LIKE ?1 ESCAPE '\\') ORDER BY updated DESC, id",
            (pattern,),
        ).fetchall()
    return [Summary(_line(row[0]), _line(row[1]), _time(row[2]), _time(row[3]), _line(row[4]), row[5]) for row in rows]


def last(file: Path) -> Conversation | None:
    """The conversation that something was last said in; None if there is none."""
    newest = next(iter(summaries(file)), None)
    return open_conversation(file, newest.id) if newest is not None else None


def open_conversation(file: Path, name: str) -> Conversation:
    """The conversation of this id, or of the only one that begins so."""
    with opened(file) as connection:
        identity = _identity(connection, name)
        row = connection.execute(
            f"SELECT {_COLUMNS}, system, head FROM conversation WHERE id = ?", (identity,)
        ).fetchone()
        # UNION, not UNION ALL: parents that run in a circle, as a damaged file may have them, end.
        path = connection.execute(
            "WITH RECURSIVE path (id) AS (SELECT ?1 UNION SELECT parent FROM message JOIN path USING (id))"
            " SELECT message.id, parent, role, text, created FROM message JOIN path USING (id) WHERE conversation = ?2",
            (row[6], identity),
        ).fetchall()
        by_id = {each[0]: each for each in path}
        ordered: list[StoredMessage] = []
        at: int | None = row[6]
        while at in by_id:
            each = by_id.pop(at)
            at = each[1]
            ordered.append(_message(each, _reply(connection, each[0])))
    return Conversation(
        identity, _line(row[1]), _time(row[2]), _time(row[3]), _text(row[5]), _line(row[4]), tuple(reversed(ordered))
    )


def ends(file: Path, name: str) -> list[StoredMessage]:
    """The last message of each branch of a conversation, the latest first, without its reply's rounds."""
    with opened(file) as connection:
        identity = _identity(connection, name)
        rows = connection.execute(
            "SELECT id, parent, role, substr(text, 1, 500), created FROM message WHERE conversation = ?1 AND NOT EXISTS"
            " (SELECT 1 FROM message AS next WHERE next.conversation = ?1 AND next.parent = message.id)"
            " ORDER BY created DESC, id",
            (identity,),
        ).fetchall()
    return [_message(row) for row in rows]


def prompts(file: Path, name: str) -> list[str]:
    """What a person said in a conversation, in all of its branches."""
    with opened(file) as connection:
        rows = connection.execute(
            "SELECT text FROM message WHERE conversation = ? AND role = 'user'", (_identity(connection, name),)
        ).fetchall()
    return [_text(row[0]) for row in rows]


def rename(file: Path, name: str, title: str) -> None:
    """Give a conversation another title."""
    with opened(file) as connection, transaction(connection):
        connection.execute("UPDATE conversation SET title = ? WHERE id = ?", (title, _identity(connection, name)))


def delete(file: Path, name: str) -> None:
    """Forget a conversation, whole; what it said is overwritten on disk."""
    with opened(file) as connection:
        with transaction(connection):
            identity = _identity(connection, name)
            of = "(SELECT id FROM message WHERE conversation = ?)"
            connection.execute(f"DELETE FROM chunk WHERE message IN {of}", (identity,))
            connection.execute(f"DELETE FROM reply WHERE message IN {of}", (identity,))
            connection.execute("DELETE FROM message WHERE conversation = ?", (identity,))
            connection.execute("DELETE FROM conversation WHERE id = ?", (identity,))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def branch(file: Path, name: str, message: int) -> Conversation:
    """Go on from an earlier message: the conversation along the path that ends there. Nothing is lost."""
    with opened(file) as connection, transaction(connection):
        identity = _identity(connection, name)
        if not connection.execute(
            "SELECT 1 FROM message WHERE id = ? AND conversation = ?", (message, identity)
        ).fetchone():
            raise StoreError(f"The conversation {identity} has no such message.")
        connection.execute("UPDATE conversation SET head = ? WHERE id = ?", (message, identity))
    return open_conversation(file, name)


def _identity(connection: sqlite3.Connection, name: str) -> str:
    rows = connection.execute("SELECT id FROM conversation WHERE substr(id, 1, ?) = ?", (len(name), name)).fetchall()
    if not name or len(rows) != 1:
        raise StoreError(
            f"{len(rows) or 'No'} conversations have an id that begins with {name!r}: spectui history lists them."
        )
    return str(rows[0][0])


def _reply(connection: sqlite3.Connection, message: int) -> Reply | None:
    row = connection.execute(
        "SELECT setup, stop, prompt_tokens, prompt_s, first_token_s FROM reply WHERE message = ?", (message,)
    ).fetchone()
    if row is None:
        return None
    chunks = connection.execute("SELECT rounds FROM chunk WHERE message = ? ORDER BY number", (message,)).fetchall()
    try:
        rounds = PackedRounds(round for (packed,) in chunks for round in unpack(packed))
    except PackedError:
        rounds = PackedRounds()  # the text stands in the message; only its colours and figures are lost
    stop = row[1] if isinstance(row[1], str) else None
    prompt_tokens = row[2] if isinstance(row[2], int) else None
    try:
        table = json.loads(_text(row[0]))
    except (ValueError, RecursionError):
        table = {}
    marks = {mark: isinstance(table, dict) and table.get(mark) is True for mark in ("thinking", "mixed")}
    return Reply(setup_of(table), stop, prompt_tokens, _seconds(row[3]), _seconds(row[4]), rounds, **marks)


def _message(row: Sequence[Any], reply: Reply | None = None) -> StoredMessage:
    """Of its id, parent, role, text and time."""
    parent = row[1] if isinstance(row[1], int) else None
    role = "assistant" if row[2] == "assistant" else "user"
    return StoredMessage(row[0], parent, role, _text(row[3]), _time(row[4]), reply)


def _text(value: object) -> str:
    return safe(value) if isinstance(value, str) else ""


def _line(value: object) -> str:
    return " ".join(_text(value).split())


def _seconds(value: object) -> float | None:
    return value if isinstance(value, int | float) and isfinite(value) else None


def _time(value: object) -> float:
    """Seconds since the epoch, up to the last year that a calendar has."""
    return value if isinstance(value, int | float) and 0 <= value < _LAST_TIME else 0.0
