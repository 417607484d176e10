"""A file of the version before becomes one of this without a loss, and the tables refuse what no spectui writes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spectui.store import library
from spectui.store.database import StoreError, connect
from spectui.store.journal import Journal
from spectui.store.schema import VERSION
from tests.store.journal_helpers import TABLES, begun_anew, exchange, last, some_rounds, written


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file as the version before made it, with two exchanges."""
    file = tmp_path / "conversations.db"
    written(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE reply DROP COLUMN dropped")
        connection.execute(f"PRAGMA user_version = {VERSION - 1}")
    return file


def rows_of(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What stands in the file, of whatever version."""
    with closing(sqlite3.connect(file)) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


@pytest.mark.parametrize("first", ["reader", "writer", "rescue"])
def test_the_first_that_opens_it_migrates_it(file: Path, first: str) -> None:
    was = rows_of(file)
    if first == "reader":
        library.summaries(file)
    elif first == "writer":
        journal = Journal(file)
        assert journal.close() == "" and not journal.notices
    else:
        assert begun_anew(file).conversations == 1
    assert rows_of(file) == was | {"reply": [(*row, 0) for row in was["reply"]]}
    journal = Journal(file)
    journal.resume(last(file))
    exchange(journal, "third", some_rounds(1))
    assert journal.close() == ""
    assert [message.text for message in last(file).messages[::2]] == ["first\nof all", "second", "third"]


def test_a_migration_that_fails_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    was = rows_of(file)
    monkeypatch.setattr("spectui.store.database.MIGRATIONS", {2: ("DELETE FROM reply", "CREATE TABLE message (id)")})
    with pytest.raises(StoreError, match="already exists"):
        library.summaries(file)
    assert rows_of(file) == was


def test_an_old_sqlite_is_a_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.34.1")
    with pytest.raises(StoreError, match=r"need SQLite 3\.37\.0 or later, and this Python has 3\.34\.1: "):
        library.summaries(file)
    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    assert journal.close().startswith("What was said last is not on disk: Conversations on disk need SQLite 3.37.0")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO chunk VALUES (99, 0, x'00')",
        "INSERT INTO reply VALUES (99, '{}', NULL, NULL, NULL, NULL, 0, 0, 0)",
        "INSERT INTO message VALUES (99, 'nobody', NULL, 'user', '', 0)",
        "UPDATE message SET role = 'system'",
        "UPDATE message SET text = x'00'",
        "UPDATE reply SET thinking = 2",
        "UPDATE reply SET dropped = -1",
        "UPDATE reply SET prompt_tokens = -1",
        "UPDATE chunk SET rounds = 'text'",
    ],
)
def test_the_tables_refuse_what_no_spectui_writes(tmp_path: Path, statement: str) -> None:
    file = tmp_path / "conversations.db"
    written(file)
    with closing(connect(file)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
