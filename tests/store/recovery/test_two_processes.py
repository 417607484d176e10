"""Two spectui use one file of conversations, and one of them sets it aside: neither loses a conversation."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from spectui.chat.history import conversations
from spectui.store import database, library, writer
from spectui.store.database import StoreError, identity
from spectui.store.journal import Journal
from tests.store.journal_helpers import (
    begin_reply,
    begun_anew,
    exchange,
    last,
    lose,
    some_rounds,
    text_of,
    until,
    write_prompt,
    written,
)


def chat(file: Path, prompt: str) -> Journal:
    """A chat of one exchange, which has ended."""
    journal = Journal(file)
    exchange(journal, prompt, some_rounds())
    assert journal.close() == ""
    return journal


def prompts(file: Path) -> list[list[str]]:
    """The prompts of each conversation whose replies have all ended."""
    with suppress(StoreError):
        kept = [library.open_conversation(file, each.id) for each in library.summaries(file)]
        return sorted([message.text for message in each.messages[::2]] for each in kept if not each.unfinished)
    return []


def aside(file: Path) -> list[Path]:
    return list(file.parent.glob("conversations.damaged-*.db"))


class Other:
    """Another spectui, which wants to set the file aside once it is told to."""

    def __init__(self, file: Path) -> None:
        self._thread = Thread(target=begun_anew, args=(file,))

    def act(self) -> None:
        """Begin, and have the chance to end: it waits for a chat that uses the file."""
        if self._thread.ident is None:
            self._thread.start()
            self._thread.join(0.3)

    def after(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, after which the other acts."""

        def and_then(*given: object, **named: object) -> Any:
            result = call(*given, **named)
            self.act()
            return result

        return and_then

    def end(self) -> None:
        self._thread.join()


def test_both_meet_the_damage_and_share_one_new_file(file: Path) -> None:
    """The first sets the file aside; the second must not set the new file aside."""
    journals = [Journal(file), Journal(file)]
    said: list[list[str]] = []
    for number, journal in enumerate(journals):
        exchange(journal, f"before {number}", some_rounds())
        said.append([f"before {number}"])
        # The first has read its pages before the second wrote, so both read the damaged ones.
        until(lambda: prompts(file) == said)
    lose(file)
    for prompt in ("after", "last"):
        for number, journal in enumerate(journals):
            exchange(journal, f"{prompt} {number}", some_rounds())
            said[number].append(f"{prompt} {number}")
            journal.flush()
    until(lambda: prompts(file) == said)
    assert [journal.close() for journal in journals] == ["", ""]
    assert prompts(file) == said
    assert len(aside(file)) == 1


@pytest.mark.parametrize("at_start", [False, True])
def test_only_the_damaged_file_is_set_aside(file: Path, monkeypatch: pytest.MonkeyPatch, at_start: bool) -> None:
    """The other acts between finding the damage and setting the file aside, within the same second."""
    written(file)
    lose(file)
    was = file.read_bytes()
    module, name = (conversations, "begin_anew") if at_start else (database, "set_aside")
    act = getattr(module, name)

    def late(*given: Any) -> object:
        monkeypatch.setattr(module, name, act)
        assert "is damaged" in chat(file, "quick").notices[0]
        return act(*given)

    monkeypatch.setattr(module, name, late)
    monkeypatch.setattr(conversations, "database_file", lambda: file)
    if at_start:
        notices: list[str] = []
        opened = conversations.conversation_at_start(None, file, notices)
        assert opened is not None and opened.title == "quick" and not notices
    assert not chat(file, "slow").notices
    assert [each.read_bytes() for each in aside(file)] == [was]
    assert prompts(file) == [["quick"], ["slow"]]


def test_a_start_with_a_conversation_that_damage_took_says_where_the_damaged_file_is(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(file)
    lose(file)
    monkeypatch.setattr(conversations, "database_file", lambda: file)
    with pytest.raises(StoreError, match=r"is damaged: it is now .* No conversations"):
        conversations.conversation_at_start("3f2a", file, [])


@pytest.mark.parametrize("step", ["connect", "check_pages"])
def test_a_file_is_not_set_aside_while_a_chat_opens_it(file: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Otherwise the chat would write to the file aside from then on."""
    written(file)
    file.with_name(f"{file.name}-wal").write_bytes(bytes(32))  # so that the pages are checked
    other = Other(file)
    monkeypatch.setattr(database, step, other.after(getattr(database, step)))
    chat(file, "now")
    other.end()
    assert prompts(file) == [["first\nof all", "second"], ["now"]]


def test_a_file_is_not_set_aside_while_a_chat_writes_to_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed afterwards would not be copied."""
    monkeypatch.setattr(writer, "COMMIT_INTERVAL_S", 3600.0)
    journal = Journal(file)
    begin_reply(journal, write_prompt(journal, "one"))
    journal.flush()
    other = Other(file)
    monkeypatch.setattr(writer, "write", other.after(writer.write))
    for round in some_rounds():
        journal.add_round(round)
    assert journal.close() == ""
    other.end()
    assert last(file).messages[-1].text == text_of(some_rounds())


def test_a_file_is_not_set_aside_while_a_conversation_is_deleted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be copied to the new file."""
    chat(file, "a secret")
    chat(file, "harmless")
    (secret,) = (each.id for each in library.summaries(file) if each.title == "a secret")
    other = Other(file)
    monkeypatch.setattr(database, "connect", other.after(database.connect))
    library.delete(file, secret)
    other.end()
    assert prompts(file) == [["harmless"]]


def test_a_file_is_not_set_aside_while_it_is_closed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite deletes the log by name: it could be that of the new file."""
    other, names = Other(file), []

    class Closing(sqlite3.Connection):
        def close(self) -> None:
            was = identity(file)
            other.act()
            super().close()
            names.append(identity(file) == was)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Closing))
    chat(file, "one")
    other.end()
    assert names and all(names)
    assert prompts(file) == [["one"]]


def test_a_chat_that_says_nothing_more_is_in_the_new_file(file: Path) -> None:
    """Nothing can be copied from the damaged file, but the first has its conversation in memory."""
    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    until(lambda: prompts(file) == [["one"]])
    lose(file)
    chat(file, "two")
    assert journal.close() == ""
    assert prompts(file) == [["one"], ["two"]]


CLOSE = """
import sys
from pathlib import Path
from spectui.store.database import connect
connect(Path(sys.argv[1])).close()
"""


def test_another_process_does_not_delete_the_log_of_an_open_file(file: Path) -> None:
    """A second connection of this process must not end the locks of the first."""
    journal = Journal(file)
    exchange(journal, "one", some_rounds())
    until(lambda: prompts(file) == [["one"]])
    library.rename(file, journal.conversation, "another title")
    subprocess.run([sys.executable, "-c", CLOSE, str(file)], check=True)
    exchange(journal, "two", some_rounds())
    journal.flush()
    assert prompts(file) == [["one", "two"]]
    subprocess.run([sys.executable, "-c", CLOSE, str(file)], check=True)
    assert journal.close() == ""
    assert prompts(file) == [["one", "two"]]
