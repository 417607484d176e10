"""A file of an earlier spectui becomes one of this without a loss, and one that cannot be read is left as it is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from spectui.knobs import Setup
from spectui.store import library
from spectui.store.database import StoreError, connect
from spectui.store.journal import Journal
from spectui.store.rounds.packing import pack
from spectui.store.schema import MIGRATIONS, TABLES
from tests.store.journal_helpers import SETUP, begun_anew, exchange, last, some_rounds, text_of, written

TEXT = text_of(some_rounds())
ROWS: dict[str, Sequence[tuple[Any, ...]]] = {
    "conversation": [
        ("aaaa", "First", 1.5, 9.5, "Be brief.", "target", 4),
        ("bbbb", "Second", 2.0, 3.0, "", "other", 6),
    ],
    "message": [
        (1, "aaaa", None, "user", "What?", 1.5),
        (2, "aaaa", 1, "assistant", TEXT, 2.5),
        (3, "aaaa", 1, "assistant", "another branch", 3.5),
        (4, "aaaa", 2, "user", "And then?", 9.5),
        (5, "bbbb", None, "user", "Hm", 2.0),
        (6, "bbbb", 5, "assistant", "<think>", 3.0),
    ],
    "reply": [
        (2, json.dumps({**asdict(SETUP), "mixed": True}), "cancelled", 7, 0.5, 0.6),
        (3, json.dumps(asdict(SETUP)), "eos", None, None, None),
        (6, json.dumps({**asdict(SETUP), "thinking": True}), None, None, None, None),
    ],
    "chunk": [(2, 0, pack(some_rounds()[:2])), (2, 1, pack(some_rounds()[2:]))],
}


def first_version(file: Path, rows: dict[str, Sequence[tuple[Any, ...]]] = ROWS) -> Path:
    """A file as the first version made it, with these rows."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        for table in TABLES:
            for row in rows.get(table, ()):
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return first_version(tmp_path / "conversations.db")


def rows_of(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(connect(file)) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


def test_every_row_is_there_after_the_migration(file: Path) -> None:
    found = rows_of(file)
    for table in ("conversation", "message", "chunk"):
        assert found[table] == ROWS[table]
    marks = {row[0]: row[6:] for row in found["reply"]}
    assert marks == {2: (0, 1, 0), 3: (0, 0, 0), 6: (1, 0, 0)}
    assert [row[2:6] for row in found["reply"]] == [row[2:] for row in ROWS["reply"]]
    assert all(json.loads(row[1]) == asdict(SETUP) for row in found["reply"])
    assert rows_of(file) == found


@pytest.mark.parametrize("first", ["reader", "writer"])
def test_the_first_that_opens_it_migrates_it(file: Path, first: str) -> None:
    if first == "writer":
        journal = Journal(file)
        exchange(journal, "new", some_rounds(1))
        assert journal.close() == "" and not journal.notices
    conversation = library.open_conversation(file, "aaaa")
    assert [message.text for message in conversation.messages] == ["What?", TEXT, "And then?"]
    reply = conversation.messages[1].reply
    assert reply is not None and list(reply.rounds) == some_rounds() and reply.setup == SETUP
    assert (reply.mixed, reply.thinking, reply.prompt_tokens, reply.stop) == (True, False, 7, "cancelled")
    thinking = library.open_conversation(file, "bbbb").messages[1].reply
    assert thinking is not None and (thinking.mixed, thinking.thinking, thinking.stop) == (False, True, None)
    assert [message.text for message in library.ends(file, "aaaa")] == ["And then?", "another branch"]
    assert len(library.summaries(file)) == (3 if first == "writer" else 2)


def test_a_migrated_conversation_can_be_continued_and_deleted(file: Path) -> None:
    journal = Journal(file)
    journal.resume(library.open_conversation(file, "aaaa"))
    journal.begin_reply(Setup(model="another.gguf"))
    journal.add_round(some_rounds(1)[0])
    journal.end_reply("eos", has_text=True)
    journal.close()
    assert [message.text for message in last(file).messages] == ["What?", TEXT, "And then?", "Ein"]
    library.delete(file, "aaaa")
    assert {row[0] for row in rows_of(file)["message"]} == {5, 6}
    assert {row[0] for row in rows_of(file)["reply"]} == {6} and rows_of(file)["chunk"] == []


def test_what_a_deleted_conversation_has_left_is_deleted(tmp_path: Path) -> None:
    """The first version left such rows when one process deleted what another was writing."""
    left = {
        "message": [*ROWS["message"], (7, "gone", None, "assistant", "a secret", 1.0)],
        "reply": [*ROWS["reply"], (7, "{}", None, None, None, None), (8, "{}", None, None, None, None)],
        "chunk": [*ROWS["chunk"], (7, 0, b"a secret"), (9, 0, b"a secret")],
    }
    file = first_version(tmp_path / "conversations.db", {**ROWS, **left})
    found = rows_of(file)
    assert found["message"] == ROWS["message"] and found["chunk"] == ROWS["chunk"] and len(found["reply"]) == 3
    with closing(connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert b"a secret" not in file.read_bytes()


@pytest.mark.parametrize("value", ["x'1b5d30'", "1e999", "-7", "9223372036854775807", "'\x1b]0;x\x07'", "''", "NULL"])
def test_values_of_any_type_pass_the_migration(tmp_path: Path, value: str) -> None:
    """The first version's tables could hold them in any column that may not be NULL, and in most of the others."""
    columns = (
        "conversation.title", "conversation.created", "conversation.updated", "conversation.target", "conversation.system",
        "conversation.head", "message.parent", "message.role", "message.text", "message.created", "reply.setup",
        "reply.stop", "reply.prompt_tokens", "reply.prompt_s", "chunk.rounds",
    )  # fmt: skip
    for column in columns:
        file = first_version(tmp_path / column / "conversations.db")
        table, name = column.split(".")
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            try:
                connection.execute(f"UPDATE {table} SET {name} = {value}")
            except sqlite3.IntegrityError:
                assert value == "NULL"
        assert {each.id for each in library.summaries(file)} == {"aaaa", "bbbb"}
        assert len(rows_of(file)["message"]) == 6 and len(rows_of(file)["reply"]) == 3


def test_what_can_be_read_of_a_damaged_first_version_comes_over_with_its_marks(file: Path) -> None:
    content = bytearray(file.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'latest'").fetchone()
    content[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    file.write_bytes(content)
    with pytest.raises(StoreError, match="are damaged"):
        library.summaries(file)
    rescued = begun_anew(file)
    assert rescued.in_time and rescued.conversations == 2
    conversation = library.open_conversation(file, "aaaa")
    assert [message.text for message in conversation.messages] == ["What?", TEXT, "And then?"]
    reply = conversation.messages[1].reply
    assert reply is not None and reply.mixed and list(reply.rounds) == some_rounds()


def test_a_migration_that_fails_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    was = library_rows(file)
    broken = (MIGRATIONS[0], (*MIGRATIONS[1][:-1], "CREATE TABLE message (id)"))
    monkeypatch.setattr("spectui.store.database.MIGRATIONS", broken)
    with pytest.raises(StoreError, match="already exists"):
        library.summaries(file)
    assert library_rows(file) == was


def library_rows(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What stands in the file, of whatever version."""
    with closing(sqlite3.connect(file)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}


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
