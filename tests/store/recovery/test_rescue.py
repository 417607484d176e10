"""What is copied from a damaged file of conversations."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from spectui.store import library
from spectui.store.database import DamagedError, StoreError, connect
from spectui.store.journal import Journal
from spectui.store.records import StoredConversation
from spectui.store.recovery import rescue
from tests.store.journal_helpers import begun_anew, damaging, exchange, last, lose, resume, some_rounds, text_of, written

MANY = 60
PAGE = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A closed file of many conversations with two exchanges each."""
    file = tmp_path / "conversations.db"
    journal = Journal(file)
    for number in range(MANY):
        exchange(journal, f"first {number} " + "x" * 300, some_rounds())
        exchange(journal, f"second {number}", some_rounds(2))
        journal.clear()
    journal.close()
    return file


def pages(file: Path, table: str) -> list[int]:
    """The numbers of the leaf pages of a table."""
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
    """Overwrite a page, and leave the file as a process that ended without closing it does."""
    file.with_name(file.name + "-wal").write_bytes(bytes(32))
    with file.open("r+b") as opened:
        opened.seek((page - 1) * PAGE)
        opened.write(b"\xff" * PAGE)
    return file.read_bytes()


def begun(file: Path) -> Journal:
    """A chat that begins with this file."""
    journal = Journal(file)
    exchange(journal, "now", some_rounds())
    journal.close()
    return journal


def middle(numbers: list[int]) -> int:
    assert len(numbers) > 1
    return numbers[len(numbers) // 2]


def before(file: Path) -> list[StoredConversation]:
    """The conversations in the file, without the one in which the damage was found."""
    kept = [library.open_conversation(file, each.id) for each in library.summaries(file)]
    return [each for each in kept if each.messages[0].text != "now"]


def test_a_damaged_page_costs_only_what_was_on_it(file: Path) -> None:
    page = middle(pages(file, "message"))
    start = (page - 1) * PAGE
    on_it = int.from_bytes(file.read_bytes()[start + 3 : start + 5])
    was = damage(file, page)
    journal = begun(file)
    (aside,) = file.parent.glob("conversations.damaged-*.db")
    assert aside.read_bytes() == was, "the file that was set aside is unchanged"
    came = before(file)
    assert list(journal.notices) == [
        f"The file of the conversations is damaged: it is now {aside}, and a new one is begun,"
        f" with what could be read of {len(came)} conversations."
    ]
    lost = MANY * 4 - sum(len(each.messages) for each in came)
    assert on_it <= lost <= on_it + 2, "nothing else is lost, and each message is in its conversation"
    whole = [each for each in came if len(each.messages) == 4]
    assert len(whole) >= MANY - lost
    for each in whole:
        assert each.title.startswith("first ")
        assert [message.role for message in each.messages] == ["user", "assistant"] * 2
        replies = [message.reply for message in each.messages[1::2]]
        assert [text_of(reply.rounds) for reply in replies if reply] == [text_of(some_rounds()), text_of(some_rounds(2))]


def test_a_conversation_whose_messages_are_all_lost_costs_no_other(file: Path) -> None:
    lost = library.summaries(file)[MANY // 2].id
    with closing(connect(file)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM message WHERE conversation = ?", (lost,))
    rescued = begun_anew(file)
    assert rescued.conversations == MANY - 1
    assert [len(each.messages) for each in before(file)] == [4] * (MANY - 1)


@pytest.mark.parametrize(
    ("table", "key", "change", "lost"),
    [
        ("message", "id", "text = x'00'", 1),
        ("reply", "message", "setup = x'00'", 0),
        ("conversation", "id", "title = x'00'", 0),
        ("chunk", "message", "rounds = 'text'", 0),
    ],
)
def test_a_value_of_another_type_costs_its_row_alone(file: Path, table: str, key: str, change: str, lost: int) -> None:
    with damaging(file, table) as connection:
        connection.execute(f"UPDATE {table} SET {change} WHERE {key} = (SELECT min({key}) FROM {table})")
    assert begun_anew(file).conversations == len(before(file)) == MANY
    messages = [message for each in before(file) for message in each.messages]
    assert len(messages) == 4 * MANY - lost
    replies = [message.reply for message in messages if message.reply is not None]
    whole = [reply for reply in replies if reply.rounds]
    assert len(replies) >= 2 * MANY - 1 <= len(whole), "no other reply has lost its tokens"


def test_lost_titles_are_made_from_the_messages(file: Path) -> None:
    damage(file, middle(pages(file, "conversation")))
    begun(file)
    came = before(file)
    assert len(came) == MANY
    assert all(len(each.messages) == 4 and each.title.startswith("first ") and each.updated > 0 for each in came)


@pytest.mark.parametrize("make", [lambda was: b"no database at all" * 999, lambda was: was[:PAGE], lambda was: was[:100]])
def test_nothing_is_copied_from_a_file_that_is_no_database(file: Path, make: Callable[[bytes], bytes]) -> None:
    pages(file, "message")
    file.write_bytes(make(file.read_bytes()))
    journal = begun(file)
    assert journal.notices[0].endswith("and a new one is begun.")
    assert [each.title for each in library.summaries(file)] == ["now"]


def test_a_rescue_that_takes_too_long_is_ended_and_the_notice_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(file, middle(pages(file, "message")))
    monkeypatch.setattr(rescue, "PATIENCE_S", 0.0)
    (notice,) = begun(file).notices
    assert notice.endswith("; reading it took too long, and was ended after 0 seconds.")
    assert library.summaries(file)[0].title == "now"


def test_a_reader_of_a_damaged_file_is_told_what_to_do(file: Path) -> None:
    damage(file, middle(pages(file, "conversation")))
    with pytest.raises(DamagedError, match="spectui chat sets the file aside and brings over what can be read"):
        library.last(file)
    rescued = begun_anew(file)
    assert rescued.in_time and rescued.aside.exists() and len(before(file)) == rescued.conversations == MANY
    journal = begun(file)
    assert not journal.notices, "the new file is sound"


def test_a_damaged_file_that_cannot_be_set_aside_is_a_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    was = damage(file, 1)

    def refuse(*_: object) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rescue, "set_aside", refuse)
    with pytest.raises(StoreError, match="cannot be set aside: Permission denied"):
        begun_anew(file)
    assert file.read_bytes() == was


def lose_titles(file: Path) -> None:
    """Make the conversations' rows unreadable, and leave the messages."""
    connection = connect(file)
    connection.execute("UPDATE reply SET setup = setup")  # so that other connections read the pages again
    connection.close()
    (page,) = pages(file, "conversation")
    damage(file, page)


@pytest.mark.parametrize("all_of_it", [True, False])
def test_a_continued_reply_of_a_resumed_conversation_is_complete_in_the_new_file(tmp_path: Path, all_of_it: bool) -> None:
    """Another process wrote its beginning before the damage: this one knows it only because it has read it."""
    file = tmp_path / "conversations.db"
    written(file)
    was = last(file)
    assert was.messages[-1].reply is not None and was.messages[-1].reply.stop == "cancelled"
    journal = Journal(file)
    messages = resume(journal, was)
    journal.flush()
    assert last(file) == was, "what is there already stays as it was"
    if all_of_it:
        lose(file)
    else:
        lose_titles(file)
    journal.continue_reply(messages[-1])
    for round in some_rounds():
        journal.add_round(round)
    journal.end_reply("eos")
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


def test_what_another_process_has_copied_is_not_written_twice(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    written(file)
    kept = last(file)
    quick, slow = Journal(file), Journal(file)
    slow.continue_reply(resume(slow, kept)[-1])
    for round in some_rounds():
        slow.add_round(round)
    slow.end_reply("eos")
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
