"""The tables of the conversations' file, how older ones become the present ones, and whether a file has them.

`user_version` counts the migrations that a file has been through.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache

TABLES = ("conversation", "message", "reply", "chunk")


def _text(column: str, otherwise: str = "''") -> str:
    return f"iif(typeof({column}) = 'text', {column}, {otherwise})"


def _integer(column: str, otherwise: str = "NULL") -> str:
    return f"iif(typeof({column}) = 'integer', {column}, {otherwise})"


def _real(column: str, otherwise: str = "0.0") -> str:
    return f"iif(typeof({column}) IN ('integer', 'real'), {column}, {otherwise})"


def _mark(name: str, *, in_setup: bool) -> str:
    """0 or 1: the mark of a reply that the first version had in its set-up."""
    return f"json_type({_SETUP}, '$.{name}') IS 'true'" if in_setup else f"{name} IS 1"


_SETUP = "iif(json_valid(setup), setup, '{}')"


def _rows(prefix: str = "", *, in_setup: bool, further: str = "") -> Mapping[str, str]:
    """table -> a query for its rows as the present tables have them, of tables whose columns may hold values of any type.

    `prefix` comes before the tables' names; `in_setup`: the marks are in the set-up; `further`: later columns of replies.
    """
    return {
        "conversation": f"SELECT id, {_text('title')}, {_real('created')}, {_real('updated')}, {_text('system')},"
        f" {_text('target')}, {_integer('head', '0')} FROM {prefix}conversation WHERE typeof(id) = 'text' AND id != ''",
        "message": f"SELECT id, conversation, {_integer('parent')}, iif(role = 'assistant', role, 'user'), {_text('text')},"
        f" {_real('created')} FROM {prefix}message WHERE typeof(conversation) = 'text' AND conversation != ''",
        "reply": f"SELECT message, json_remove({_SETUP}, '$.thinking', '$.mixed'), {_text('stop', 'NULL')},"
        f" iif(prompt_tokens >= 0, {_integer('prompt_tokens')}, NULL), {_real('prompt_s', 'NULL')},"
        f" {_real('first_token_s', 'NULL')}, {_mark('thinking', in_setup=in_setup)}, {_mark('mixed', in_setup=in_setup)}"
        f"{further} FROM {prefix}reply WHERE true",
        "chunk": f"SELECT message, number, rounds FROM {prefix}chunk"
        " WHERE typeof(number) = 'integer' AND number >= 0 AND typeof(rounds) = 'blob'",
    }


_FIRST = _rows("old_", in_setup=True)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE conversation (id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,"
        " system TEXT NOT NULL, target TEXT NOT NULL, head INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX latest ON conversation (updated)",
        "CREATE TABLE message (id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, parent INTEGER, role TEXT NOT NULL,"
        " text TEXT NOT NULL, created REAL NOT NULL)",
        "CREATE INDEX messages ON message (conversation)",
        "CREATE TABLE reply (message INTEGER PRIMARY KEY, setup TEXT NOT NULL, stop TEXT,"
        " prompt_tokens INTEGER, prompt_s REAL, first_token_s REAL)",
        "CREATE TABLE chunk (message INTEGER NOT NULL, number INTEGER NOT NULL, rounds BLOB NOT NULL,"
        " PRIMARY KEY (message, number)) WITHOUT ROWID",
    ),
    (
        "DROP INDEX latest",
        "DROP INDEX messages",
        *(f"ALTER TABLE {table} RENAME TO old_{table}" for table in TABLES),
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
        f"INSERT INTO conversation {_FIRST['conversation']}",
        # Rows without a conversation are left by an earlier spectui that deleted it.
        f"INSERT INTO message {_FIRST['message']} AND conversation IN (SELECT id FROM conversation)",
        f"INSERT INTO reply {_FIRST['reply']} AND message IN (SELECT id FROM message)",
        f"INSERT INTO chunk {_FIRST['chunk']} AND message IN (SELECT message FROM reply)",
        *(f"DROP TABLE old_{table}" for table in TABLES),
    ),
    # How many of the conversation's messages, from the first on, the prompts behind this reply leave out.
    ("ALTER TABLE reply ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0 CHECK (dropped >= 0)",),
)  # fmt: skip
"""The statements that bring the tables from each `user_version` to the next."""


def sound_rows(connection: sqlite3.Connection) -> Mapping[str, str]:
    """table -> a query for rows of the present tables, with sound values, of a file of any version.

    The queries end in a condition, so `AND ...` and `ORDER BY ...` may follow.
    """
    columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('reply')")}
    dropped = f"iif(dropped >= 0, {_integer('dropped', '0')}, 0)" if "dropped" in columns else "0"
    return _rows(in_setup="thinking" not in columns, further=f", {dropped}")


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether the file has the present tables, with their columns, types and foreign keys."""
    return _made() <= _structure(connection)


@cache
def _made() -> frozenset[tuple[object, ...]]:
    """The structure of a sound file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in (statement for statements in MIGRATIONS for statement in statements):
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
