"""The tables of the conversations' file, how older ones become the present ones, and whether a file has them.

`user_version` is the version of a file's tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache

# How many of the conversation's messages, from the first on, the prompts behind this reply leave out.
_DROPPED = "ALTER TABLE reply ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0 CHECK (dropped >= 0)"

MIGRATIONS: Mapping[int, tuple[str, ...]] = {
    0: (
        # `head` is the message that the conversation's current path ends with.
        "CREATE TABLE conversation (id TEXT PRIMARY KEY CHECK (id != ''), title TEXT NOT NULL, created REAL NOT NULL,"
        " updated REAL NOT NULL, system TEXT NOT NULL, target TEXT NOT NULL, head INTEGER NOT NULL) STRICT, WITHOUT ROWID",
        "CREATE INDEX latest ON conversation (updated)",
        # No foreign key for `parent`: if damage destroyed the message before this one, the conversation begins here.
        "CREATE TABLE message (id INTEGER PRIMARY KEY,"
        " conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE, parent INTEGER,"
        " role TEXT NOT NULL CHECK (role IN ('user', 'assistant')), text TEXT NOT NULL, created REAL NOT NULL) STRICT",
        "CREATE INDEX messages ON message (conversation)",
        # Further columns of the assistant's messages. `setup` is a JSON object; `stop` is NULL until the reply has ended.
        "CREATE TABLE reply (message INTEGER PRIMARY KEY REFERENCES message (id) ON DELETE CASCADE,"
        " setup TEXT NOT NULL, stop TEXT, prompt_tokens INTEGER CHECK (prompt_tokens >= 0),"
        " prompt_s REAL, first_token_s REAL, thinking INTEGER NOT NULL CHECK (thinking IN (0, 1)),"
        " mixed INTEGER NOT NULL CHECK (mixed IN (0, 1))) STRICT",
        "CREATE TABLE chunk (message INTEGER NOT NULL REFERENCES reply (message) ON DELETE CASCADE,"
        " number INTEGER NOT NULL CHECK (number >= 0), rounds BLOB NOT NULL, PRIMARY KEY (message, number))"
        " STRICT, WITHOUT ROWID",
        _DROPPED,
    ),
    2: (_DROPPED,),
}
"""`user_version` -> the statements that bring tables of it to the present `VERSION`; 0: a new file."""

VERSION = 3


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether the file has the present tables, with their columns, types and foreign keys."""
    return _made() <= _structure(connection)


@cache
def _made() -> frozenset[tuple[object, ...]]:
    """The structure of a sound file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        return _structure(connection)


def _structure(connection: sqlite3.Connection) -> frozenset[tuple[object, ...]]:
    columns = connection.execute(
        "SELECT list.name, list.strict, info.name, info.type, info.pk FROM pragma_table_list AS list,"
        " pragma_table_info(list.name) AS info WHERE list.schema = 'main' AND list.name NOT LIKE 'sqlite_%'"
    )
    keys = connection.execute(
        "SELECT list.name, key.'from', key.'table', key.'to', key.on_delete FROM pragma_table_list AS list,"
        " pragma_foreign_key_list(list.name) AS key WHERE list.schema = 'main'"
    )
    return frozenset([*columns, *keys])
