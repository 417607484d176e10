"""Readers see one commit, write nothing, and may run in any thread."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spectui.store import library
from spectui.store.database import StoreError, connect, reading, transaction
from spectui.store.journal import Journal
from spectui.store.records import Reply, StoredConversation
from tests.store.journal_helpers import last, resume, text_of, written

APPEND = """
import sys
from pathlib import Path
from spectui.store.database import connect, transaction
from spectui.store.rounds.packing import pack
from tests.store.journal_helpers import some_rounds, text_of
connection = connect(Path(sys.argv[1]))
with transaction(connection):
    connection.execute("UPDATE message SET text = text || ? WHERE role = 'assistant'", (text_of(some_rounds(4)),))
    connection.execute(
        "INSERT INTO chunk SELECT message, 1 + max(number), ? FROM chunk GROUP BY message", (pack(some_rounds(4)),)
    )
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "conversations.db"
    written(file)
    return file


def assert_whole(conversation: StoredConversation) -> None:
    """Each reply's text is that of its rounds."""
    for message in conversation.messages:
        assert message.reply is None or text_of(message.reply.rounds) == message.text


@pytest.mark.parametrize("read", ["last", "open_conversation"])
def test_text_and_rounds_are_of_one_commit(file: Path, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    """Another process commits after the messages were read and before their rounds are."""
    was = last(file)
    read_reply = library._reply
    commits: list[int] = []

    def commit_first(connection: sqlite3.Connection, message: int) -> Reply | None:
        if not commits:
            commits.append(subprocess.run([sys.executable, "-c", APPEND, str(file)]).returncode)
        return read_reply(connection, message)

    monkeypatch.setattr(library, "_reply", commit_first)
    conversation = last(file) if read == "last" else library.open_conversation(file, was.id)
    assert commits == [0], "the other process did not wait for the reader"
    assert conversation == was
    assert_whole(conversation)
    monkeypatch.undo()
    assert len(last(file).messages[1].text) > len(was.messages[1].text)
    assert_whole(last(file))


def test_a_reader_cannot_write(file: Path) -> None:
    with reading(file) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM chunk")


def test_readers_do_not_wait_for_a_writer(file: Path) -> None:
    with closing(connect(file)) as connection, transaction(connection):
        connection.execute("UPDATE message SET text = 'half of it'")
        assert_whole(last(file))
        assert len(library.summaries(file, "second")) == 1


def test_many_threads_read_at_once(file: Path) -> None:
    was, found = last(file), list[Any]()

    def read() -> None:
        found.append((library.summaries(file), library.open_conversation(file, was.id)))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 8 and all(each == found[0] for each in found) and found[0][1] == was


def test_deleting_returns_what_was_said_in_all_branches(file: Path) -> None:
    was = last(file)
    journal = Journal(file)
    journal.save_head(resume(journal, was)[1])
    assert journal.close() == ""
    assert (last(file).messages, last(file).others) == (was.messages[:2], was.messages[2:])
    assert sorted(library.delete(file, was.id)) == ["first\nof all", "second"]
    assert library.summaries(file) == []


def test_a_file_that_is_not_there_is_a_sentence_and_stays_so(tmp_path: Path) -> None:
    file = tmp_path / "nothing" / "conversations.db"
    for act in (library.open_conversation, library.delete):
        with pytest.raises(StoreError, match="There are no conversations yet"):
            act(file, "1")
    assert library.summaries(file) == [] and library.last(file) is None
    assert not file.parent.exists()
