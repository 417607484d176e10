"""A database that lacks something is set aside; one that has values of other types is lived with."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spectui.store import export, library
from spectui.store.database import StoreError, connect
from spectui.store.journal import Journal
from tests.store.journal_helpers import assert_set_aside, damaging, exchange, last, some_rounds, written


@pytest.mark.parametrize("change", ["DROP TABLE chunk", "ALTER TABLE message RENAME COLUMN text TO words"])
def test_a_database_that_lacks_something_is_set_aside(file: Path, change: str) -> None:
    written(file)
    was = last(file)
    connection = sqlite3.connect(file)
    connection.execute(change)
    connection.close()
    with pytest.raises(StoreError, match="are damaged"):
        library.open_conversation(file, was.id)
    assert_set_aside(file)


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


def test_an_old_sqlite_is_a_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(file)
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
def test_the_tables_refuse_what_no_spectui_writes(file: Path, statement: str) -> None:
    written(file)
    with closing(connect(file)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
