"""When a conversation is on disk, what of it, and who may read it."""

import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from spectui.speculation.records import Round
from spectui.store import library, writer
from spectui.store.database import StoreError
from spectui.store.journal import Journal
from tests.store.journal_helpers import (
    SETUP,
    begin_reply,
    exchange,
    last,
    resume,
    some_rounds,
    text_of,
    until,
    write_prompt,
    written,
)


def test_a_conversation_is_read_as_it_was_written(file: Path) -> None:
    written(file)
    conversation = last(file)
    assert (conversation.title, conversation.system, conversation.target) == ("first", "Be brief.", "target")
    assert [message.role for message in conversation.messages] == ["user", "assistant", "user", "assistant"]
    assert conversation.messages[0].text == "first\nof all"
    reply = conversation.messages[1].reply
    assert reply is not None and reply.setup == SETUP and reply.stop == "eos"
    assert list(reply.rounds) == some_rounds()
    assert reply.knobs == some_rounds()[-1].knobs
    assert (reply.prompt_tokens, reply.prompt_s, reply.first_token_s) == (7, 0.5, 0.62)
    assert conversation.messages[1].text == text_of(some_rounds())
    assert conversation.messages[3].reply is not None and conversation.messages[3].reply.stop == "cancelled"
    assert not conversation.unfinished
    ids: list[int | None] = [message.id for message in conversation.messages]
    assert [message.parent for message in conversation.messages] == [None, *ids[:-1]]


def test_the_prompt_is_written_at_once_even_if_nothing_follows(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "COMMIT_INTERVAL_S", 3600.0)
    journal = Journal(file)
    write_prompt(journal, "will it stay?")
    journal.flush()
    other = last(file)  # another connection, while the journal is open
    assert [message.text for message in other.messages] == ["will it stay?"]
    assert other.unfinished
    journal.close()


def on_disk(file: Path) -> list[Round]:
    """The rounds of the last reply."""
    reply = last(file).messages[-1].reply
    return [*reply.rounds] if reply else []


@pytest.mark.parametrize("number", [1, 30])
def test_tokens_are_on_disk_even_if_nothing_follows(file: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few tokens after the interval; many at once, however long the interval is."""
    if number > 1:
        monkeypatch.setattr(writer, "COMMIT_INTERVAL_S", 3600.0)
    journal = Journal(file)
    prompt = write_prompt(journal, "go")
    journal.flush()
    begin_reply(journal, prompt)
    some = some_rounds(number)
    for round in some:
        journal.add_round(round)
    late = writer.LATE_TOKENS if number > 1 else 0

    until(lambda: sum(len(round.tokens) for round in on_disk(file)) >= max(1, late))
    assert on_disk(file) == some[: len(on_disk(file))]
    assert last(file).unfinished
    assert last(file).messages[-1].text == text_of(on_disk(file))
    journal.close()
    assert on_disk(file) == some


def test_rounds_wake_the_writing_thread_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wake-up would take time from the passes on the same cores."""

    class Wake(threading.Event):
        """An event of the writing thread; all of them are counted together."""

        times = 0
        timeouts: ClassVar[list[float | None]] = []

        def set(self) -> None:
            Wake.times += 1
            super().set()

        def wait(self, timeout: float | None = None) -> bool:
            Wake.timeouts.append(timeout)
            return super().wait(timeout)

    monkeypatch.setattr(writer, "threading", SimpleNamespace(Event=Wake, Thread=threading.Thread))
    monkeypatch.setattr(writer, "COMMIT_INTERVAL_S", 3600.0)
    monkeypatch.setattr(writer, "LATE_TOKENS", 3600)
    journal = Journal(file)
    begin_reply(journal, write_prompt(journal, "go"))
    first, second, *others, late = some_rounds(30)
    journal.add_round(first)
    journal.flush()  # the first text is written at once, with the prompt
    journal.add_round(second)
    until(lambda: (Wake.timeouts[-1] or 0) > 3000)  # the thread waits for the next commit
    before = Wake.times
    for round in others:
        journal.add_round(round)
    assert Wake.times == before > 0
    monkeypatch.setattr(writer, "LATE_TOKENS", 1)
    journal.add_round(late)
    until(lambda: on_disk(file) == [first, second, *others, late])
    journal.close()


def test_only_the_owner_may_read(file: Path) -> None:
    journal = Journal(file)
    exchange(journal, "a secret", some_rounds())
    write_prompt(journal, "another")  # so that there is a write-ahead log
    journal.flush()
    for path in file.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert {path.name for path in file.parent.iterdir()} >= {"conversations.db", "conversations.db-wal"}
    journal.close()


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal(None)
    exchange(journal, "a secret", some_rounds())
    assert journal.close() == ""
    assert list(tmp_path.iterdir()) == []
    assert not journal.notices


def test_a_conversation_is_resumed(file: Path) -> None:
    written(file)
    before = last(file)
    journal = Journal(file)
    resume(journal, before)
    exchange(journal, "third", some_rounds(1))
    journal.close()
    (summary,) = library.summaries(file)
    assert summary.title == "first" and summary.messages == 6
    after = last(file)
    assert after.messages[:4] == before.messages and after.messages[4].text == "third"


def test_a_search_covers_titles_and_messages_with_words_in_any_order_whatever_their_case_and_accents(file: Path) -> None:
    journal = Journal(file)
    for prompt, number in (("100% of_it", 0), ("Ein Café", 0), ("Über die Straße nach Łódź", 2)):
        exchange(journal, prompt, some_rounds(number))
        journal.clear()
    journal.close()
    for found, searches in {
        "100% of_it": ("100%", "f_i", "IT 1"),
        "Ein Café": ("cafe EIN",),
        "Über die Straße nach Łódź": ("uber", "STRASSE über", "  łodz strasse ", "2 Ä! ÜBER", "nach über ein"),
        None: ("%x", "cafe straße"),
    }.items():
        for words in searches:
            assert [each.title for each in library.summaries(file, words)] == ([found] if found else []), words


def test_rename_and_delete(file: Path) -> None:
    written(file)
    journal = Journal(file)
    exchange(journal, "stays", some_rounds())
    journal.close()
    _, first = library.summaries(file)
    library.rename(file, first.id[:4], "another")
    assert [each.title for each in library.summaries(file)] == ["stays", "another"]
    library.delete(file, first.id)
    assert [each.title for each in library.summaries(file)] == ["stays"]
    kept = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"of all" not in kept, "what was deleted is overwritten on disk"
    assert b"stays" in kept
    with pytest.raises(StoreError, match="No conversations have an id that begins with"):
        library.delete(file, first.id)


def test_hostile_text_is_harmless_when_read(file: Path) -> None:
    evil = "\x1b]0;owned\x07\ud800 'DROP TABLE message; --\x00 \u202e"
    journal = Journal(file)
    exchange(journal, evil, some_rounds(), "eos")
    journal.close()
    assert not journal.notices
    conversation = last(file)
    assert conversation.messages[0].text == "]0;owned? 'DROP TABLE message; -- "
    assert conversation.title == "]0;owned? 'DROP TABLE message; --"


WRITE_MANY = """
import sys
from pathlib import Path
from spectui.store import database, journal
from tests.store.journal_helpers import exchange, some_rounds
database.BUSY_S = journal.FLUSH_WAIT_S = 60.0  # however slow the disk is
chat = journal.Journal(Path(sys.argv[1]))
for number in range(20):
    exchange(chat, f"{sys.argv[2]} {number}", some_rounds())
    chat.clear()
chat.flush()
chat.close()
print(*chat.notices)
"""


def test_two_processes_write_at_once(file: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", WRITE_MANY, str(file), name], stdout=subprocess.PIPE, text=True)
        for name in ("one", "other")
    ]
    assert [child.communicate(timeout=300)[0].strip() for child in children] == ["", ""]
    titles = {each.title for each in library.summaries(file)}
    assert titles == {f"{name} {number}" for name in ("one", "other") for number in range(20)}
