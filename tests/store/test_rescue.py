"""What comes over from a damaged file of conversations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.store import database, library, rescue
from spectui.store.database import DamagedError, StoreError, connect
from spectui.store.journal import Journal
from spectui.store.records import Conversation
from tests.store.kept import exchange, last, some_rounds, text_of, written

MANY = 60
PAGE = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of many conversations, each of two exchanges, with everything in it and nothing beside it."""
    file = tmp_path / "conversations.db"
    journal = Journal(file)
    for number in range(MANY):
        exchange(journal, f"first {number} " + "x" * 300, some_rounds())
        exchange(journal, f"second {number}", some_rounds(2))
        journal.clear()
    journal.close()
    return file


def pages(file: Path, table: str) -> list[int]:
    """The leaves of a table's tree, by number."""
    connection = connect(file)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    content = file.read_bytes()

    def leaves(page: int) -> list[int]:
        start = (page - 1) * PAGE
        if content[start] in (13, 10):
            return [page]
        cells = int.from_bytes(content[start + 3 : start + 5])
        at = [int.from_bytes(content[start + 12 + 2 * cell :][:2]) for cell in range(cells)]
        children = [content[start + each :][:4] for each in at] + [content[start + 8 : start + 12]]
        return [leaf for child in children for leaf in leaves(int.from_bytes(child))]

    return leaves(root)


def damage(file: Path, page: int) -> bytes:
    with file.open("r+b") as opened:
        opened.seek((page - 1) * PAGE)
        opened.write(b"\xff" * PAGE)
    return file.read_bytes()


def begun(file: Path) -> Journal:
    """A chat that begins on this file."""
    journal = Journal(file)
    exchange(journal, "now", some_rounds())
    journal.close()
    return journal


def middle(numbers: list[int]) -> int:
    assert len(numbers) > 1
    return numbers[len(numbers) // 2]


def before(file: Path) -> list[Conversation]:
    """The conversations that are there, but for the one in which the damage was found."""
    kept = [library.open_conversation(file, each.id) for each in library.summaries(file)]
    return [each for each in kept if each.messages[0].text != "now"]


def test_a_damaged_page_in_the_middle_costs_what_stood_on_it(file: Path) -> None:
    page = middle(pages(file, "message"))
    start = (page - 1) * PAGE
    on_it = int.from_bytes(file.read_bytes()[start + 3 : start + 5])
    was = damage(file, page)
    journal = begun(file)
    (aside,) = file.parent.glob("conversations.damaged-*.db")
    assert aside.read_bytes() == was, "what is set aside is left as it was"
    came = before(file)
    assert list(journal.notices) == [
        f"The file of the conversations is damaged: it is now {aside}, and a new one is begun,"
        f" with what could be read of {len(came)} conversations."
    ]
    lost = MANY * 4 - sum(len(each.messages) for each in came)
    assert on_it <= lost <= on_it + 2, "nothing beside it, and each message stands in its conversation's row"
    whole = [each for each in came if len(each.messages) == 4]
    assert len(whole) >= MANY - lost
    for each in whole:
        assert each.title.startswith("first ")
        assert [message.role for message in each.messages] == ["user", "assistant"] * 2
        replies = [message.reply for message in each.messages[1::2]]
        assert [text_of(reply.rounds) for reply in replies if reply] == [
            text_of(some_rounds()), text_of(some_rounds(2))]  # fmt: skip


def test_lost_titles_are_made_of_the_messages(file: Path) -> None:
    damage(file, middle(pages(file, "conversation")))
    begun(file)
    came = before(file)
    assert len(came) == MANY
    assert all(len(each.messages) == 4 and each.title.startswith("first ") and each.updated > 0 for each in came)


@pytest.mark.parametrize(
    "make", [lambda was: b"no database at all" * 999, lambda was: was[:PAGE], lambda was: was[:100]]
)
def test_of_a_file_that_is_none_nothing_comes(file: Path, make: Callable[[bytes], bytes]) -> None:
    pages(file, "message")
    file.write_bytes(make(file.read_bytes()))
    journal = begun(file)
    assert journal.notices[0].endswith("and a new one is begun.")
    assert [each.title for each in library.summaries(file)] == ["now"]


def test_what_takes_too_long_is_ended_and_that_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(file, middle(pages(file, "message")))
    monkeypatch.setattr(rescue, "PATIENCE_S", 0.0)
    (notice,) = begun(file).notices
    assert notice.endswith("; reading it took too long, and was ended after 0 seconds.")
    assert library.summaries(file)[0].title == "now"


def test_whoever_only_reads_is_told_what_to_do_and_may_have_it_mended(file: Path) -> None:
    damage(file, middle(pages(file, "conversation")))
    with pytest.raises(DamagedError, match="spectui chat sets the file aside and brings over what can be read"):
        library.last(file)
    rescued = rescue.begin_anew(file)
    assert rescued.in_time and rescued.aside.exists() and len(before(file)) == rescued.conversations == MANY
    journal = begun(file)
    assert not journal.notices, "the new file is sound"


def test_a_damaged_file_that_cannot_be_set_aside_is_a_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    was = damage(file, 1)

    def refuse(file: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rescue, "set_aside", refuse)
    with pytest.raises(StoreError, match="cannot be set aside: Permission denied"):
        rescue.begin_anew(file)
    assert file.read_bytes() == was


def lose(file: Path) -> None:
    """Nothing that stands in the file can be read any more."""
    file.write_bytes(b"\xff" * file.stat().st_size)
    for suffix in ("-wal", "-shm"):
        beside = file.with_name(file.name + suffix)
        if beside.exists():
            beside.write_bytes(b"\xff" * beside.stat().st_size)


def lose_titles(file: Path) -> None:
    """The messages can be read, and nothing of their conversations."""
    connection = connect(file)
    connection.execute("UPDATE reply SET setup = setup")  # whoever has pages in memory must read them again
    connection.close()
    (page,) = pages(file, "conversation")
    damage(file, page)


@pytest.mark.parametrize("all_of_it", [True, False])
def test_a_stopped_reply_of_a_conversation_gone_on_with_is_whole_in_the_new_file(
    tmp_path: Path, all_of_it: bool
) -> None:
    """It was said before the damage and by another process, so that it is known only because it was read."""
    file = tmp_path / "conversations.db"
    written(file)
    was = last(file)
    assert was.messages[-1].reply is not None and was.messages[-1].reply.stop == "cancelled"
    journal = Journal(file)
    journal.resume(was)
    journal.flush()
    assert last(file) == was, "what is there already stays as it was"
    if all_of_it:
        lose(file)
    else:
        lose_titles(file)
    journal.continue_reply()
    for round in some_rounds():
        journal.add_round(round)
    journal.end_reply("eos", kept=True)
    exchange(journal, "third", some_rounds(1))
    journal.close()
    (notice,) = journal.notices
    assert "is damaged" in notice
    now = last(file)
    assert (now.id, now.title, now.system) == (was.id, was.title, was.system)
    texts = [message.text for message in was.messages[:-1]]
    whole = was.messages[-1].text + text_of(some_rounds())
    assert [message.text for message in now.messages] == [*texts, whole, "third", text_of(some_rounds(1))]
    for message in now.messages[1::2]:
        assert message.reply is not None and text_of(message.reply.rounds) == message.text


def test_what_another_spectui_has_brought_over_is_not_written_twice(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    written(file)
    kept = last(file)
    quick, slow = Journal(file), Journal(file)
    slow.resume(kept)
    slow.continue_reply()
    for round in some_rounds():
        slow.add_round(round)
    slow.end_reply("eos", kept=True)
    exchange(slow, "slow", some_rounds())
    slow.flush()
    was = last(file)
    lose_titles(file)
    exchange(quick, "quick", some_rounds())
    quick.close()
    assert "with what could be read of 1 conversation." in quick.notices[0]
    exchange(slow, "more", some_rounds(1))
    slow.close()
    assert not slow.notices
    now = library.open_conversation(file, was.id)
    said = [message.text for message in was.messages]
    assert [message.text for message in now.messages] == [*said, "more", text_of(some_rounds(1))]
    for message in now.messages[1::2]:
        assert message.reply is not None and text_of(message.reply.rounds) == message.text


def test_another_spectuis_new_file_is_not_taken_for_the_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was set aside between the finding of the damage and what is done about it."""
    file = tmp_path / "conversations.db"
    written(file)
    found: list[Path] = []

    def check(connection: object) -> None:
        if not found:
            found.append(database.set_aside(file))
            written(file)
            raise DamagedError("It is damaged.")

    monkeypatch.setattr(database, "check_pages", check)
    journal = begun(file)
    assert not journal.notices
    assert [*file.parent.glob("conversations.damaged-*.db")] == found
    assert len(library.summaries(file)) == 2
