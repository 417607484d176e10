"""The SQLite file of the conversations: its tables, how it is opened, and its errors in words.

It has a write-ahead log (WAL): two spectui of a machine can use it at once, and a killed one loses nothing that was committed.
Only its owner may read it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from spectui import paths
from spectui.errors import SpectuiError

BUSY_S = 2.0
"""Seconds that a transaction waits for one of another process."""

OLDEST_SQLITE = (3, 37, 0)
"""The first version that has STRICT tables."""

_DAMAGED = ("malformed", "not a database", "no such table", "no such column", "no column named")
"""What SQLite says of a damaged file, or of one that lacks a part of the tables."""

BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite appends to a file's name for those that it keeps beside it."""

NEWER = "The conversations were written by a newer spectui: update this one to read them."
OLDER = "The conversations were written by an older spectui than this one can read: move their file away."

VERSION = 3
"""`user_version` of the file: the version of its tables. A new file has 0."""

_TABLES = (
    # `head` is the message that the conversation's current path ends with.
    "CREATE TABLE conversation (id TEXT PRIMARY KEY CHECK (id != ''), title TEXT NOT NULL, created REAL NOT NULL,"
    " updated REAL NOT NULL, system TEXT NOT NULL, target TEXT NOT NULL, head INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE INDEX latest ON conversation (updated)",
    # No foreign key for `parent`: if damage destroyed the message before this one, the conversation begins here.
    "CREATE TABLE message (id INTEGER PRIMARY KEY,"
    " conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE, parent INTEGER,"
    " role TEXT NOT NULL CHECK (role IN ('user', 'assistant')), text TEXT NOT NULL, created REAL NOT NULL) STRICT",
    "CREATE INDEX messages ON message (conversation)",
    # Further columns of the assistant's messages. `setup` is a JSON object, also with the schema that the reply obeys;
    # `stop` is NULL until the reply has ended; `dropped`: how many messages, from the first on, the prompts behind
    # this reply leave out. `thinking` is not used any more.
    "CREATE TABLE reply (message INTEGER PRIMARY KEY REFERENCES message (id) ON DELETE CASCADE,"
    " setup TEXT NOT NULL, stop TEXT, prompt_tokens INTEGER CHECK (prompt_tokens >= 0),"
    " prompt_s REAL, first_token_s REAL, thinking INTEGER NOT NULL CHECK (thinking IN (0, 1)),"
    " mixed INTEGER NOT NULL CHECK (mixed IN (0, 1)), dropped INTEGER NOT NULL CHECK (dropped >= 0)) STRICT",
    "CREATE TABLE chunk (message INTEGER NOT NULL REFERENCES reply (message) ON DELETE CASCADE,"
    " number INTEGER NOT NULL CHECK (number >= 0), rounds BLOB NOT NULL, PRIMARY KEY (message, number)) STRICT, WITHOUT ROWID",
)


class StoreError(SpectuiError):
    """The conversations on disk cannot be read or changed."""


class DamagedError(StoreError):
    """The file is not a sound database of conversations."""


FAULTS = (sqlite3.Error, OSError, StoreError, UnicodeDecodeError)
"""Errors that using the file may raise. The last: SQLite's message may quote a damaged schema that is not UTF-8."""


def database_file() -> Path:
    """The file of the conversations, whether or not it exists."""
    return paths.data_directory() / "conversations.db"


def is_there(file: Path) -> bool:
    """Whether there is such a file. Raises StoreError where it cannot be reached."""
    with as_store_errors(file):
        try:
            file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def was_left_open(file: Path) -> bool:
    """Whether a process that had the file open ended without closing it, or still has it open."""
    logs = (file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-journal"))
    return any(log.exists() and log.stat().st_size > 0 for log in logs)


def identity(file: Path) -> tuple[int, int] | None:
    """The device and inode of the file that has this name; None if there is none, or it cannot be reached."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def names_kept(file: Path, *, alone: bool = False) -> Iterator[None]:
    """No other spectui sets the file aside during the block. With `alone`, none opens, changes or closes it either.

    SQLite opens and deletes the log by name, and what is committed to a file after it was set aside is not in the new one. Such
    blocks may contain each other, but not one with `alone`.
    """
    with ExitStack() as stack:
        if sys.platform != "win32":  # there, a file that is open cannot be renamed
            import fcntl

            with suppress(OSError):  # the directory is missing or may not be read, or the file system has no locks
                # The directory, since the file itself may be another one by the time that it is locked.
                directory = os.open(file.parent, os.O_RDONLY)
                stack.callback(os.close, directory)
                fcntl.flock(directory, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def connect(file: Path) -> sqlite3.Connection:
    """Open the file to write to it, making it and its tables where they are missing. Call it, and close what it returns, within
    `names_kept`. Raises one of FAULTS.
    """
    _check_library()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(file.parent)) from error
    # Created here and not by SQLite, so that others can never read it; SQLite gives -wal and -shm the same mode. A file that is
    # there is not opened: closing it would end this process's locks on it, and another process would delete the log.
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    os.chmod(file, 0o600)
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
    try:
        # Busy while another process creates the file: then that one sets the mode, which is permanent.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        harden(connection)
        _make_tables(connection)
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def harden(connection: sqlite3.Connection) -> None:
    """Distrust the file: its schema may call no function with side effects, and pages are checked when they are read."""
    # One byte that is not UTF-8 must not hide all conversations.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all of the block or nothing. The lock is taken at once, so two writers wait for each other instead of failing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_pages(connection: sqlite3.Connection) -> None:
    """Raise DamagedError, or what SQLite raises, unless every page is sound. Reads the whole file."""
    (words,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if words != "ok":
        raise DamagedError("The conversations' file is damaged: move it away.")


def is_damage(error: BaseException) -> bool:
    """Whether this error says that the file is damaged, and not that the disk is full or the file locked."""
    broken = isinstance(error, sqlite3.DatabaseError) and any(words in str(error) for words in _DAMAGED)
    return broken or isinstance(error, DamagedError | UnicodeDecodeError)


def set_aside(file: Path, damaged: tuple[int, int] | None) -> Path | None:
    """Rename a damaged file, of this identity, and SQLite's files beside it; returns the new name. Nothing is deleted.

    None: another spectui has set it aside, so the file of this name is another one. Raises OSError.
    """
    with names_kept(file, alone=True):
        if identity(file) != damaged:
            return None
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
        aside = file.with_name(f"{file.stem}.damaged-{stamp}{file.suffix}")
        # The log first: SQLite would take it for the log of a new file with the old name.
        for suffix in (*BESIDE, ""):
            beside = file.with_name(file.name + suffix)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + suffix))
        return aside


def set_aside_files(file: Path) -> list[Path]:
    """The damaged files that were set aside, the latest first."""
    try:
        return sorted(file.parent.glob(f"{file.stem}.damaged-*{file.suffix}"), reverse=True)
    except OSError:
        return []


def _make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new file. Raises StoreError for those of another version."""
    if _version(connection) == VERSION:
        return
    with transaction(connection):
        if _version(connection) == 0:  # otherwise another process has made them meanwhile
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    """The version of the tables, 0 in a new file. Raises StoreError for one that this spectui cannot read."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version not in (0, VERSION):
        raise StoreError(NEWER if version > VERSION else OLDER)
    return version


@contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection of its own, in one transaction: all statements see the same commit, and no writer waits.

    Raises StoreError.
    """
    with as_store_errors(file), _existing(file):
        _check_library()
        address = f"{file.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)) as connection:
            harden(connection)
            if _version(connection) == 0:  # another process has only begun to make it
                connect(file).close()
            connection.execute("BEGIN")
            yield connection


@contextmanager
def writing(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection of its own to change an existing file, in no transaction yet. Raises StoreError."""
    with as_store_errors(file), _existing(file), closing(connect(file)) as connection:
        yield connection


def _check_library() -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"Conversations on disk need SQLite {'.'.join(map(str, OLDEST_SQLITE))} or later, and this Python has"
            f" {sqlite3.sqlite_version}: install spectui with a newer Python, or chat with --no-history."
        )


@contextmanager
def _existing(file: Path) -> Iterator[None]:
    """Keep the file's name during the block. Raises StoreError if there is no such file."""
    with names_kept(file):
        if not file.exists():
            raise StoreError(f"There are no conversations yet: {file} does not exist.")
        yield


@contextmanager
def as_store_errors(file: Path) -> Iterator[None]:
    """Turn errors into a StoreError with a sentence for the person."""
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
