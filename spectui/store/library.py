"""Reads conversations, renames and deletes them.

Each function reads the disk and waits up to `database.BUSY_S` seconds for another process: call it from a worker thread, never
from the UI thread. It opens a connection of its own, so any thread may call it at any time. What it reads is of one commit. All
raise StoreError. Rounds are unpacked when somebody asks for them first, which takes a second for 100,000 tokens.

Texts are made safe to show. SQLite can hold values of another type than spectui writes, in a damaged file: they are read as
empty or unknown.
"""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from spectui.store.database import StoreError, is_there, reading, transaction, writing
from spectui.store.records import Reply, StoredConversation, StoredMessage, Summary, setup_of
from spectui.store.rounds.packed import PackedRounds
from spectui.text import safe

BEFORE, BEHIND = 30, 60
"""Characters of an excerpt before and behind what was searched."""
_LAST_TIME = 253_402_214_400  # the last day of the year 9999


def summaries(file: Path, words: str = "") -> list[Summary]:
    """The conversations, the latest first; with `words`, those that have each of them in the title or in a message, whatever
    their order, case and accents."""
    if not is_there(file):
        return []
    with reading(file) as connection:
        return _summaries(connection, words)


def last(file: Path) -> StoredConversation | None:
    """The conversation that was written to last; None if there is none."""
    if not is_there(file):
        return None
    with reading(file) as connection:
        newest = next(iter(_summaries(connection, "")), None)
        return _conversation(connection, newest.id) if newest is not None else None


def open_conversation(file: Path, name: str) -> StoredConversation:
    """The conversation of this id, or of the only one that begins so."""
    with reading(file) as connection:
        return _conversation(connection, _identity(connection, name))


def rename(file: Path, name: str, title: str) -> None:
    """Give a conversation another title."""
    with writing(file) as connection, transaction(connection):
        connection.execute("UPDATE conversation SET title = ? WHERE id = ?", (title, _identity(connection, name)))


def delete(file: Path, name: str) -> list[str]:
    """Delete a conversation and overwrite it on disk; returns the prompts that were in it."""
    with writing(file) as connection:
        with transaction(connection):
            identity = _identity(connection, name)
            said = _prompts(connection, identity)
            connection.execute("DELETE FROM conversation WHERE id = ?", (identity,))  # and all that refers to it
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return said


def _identity(connection: sqlite3.Connection, name: str) -> str:
    """The full id of the only conversation whose id begins with `name`."""
    rows = connection.execute("SELECT id FROM conversation WHERE substr(id, 1, ?) = ?", (len(name), name)).fetchall()
    if not name or len(rows) != 1:
        raise StoreError(f"{len(rows) or 'No'} conversations have an id that begins with {name!r}: spectui history lists them.")
    return str(rows[0][0])


def _summaries(connection: sqlite3.Connection, words: str) -> list[Summary]:
    wanted = _folded(words).split()
    connection.create_function("has", 2, lambda text, word: isinstance(text, str) and word in _folded(text))
    connection.create_function("around", 2, _around)
    having = " AND ".join("(has(title, ?) OR id IN (SELECT conversation FROM message WHERE has(text, ?)))" for _ in wanted)
    rows = connection.execute(
        "SELECT id, title, updated, target, (SELECT count(*) FROM message WHERE conversation = conversation.id),"
        " (SELECT around(text, ?1) FROM message WHERE ?1 != '' AND conversation = conversation.id AND has(text, ?1) LIMIT 1)"
        f" FROM conversation WHERE {having or '1'} ORDER BY updated DESC, id",
        [wanted[0] if wanted else "", *(parameter for word in wanted for parameter in (word, word))],
    ).fetchall()
    return [Summary(_line(row[0]), _line(row[1]), _time(row[2]), _line(row[3]), row[4], row[5] or "") for row in rows]


def _around(text: str, word: str) -> str:
    """What stands around a word, which the text has, on one line."""
    at = _folded(text).find(word)  # a few characters off behind letters that fold to two
    start, end = text.rfind(" ", 0, max(0, at - BEFORE)) + 1 if at > BEFORE else 0, at + len(word) + BEHIND
    return f"{'…' * (start > 0)}{_line(text[start:end])}{'…' * (end < len(text))}"


def _folded(text: str) -> str:
    """The text without case and accents."""
    if text.isascii():
        return text.lower()
    return "".join(char for char in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(char))


def _conversation(connection: sqlite3.Connection, identity: str) -> StoredConversation:
    title, created, updated, target, system, head = connection.execute(
        "SELECT title, created, updated, target, system, head FROM conversation WHERE id = ?", (identity,)
    ).fetchone()
    rows = connection.execute(
        "SELECT id, parent, role, text, created FROM message WHERE conversation = ? ORDER BY created, id", (identity,)
    ).fetchall()
    left = {row[0]: row for row in rows}
    path = []
    at = head
    while at in left:  # taken out: in a damaged file, parents may form a circle
        path.append(left.pop(at))
        at = path[-1][1]
    known = {row[0] for row in rows}
    following: dict[object, list[Sequence[Any]]] = {}
    for row in rows:
        following.setdefault(row[1] if row[1] in known else None, []).append(row)
    tree = following.get(None, [])
    for row in tree:  # which grows meanwhile; a circle is not reached
        tree += following.get(row[0], [])
    messages, others = (
        tuple(_message(row, _reply(connection, row[0])) for row in part)
        for part in (reversed(path), (row for row in tree if row[0] in left))
    )
    return StoredConversation(
        identity, _line(title), _time(created), _time(updated), _text(system), _line(target), messages, others
    )


def _prompts(connection: sqlite3.Connection, identity: str) -> list[str]:
    rows = connection.execute("SELECT text FROM message WHERE conversation = ? AND role = 'user'", (identity,)).fetchall()
    return [_text(row[0]) for row in rows]


def _reply(connection: sqlite3.Connection, message: int) -> Reply | None:
    row = connection.execute(
        "SELECT setup, stop, prompt_tokens, prompt_s, first_token_s, mixed, dropped FROM reply WHERE message = ?", (message,)
    ).fetchone()
    if row is None:
        return None
    chunks = connection.execute("SELECT rounds FROM chunk WHERE message = ? ORDER BY number", (message,)).fetchall()
    rounds = PackedRounds.of_chunks(packed for (packed,) in chunks)
    stop = row[1] if isinstance(row[1], str) else None
    prompt_tokens = row[2] if isinstance(row[2], int) else None
    try:
        table = json.loads(_text(row[0]))
    except (ValueError, RecursionError):
        table = {}
    return Reply(
        setup_of(table),
        stop,
        prompt_tokens,
        _seconds(row[3]),
        _seconds(row[4]),
        rounds,
        row[5] == 1,
        row[6] if isinstance(row[6], int) and row[6] > 0 else 0,
        _text(table.get("grammar")) if isinstance(table, dict) else "",
    )


def _message(row: Sequence[Any], reply: Reply | None) -> StoredMessage:
    """A message of its row: id, parent, role, text, created."""
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
