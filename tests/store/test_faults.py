"""With a disk that is full, locked, read-only or damaged, the chat continues, a notice says so, and what can be saved is."""

import secrets
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.store import database, library, writer
from spectui.store.database import VERSION, StoreError, connect, transaction
from spectui.store.journal import Journal
from spectui.store.prompts import PromptHistory, prompts_file
from spectui.store.rows import Written, write
from tests.helpers.unprivileged import unprivileged
from tests.store.journal_helpers import (
    assert_set_aside,
    begin_reply,
    exchange,
    finished,
    last,
    some_rounds,
    text_of,
    until,
    write_prompt,
    written,
)

MEMORY_ONLY = "This chat is in memory only, and is lost when spectui ends: "
AGAIN = "This chat is being saved on disk again, all of it."


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another process has locked the database."""
    other = connect(file)
    other.execute("PRAGMA busy_timeout = 60000")  # the writer may still hold the lock
    with transaction(other):
        yield
    other.close()


def test_a_locked_database_is_written_to_once_it_is_free(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.01)
    journal = Journal(file)
    exchange(journal, "one", some_rounds(1))
    journal.flush()
    with locked(file):
        exchange(journal, "two", some_rounds(2))
        until(lambda: journal.notices)
        assert journal.notices.popleft() == f"{MEMORY_ONLY}database is locked ({file})."
        exchange(journal, "three", some_rounds(3))
    until(lambda: journal.notices)
    assert list(journal.notices) == [AGAIN]
    journal.close()
    conversation = last(file)
    assert [message.text for message in conversation.messages[::2]] == ["one", "two", "three"]
    assert conversation.messages[-1].text == text_of(some_rounds(3))


def test_a_disk_that_hangs_does_not_stop_the_chat(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def hanging(file: Path) -> sqlite3.Connection:
        going.wait(60)
        return connect(file)

    monkeypatch.setattr(database, "connect", hanging)
    journal = Journal(file)
    write_prompt(journal, "are you there?")
    going.set()
    journal.close()
    assert [message.text for message in last(file).messages] == ["are you there?"]


def cramp(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The disk has room for 14 pages: the tables fit, a chat does not. Returns the room, which may be changed."""
    room = [14]

    def cramped(file: Path) -> sqlite3.Connection:
        connection = connect(file)
        connection.execute(f"PRAGMA max_page_count = {room[0]}")
        return connection

    monkeypatch.setattr(database, "connect", cramped)
    return room


def test_a_full_disk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = cramp(monkeypatch)
    journal = Journal(file)
    exchange(journal, "x" * 100_000, some_rounds())
    until(lambda: journal.notices)
    assert journal.notices.popleft() == f"{MEMORY_ONLY}database or disk is full ({file})."
    exchange(journal, "more", some_rounds())
    room[0] = 10_000
    until(lambda: journal.notices)
    assert list(journal.notices) == [AGAIN]
    journal.close()
    assert [len(message.text) for message in last(file).messages[::2]] == [100_000, 4]


def test_no_directory_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file stands here")
    journal = Journal(tmp_path / "data" / "conversations.db")
    exchange(journal, "one", some_rounds())
    until(lambda: journal.notices)
    assert journal.notices.popleft().startswith(MEMORY_ONLY)
    journal.close()
    assert not journal.notices, "the notice is given once"


def test_a_disk_that_failed_before_the_first_prompt_gets_it_at_once_when_it_works_again(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file stands here")
    journal = Journal(tmp_path / "data" / "conversations.db")
    until(lambda: journal.notices)
    (tmp_path / "data").unlink()
    until(lambda: len(journal.notices) == 2)
    assert journal.notices[1] == AGAIN
    write_prompt(journal, "one")
    journal.flush()
    assert [message.text for message in last(journal.file).messages] == ["one"]
    journal.close()


@pytest.mark.parametrize("there", [False, True])
def test_a_read_only_directory(file: Path, there: bool) -> None:
    file.parent.mkdir()
    if there:
        written(file)
    file.parent.chmod(0o500)
    try:
        with unprivileged():
            journal = Journal(file)
            exchange(journal, "one", some_rounds())
            until(lambda: journal.notices)
            assert journal.notices[0].startswith(MEMORY_ONLY)
            journal.close()
    finally:
        file.parent.chmod(0o700)


def test_a_directory_that_may_not_be_entered(tmp_path: Path) -> None:
    """As where HOME is another user's."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    with unprivileged():
        history = PromptHistory(closed / "prompts.jsonl")
        assert (history.load(), history.take_unsent()) == ([], "")
        for read in (library.summaries, library.last):
            with pytest.raises(StoreError, match=r"conversations\.db cannot be used: .*Permission denied"):
                read(closed / "conversations.db")


LEAVE_OPEN = """
import os, sys
from pathlib import Path
from spectui.store.database import connect
connection = connect(Path(sys.argv[1]))
connection.execute("UPDATE conversation SET updated = updated + 1")
connection.execute("PRAGMA wal_checkpoint").fetchall()
os._exit(0)
"""


def leave_open(file: Path) -> None:
    """Another process writes to the file, and dies without closing it."""
    subprocess.run([sys.executable, "-c", LEAVE_OPEN, str(file)], check=True)
    assert database.was_left_open(file)


def test_the_whole_file_is_checked_only_after_an_unclean_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[object] = []
    check_pages = database.check_pages

    def check(connection: sqlite3.Connection) -> None:
        checked.append(connection)
        check_pages(connection)

    monkeypatch.setattr(database, "check_pages", check)
    written(file)
    library.summaries(file)
    written(file)
    assert not checked, "a new file, one that was closed, one that a reader has opened"
    leave_open(file)
    written(file)
    assert len(checked) == 1
    written(file)
    assert len(checked) == 1


def test_damage_where_nothing_is_written_is_found_after_an_unclean_end(file: Path) -> None:
    """Otherwise only the next reader would meet it, and could read nothing at all."""
    written(file)
    journal = Journal(file)
    exchange(journal, "x" * 20_000, some_rounds(1))
    journal.close()
    file.with_name(f"{file.name}-wal").write_bytes(bytes(32))  # as an unclean end leaves one
    content = file.read_bytes()
    with file.open("r+b") as opened:
        for page in range(0, len(content), 4096):
            if b"x" * 4000 in content[page : page + 4096]:  # the prompt's overflow pages
                opened.seek(page)
                opened.write(b"\xff" * 4096)
    with pytest.raises(StoreError, match="malformed"):
        library.summaries(file, "y")
    assert_set_aside(file)


def test_a_file_that_is_removed_during_the_chat_is_made_again(file: Path) -> None:
    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    journal.flush()
    for path in file.parent.iterdir():
        path.unlink()
    exchange(journal, "two", some_rounds())
    journal.close()
    conversation = last(file)
    assert [each.text for each in conversation.messages[::2]] == ["one", "two"]


@pytest.mark.parametrize(("version", "words"), [(1, "an older spectui than"), (VERSION + 1, "a newer spectui: update")])
def test_a_database_of_another_version_is_left_alone(file: Path, version: int, words: str) -> None:
    written(file)
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    journal.close()
    assert f"written by {words}" in journal.notices[0]
    with pytest.raises(StoreError, match=words):
        library.last(file)
    assert list(file.parent.glob("*damaged*")) == []


@pytest.mark.parametrize(
    ("index", "tokens", "why"), [(b"no number", 7, "JSON serializable"), (0, 2**63, "too large"), (0, -1, "CHECK")]
)
def test_what_cannot_be_written_is_said_and_costs_its_own_conversation_alone(
    file: Path, index: object, tokens: int, why: str
) -> None:
    journal = Journal(file)
    begin_reply(journal, write_prompt(journal, "one"))
    journal.add_round(replace(some_rounds(1)[0], index=index))
    journal.end_reply("eos", finished()._replace(prompt_tokens=tokens))
    until(lambda: journal.notices)
    assert journal.notices[0].startswith(MEMORY_ONLY) and why in journal.notices[0]
    journal.clear()
    exchange(journal, "two", some_rounds())
    journal.flush()
    assert [message.text for message in last(file).messages] == ["two", text_of(some_rounds())]
    exchange(journal, "three", some_rounds())
    assert why in journal.close() and len(journal.notices) == 1
    assert [message.text for message in last(file).messages[::2]] == ["two", "three"]


def test_a_chat_that_one_file_cannot_take_is_written_into_the_next(file: Path) -> None:
    with closing(connect(file)) as connection:
        connection.execute("CREATE TRIGGER refusing BEFORE INSERT ON message BEGIN SELECT RAISE(ABORT, 'refused'); END")
    journal = Journal(file)
    write_prompt(journal, "one")
    until(lambda: journal.notices)
    assert journal.notices[0] == f"{MEMORY_ONLY}refused ({file})."
    for path in file.parent.iterdir():
        path.unlink()
    write_prompt(journal, "two")
    assert journal.close() == ""
    assert [message.text for message in last(file).messages] == ["one", "two"]


@pytest.mark.usefixtures("fresh_directories")
def test_a_text_that_was_not_sent_is_saved_once_the_disk_takes_it(file: Path) -> None:
    history = PromptHistory(prompts_file())
    prompts_file().parent.mkdir(parents=True)
    (obstacle := prompts_file().with_name("unsent.json")).mkdir()
    journal = Journal(file)
    journal.save_unsent("half a thought")
    journal.flush()
    obstacle.rmdir()
    until(lambda: obstacle.exists())
    assert history.take_unsent() == "half a thought"
    assert journal.close() == ""


def test_damaged_rounds_cost_only_their_colours(file: Path) -> None:
    written(file)
    connection = connect(file)
    connection.execute("UPDATE chunk SET rounds = x'00'")
    connection.execute("UPDATE reply SET setup = '[]'")
    connection.close()
    conversation = last(file)
    assert conversation.messages[1].text == text_of(some_rounds())
    assert conversation.messages[1].reply is not None and not conversation.messages[1].reply.rounds


def test_parents_that_form_a_circle(file: Path) -> None:
    written(file)
    connection = connect(file)
    connection.execute("UPDATE message SET parent = (SELECT max(id) FROM message WHERE id != message.id)")
    connection.close()
    conversation = last(file)
    assert 1 <= len(conversation.messages) <= 4


def test_a_last_commit_that_fails_is_told_by_close(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody shows notices by then."""
    monkeypatch.setattr(writer, "COMMIT_INTERVAL_S", 3600.0)
    cramp(monkeypatch)
    journal = Journal(file)
    begin_reply(journal, write_prompt(journal, "one"))
    journal.flush()
    assert not journal.notices
    for round in some_rounds(2):
        journal.add_round(replace(round, tokens=(round.tokens[0]._replace(text=secrets.token_hex(200_000)),)))
    said = f"What was said last is not on disk: database or disk is full ({file})."
    assert journal.close() == said
    assert journal.close() == said
    monkeypatch.undo()
    assert last(file).messages[0].text == "one"


def test_a_disk_that_hangs_at_the_end_is_told_by_close(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def hanging(*given: Any, **named: bool) -> Written:
        going.wait(60)
        return write(*given, **named)

    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    journal.flush()
    monkeypatch.setattr(writer, "write", hanging)
    journal.change(system="Be short.")
    close = writer.Writer.close
    monkeypatch.setattr(writer.Writer, "close", lambda self: close(self, 0.01))
    assert journal.close() == f"The disk does not answer: what was said last may not be in {file}."
    going.set()
