"""The one SQLite file that holds the conversations: opening it, its tables, and what its errors mean.

Journalled ahead (WAL), so that two spectui work at once and a killed one loses nothing that was committed. Nobody but its
owner may read it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path

from spectui import paths
from spectui.errors import SpectuiError

BUSY_S = 2.0
"""How long a transaction waits for another spectui's."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE conversation (id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,"
        " system TEXT NOT NULL, target TEXT NOT NULL, head INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX latest ON conversation (updated)",
        "CREATE TABLE message (id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, parent INTEGER, role TEXT NOT NULL,"
        " text TEXT NOT NULL, created REAL NOT NULL)",
        "CREATE INDEX messages ON message (conversation)",
        # Of a reply, besides its message: `stop` is NULL until it ended, `setup` is JSON, with `thinking` and `mixed` where
        # they are true; the knobs are in the rounds.
        "CREATE TABLE reply (message INTEGER PRIMARY KEY, setup TEXT NOT NULL, stop TEXT,"
        " prompt_tokens INTEGER, prompt_s REAL, first_token_s REAL)",
        "CREATE TABLE chunk (message INTEGER NOT NULL, number INTEGER NOT NULL, rounds BLOB NOT NULL,"
        " PRIMARY KEY (message, number)) WITHOUT ROWID",
    ),
)
"""What brings the tables from one `user_version` to the next."""


NEWER = "The conversations were written by a newer spectui: update this one to read them."


class StoreError(SpectuiError):
    """The conversations on disk cannot be read or changed."""


class DamagedError(StoreError):
    """The file is a database, but not one of conversations, or not a whole one."""


FAULTS = (sqlite3.Error, OSError, StoreError, UnicodeDecodeError)
"""What using the file may raise. The last comes where SQLite's own words quote a damaged schema that is no UTF-8."""


def database_file() -> Path:
    """Where the conversations are, or would be."""
    return paths.data_directory() / "conversations.db"


def connect(file: Path) -> sqlite3.Connection:
    """Open the file, making it and its tables where they are missing. Raises one of FAULTS."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made here and not by SQLite, so that it is never readable to others; its -wal and -shm take over the mode.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    os.chmod(file, 0o600)
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
    try:
        # Busy where another spectui makes the file just now: then it is the one that sets the mode, which stays.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        harden(connection)
        _migrate(connection)
        _check_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def harden(connection: sqlite3.Connection) -> None:
    """A file may come from anywhere: its schema may call nothing that reaches out, its pages are looked at twice."""
    # One byte that is no UTF-8 must not hide all conversations.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing. The lock is taken at once, so that two writers wait for each other instead of failing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_pages(connection: sqlite3.Connection) -> None:
    """Raise DamagedError unless every page is sound, or what SQLite raises over it. Reads the whole file."""
    (words,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if words != "ok":
        raise DamagedError("The conversations' file is damaged: move it away.")


def is_damage(error: BaseException) -> bool:
    """Does this error say that the file is no sound database (and not that the disk is full, or busy)?"""
    words = str(error)
    broken = isinstance(error, sqlite3.DatabaseError) and ("malformed" in words or "not a database" in words)
    return broken or isinstance(error, DamagedError | UnicodeDecodeError)


def set_aside(file: Path) -> Path:
    """Give a damaged file, and what SQLite keeps beside it, another name; returns it. Nothing is deleted."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    aside = file.with_name(f"{file.stem}.damaged-{stamp}{file.suffix}")
    number = 1
    while aside.exists():
        number += 1
        aside = file.with_name(f"{file.stem}.damaged-{stamp}-{number}{file.suffix}")
    # The log first: beside a new file of the old name it would be taken for that one's.
    for suffix in ("-wal", "-shm", ""):
        beside = file.with_name(file.name + suffix)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + suffix))
    return aside


def _migrate(connection: sqlite3.Connection) -> None:
    if _version(connection) == len(MIGRATIONS):
        return
    with transaction(connection):
        version = _version(connection)  # another spectui may have been quicker
        if version > len(MIGRATIONS):
            raise StoreError(NEWER)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _check_schema(connection: sqlite3.Connection) -> None:
    """Raise StoreError for what is not of spectui's making, and for tables that are missing."""
    reject_foreign_schema(connection)
    if not _columns() <= _columns_of(connection):
        raise DamagedError("The conversations' file lacks tables that spectui made: move it away.")


def reject_foreign_schema(connection: sqlite3.Connection) -> None:
    """Raise StoreError for what spectui never makes and SQLite would run by itself."""
    made = connection.execute(
        "SELECT type FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'"
    ).fetchone()
    if made is not None:
        raise StoreError(
            f"The conversations' file holds a {made[0]} that spectui did not make: move the file away, or drop it."
        )


@cache
def _columns() -> frozenset[tuple[str, str]]:
    """(table, column) of a sound database."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in (statement for statements in MIGRATIONS for statement in statements):
            connection.execute(statement)
        return _columns_of(connection)


def _columns_of(connection: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    rows = connection.execute(
        "SELECT made.name, info.name FROM sqlite_master AS made, pragma_table_info(made.name) AS info"
        " WHERE made.type = 'table'"
    )
    return frozenset(rows.fetchall())


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection of its own, in one transaction: all statements see the same commit, and no writer waits.

    A file of an earlier spectui is migrated first. Raises StoreError.
    """
    with as_store_errors(file):
        if not _is_current(file):
            connect(file).close()
        with closing(_connect_read_only(file)) as connection:
            connection.execute("BEGIN")
            _check_schema(connection)
            yield connection


@contextmanager
def writing(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection of its own to change an existing file, in no transaction yet. Raises StoreError."""
    with as_store_errors(file):
        _require(file)
        with closing(connect(file)) as connection:
            yield connection


def _is_current(file: Path) -> bool:
    """Whether the tables are of this version. Raises StoreError for those of a later one."""
    _require(file)
    with closing(_connect_read_only(file)) as connection:
        version = _version(connection)
    if version > len(MIGRATIONS):
        raise StoreError(NEWER)
    return version == len(MIGRATIONS)


def _connect_read_only(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        harden(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _require(file: Path) -> None:
    if not file.exists():
        raise StoreError(f"There are no conversations yet: {file} does not exist.")


@contextmanager
def as_store_errors(file: Path) -> Iterator[None]:
    """Turn what goes wrong into a StoreError with a sentence for the person."""
    try:
        yield
    except StoreError:
        raise
    except FAULTS as error:
        if is_damage(error):
            raise DamagedError(
                f"The conversations in {file} are damaged ({error}): spectui chat sets the file aside and brings over what"
                " can be read."
            ) from error
        raise StoreError(f"The conversations in {file} cannot be used: {error}.") from error
