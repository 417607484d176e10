"""A database that another program has changed: what it lacks, what was planted in it, and values of other types."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from spectui.store import export, library
from spectui.store.database import StoreError, connect
from spectui.store.journal import Journal
from tests.store.journal_helpers import assert_set_aside, damaging, exchange, some_rounds, written


@pytest.mark.parametrize("change", ["DROP TABLE chunk", "ALTER TABLE message RENAME COLUMN text TO words"])
def test_a_database_that_lacks_something_is_set_aside(file: Path, change: str) -> None:
    written(file)
    connection = sqlite3.connect(file)
    connection.execute(change)
    connection.close()
    with pytest.raises(StoreError, match="lacks tables"):
        library.summaries(file)
    assert_set_aside(file)


@pytest.mark.parametrize(
    ("kind", "planted"),
    [
        ("trigger", "CREATE TRIGGER x AFTER INSERT ON message BEGIN DELETE FROM conversation; END"),
        ("view", "CREATE VIEW x AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT * FROM n"),
        ("table", "CREATE VIRTUAL TABLE x USING fts4(y)"),
    ],
)
def test_planted_triggers_and_views_are_not_run(file: Path, kind: str, planted: str) -> None:
    written(file)
    connection = sqlite3.connect(file)
    connection.execute(planted)
    connection.close()
    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    journal.close()
    assert f"holds a {kind} that spectui did not make" in journal.notices[0]
    with pytest.raises(StoreError, match="did not make"):
        library.summaries(file)
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT count(*) FROM conversation").fetchone() == (1,)
    connection.close()


@pytest.mark.parametrize("value", ["x'1b5d30'", "1e999", "-1e300", "9223372036854775807", "'\x1b]0;x\x07'", "''"])
@pytest.mark.parametrize(
    "column",
    [
        "conversation.title", "conversation.created", "conversation.updated", "conversation.target", "conversation.system",
        "conversation.head", "message.parent", "message.role", "message.text", "message.created", "reply.setup",
        "reply.stop", "reply.prompt_tokens", "reply.prompt_s", "chunk.rounds",
    ],
)  # fmt: skip
def test_values_of_another_type_are_read_as_empty_or_unknown(file: Path, column: str, value: str) -> None:
    """A damaged or foreign file can have anything in any column; exports and lists must cope with it."""
    written(file)
    table, name = column.split(".")
    with damaging(file, table) as connection:
        connection.execute(f"UPDATE {table} SET {name} = {value}")
    for summary in library.summaries(file):
        conversation = library.open_conversation(file, summary.id)
        assert "\x1b" not in export.markdown(conversation) + export.document(conversation)
        assert all(message.role in ("user", "assistant") for message in conversation.messages)
        assert len(conversation.messages) + len(conversation.others) == 4


def test_a_schema_that_is_not_utf_8_is_damage(file: Path) -> None:
    """SQLite quotes it in a message that Python cannot decode: that is no sqlite3.Error, and must not end the writer."""
    written(file)
    content = file.read_bytes()
    place = content.index(b"CREATE TABLE conversation")
    file.write_bytes(content[:place] + b"\x80" + content[place + 1 :])
    with pytest.raises(StoreError, match="are damaged"):
        library.summaries(file)
    assert_set_aside(file)


def test_a_byte_that_is_not_utf_8_costs_one_character(file: Path) -> None:
    written(file)
    connection = connect(file)
    connection.execute("UPDATE conversation SET title = CAST(x'61ff62' AS TEXT)")
    connection.close()
    assert [each.title for each in library.summaries(file)] == ["a\ufffdb"]
