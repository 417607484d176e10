"""What comes over from a damaged file of conversations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.store import library
from spectui.store.database import connect
from spectui.store.journal import Journal
from spectui.store.records import Conversation
from tests.store.kept import exchange, some_rounds, text_of

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
