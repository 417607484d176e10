"""The conversations on disk, as a session lists and leaves them, and the list of messages to continue from."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectui import paths
from spectui.chat.history.views import listed_messages, snapshot
from spectui.chat.sentences import NOT_SAVED
from spectui.chat.session import ChatSession
from spectui.errors import UsageError
from spectui.speculation.records import StopReason
from spectui.store import library
from spectui.store.journal import Journal
from spectui.store.prompts import PromptHistory, prompts_file
from tests.chat.test_session import PAIR, drained, loaded, reply, turn
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import last

pytestmark = pytest.mark.usefixtures("fresh_directories")


def chat(engine: FakeEngine, file: Path, *prompts: str) -> ChatSession:
    """A session in this file, in which each of these prompts has the reply "re"."""
    session = loaded(engine, Journal(file))
    for prompt in prompts:
        turn(session, prompt, "re")
    return session


def test_the_open_conversation_is_left_before_it_is_deleted_and_another_is_not(engine: FakeEngine, tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    session = chat(engine, file, "one")
    (first,) = session.stored.find()
    session.new_chat()
    turn(session, "two", "re")
    kept = paths.kept_directory() / "1.npz"
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert not session.leave(first.id) and len(session.messages) == 2
    assert session.stored.delete(first.id) == ["one"]
    assert engine.forgets == 1 and not kept.exists(), "what was read of it goes too"
    (second,) = session.stored.find()
    assert session.stored.is_open(second.id)
    assert session.leave(second.id) and session.messages == [] and session.journal.title == ""
    assert len(library.summaries(file)) == 1, "nothing is deleted before it is carried out"
    assert session.stored.delete(second.id) == ["two"] and session.stored.find() == []
    session.close()


def test_prompts_are_saved_with_the_chats_and_deleted_with_them(engine: FakeEngine, tmp_path: Path) -> None:
    session = chat(engine, tmp_path / "c.db", "one")
    session.journal.save_prompt("one")
    session.journal.save_prompt("other")
    (found,) = session.stored.find("ONE")
    assert session.stored.prompts() == ["one", "other"]
    session.leave(found.id)
    session.stored.delete(found.id)
    assert session.stored.prompts() == ["other"]
    session.close()


def test_without_a_file_nothing_is_saved_listed_or_deleted(engine: FakeEngine) -> None:
    PromptHistory(prompts_file()).add("of another chat")
    session = loaded(engine)
    assert not session.stored.saved and session.stored.prompts() == []
    for ask in (session.stored.find, lambda: session.stored.delete("a"), lambda: session.stored.rename("a", "b")):
        with pytest.raises(UsageError, match=NOT_SAVED):
            ask()


def test_a_title_is_one_line_of_limited_length_at_first_the_prompts_first_one(engine: FakeEngine, tmp_path: Path) -> None:
    session = chat(engine, tmp_path / "c.db", "one two three four five six seven eight nine ten\nmore")
    (found,) = session.stored.find()
    assert session.stored.rename(found.id, " \n") == ""
    assert session.stored.find()[0].title == session.journal.title == "one two three four five six seven eight nine ten"
    assert session.stored.rename(found.id, "two\n words" + "x" * 100) == "two words" + "x" * 51
    assert session.stored.find()[0].title == session.journal.title == "two words" + "x" * 51
    session.close()


def test_a_prompt_is_edited_a_reply_gone_back_to_and_a_branch_turned_to(engine: FakeEngine, tmp_path: Path) -> None:
    session = chat(engine, tmp_path / "c.db", "one", "two")
    session.conversation.go_back(2)
    turn(session, "three", "last")
    listed = list(listed_messages(session))
    assert [(each.verb, each.label, each.text) for each in listed[:4]] == [
        ("edit", "you", "one"), ("back", "reply", "re"), ("edit", "you", "three"), ("back", "reply", "last")
    ]  # fmt: skip
    assert [each.number for each in listed[:4]] == [0, 2, 2, 4]
    branch = listed[4]
    assert branch.verb == "branch" and branch.label.startswith("branch of 20") and branch.text == "re"
    (found,) = session.stored.find()
    session.resume(session.stored.read(found.id))
    assert list(listed_messages(session)) == listed, "also after it was read from the disk"
    session.conversation.turn_to(branch.number)
    assert [message.content for message in session.messages] == ["one", "re", "two", "re"]
    session.journal.flush()
    assert [message.text for message in last(tmp_path / "c.db").messages] == ["one", "re", "two", "re"]
    session.close()


@pytest.mark.parametrize("saved", [True, False])
def test_a_reply_that_two_setups_wrote_says_so_and_is_not_compared(engine: FakeEngine, tmp_path: Path, saved: bool) -> None:
    session = loaded(engine, Journal(tmp_path / "c.db") if saved else None)
    turn(session, "one", "a", stop=StopReason.CANCELLED)
    other = replace(PAIR, model="/models/other.gguf")
    for setup in (other, PAIR):
        session.models.load(setup)
        engine.finish_loading()
        drained(session)
        if setup is other:
            session.continue_reply()
            reply(engine, "b", stop=StopReason.CANCELLED)
            drained(session)
    assert session.messages[-1].model == "target", "the model that began it"
    with pytest.raises(UsageError, match="another model"):  # also under the set-up that it was begun with
        session.compare()
    stored = snapshot(session).messages[-1].reply
    assert snapshot(session).id == session.journal.conversation, "none, where nothing is saved"
    assert stored is not None and stored.mixed and stored.setup == PAIR
    session.close()
