"""The oldest turns are dropped where the context is full, and brought back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.chat.actions import bring_back, drop
from spectui.chat.dropping import Dropped, prompt_messages
from spectui.chat.history.views import listed_messages, snapshot
from spectui.chat.messages import OpenedConversation
from spectui.chat.session import ChatSession
from spectui.engine.events import Finished, Message
from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.speculation.records import StopReason
from spectui.store import export
from spectui.store.journal import Journal
from tests.chat.test_session import drained, loaded, reply, turn
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import last

SYSTEM = Setup(model="/models/target.gguf", system="Be brief.")


@pytest.fixture
def session(engine: FakeEngine, tmp_path: Path) -> ChatSession:
    """Three turns: one a, two b, three c, under a system prompt."""
    session = loaded(engine, Journal(tmp_path / "c.db"), SYSTEM)
    for prompt, text in (("one", "a"), ("two", "b"), ("three", "c")):
        turn(session, prompt, text)
    return session


def asked(engine: FakeEngine) -> list[str]:
    """The contents of what the engine was asked last."""
    return [message.content for message in engine.generates[-1]]


def drop_oldest(engine: FakeEngine) -> None:
    engine.knobs = replace(engine.knobs, context_full="drop-oldest")


FULL = "The conversation has 9 tokens."


def drop_two_turns(engine: FakeEngine, session: ChatSession) -> None:
    """The prompt "four" has no room, and is answered without the first two turns."""
    drop_oldest(engine)
    session.send("four")
    engine.fail(FULL, to_drop=4)
    drained(session)
    reply(engine, "d")
    drained(session)


def test_a_prompt_without_room_is_asked_again_without_the_oldest_turns(engine: FakeEngine, session: ChatSession) -> None:
    drop_oldest(engine)
    session.send("four")
    assert asked(engine) == ["Be brief.", "one", "a", "two", "b", "three", "c", "four"]
    engine.fail(FULL, to_drop=4)
    assert drained(session) == [Dropped(2)] and session.state == "reading"
    assert asked(engine) == ["Be brief.", "three", "c", "four"]
    reply(engine, "d")
    drained(session)
    assert [message.content for message in session.messages] == ["one", "a", "two", "b", "three", "c", "four", "d"]
    session.send("five")
    assert asked(engine) == ["Be brief.", "three", "c", "four", "d", "five"]
    engine.fail(FULL, to_drop=2)
    assert drained(session) == [Dropped(3)]
    assert asked(engine) == ["Be brief.", "four", "d", "five"]


def test_a_reply_that_fills_the_context_goes_on_by_itself(engine: FakeEngine, session: ChatSession) -> None:
    drop_oldest(engine)
    session.send("four")
    reply(engine, "d", "e")
    engine.events[-1] = engine.events[-1]._replace(reason=StopReason.CONTEXT, to_drop=6)  # type: ignore[union-attr]
    assert not [event for event in drained(session) if isinstance(event, Finished)], "it has not ended"
    assert engine.generates[-1][:2] == (Message("system", "Be brief."), Message("user", "four"))
    assert engine.generates[-1][2].content == "de" and len(engine.generates[-1]) == 3
    reply(engine, "f")
    drained(session)
    end = session.messages[-1]
    assert (end.content, end.reply.stop, [round.index for round in end.rounds]) == ("def", "eos", [0, 1, 2])
    with pytest.raises(UsageError, match="turns were dropped"):  # plain decoding of its prompt would end earlier
        session.compare()
    session.regenerate()
    assert asked(engine) == ["Be brief.", "one", "a", "two", "b", "three", "c", "four"], "as it was asked at first"


def test_by_default_a_full_context_ends_the_reply_and_dropping_is_asked_for(engine: FakeEngine, session: ChatSession) -> None:
    with pytest.raises(UsageError, match="nothing is dropped"):
        drop(session, "")
    session.send("four")
    engine.emit_round(plain="d")
    engine.finish(StopReason.CONTEXT, to_drop=6)
    drained(session)
    assert session.state == "ready" and session.oldest.dropped == 0
    drop(session, "")
    engine.finish(StopReason.CONTEXT, to_drop=6)  # it is full still
    assert drained(session) == [Dropped(3)]
    assert asked(engine) == ["Be brief.", "four", "d"]
    engine.emit_round(plain="e")
    engine.finish(StopReason.CONTEXT, to_drop=2)
    drained(session)
    assert session.state == "ready", "asked for once, dropped once"
    assert (session.messages[-1].content, session.messages[-1].reply.stop) == ("de", "context")


def test_a_prompt_without_an_answer_goes_with_the_next_one_and_is_dropped_with_it(
    engine: FakeEngine, session: ChatSession
) -> None:
    session.send("four")
    engine.finish(StopReason.CANCELLED)
    drained(session)
    session.send("in brief")
    assert asked(engine)[-2:] == ["c", "four\n\nin brief"]
    reply(engine, "d")
    drained(session)
    assert [message.content for message in session.messages][-3:] == ["four", "in brief", "d"]
    drop_oldest(engine)
    session.send("five")
    engine.fail(FULL, to_drop=8)
    drained(session)
    assert session.oldest.dropped == 9 and asked(engine) == ["Be brief.", "five"]


def test_what_was_dropped_is_brought_back(engine: FakeEngine, session: ChatSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No turns"):
        bring_back(session, "")
    drop_two_turns(engine, session)
    assert (session.oldest.dropped, session.oldest.turns) == (4, 2)
    listed = [each.label for each in listed_messages(session)]
    assert listed[2:6] == ["you, dropped", "reply, dropped", "you", "reply"]
    session.oldest.leave_out(0)
    session.send("five")
    assert asked(engine)[:3] == ["Be brief.", "one", "a"]
    session.close()
    kept = last(tmp_path / "c.db").messages
    assert [each.reply.dropped for each in kept if each.reply is not None] == [0, 0, 4, 0]


def test_behind_a_reply_that_was_cut_off_an_earlier_one_keeps_what_was_read_then(
    engine: FakeEngine, session: ChatSession, tmp_path: Path
) -> None:
    drop_two_turns(engine, session)
    session.send("five")
    engine.emit_round(plain="e")
    session.drain()
    session.journal.flush()
    after_a_crash = loaded(FakeEngine(), Journal(tmp_path / "c.db"), SYSTEM)
    after_a_crash.resume(OpenedConversation.of(last(tmp_path / "c.db")))
    bring_back(after_a_crash, "")
    assert [message.reply.dropped for message in after_a_crash.messages if message.role == "assistant"] == [0, 0, 4, 4, 0]
    after_a_crash.close()


def test_going_back_edits_and_comparisons_have_what_was_read_then(engine: FakeEngine, session: ChatSession) -> None:
    drop_two_turns(engine, session)
    turn(session, "five", "e")
    session.conversation.begin_edit(6)  # "four" is replaced: its reply was the first without the oldest turns
    session.send("4")
    assert asked(engine) == ["Be brief.", "three", "c", "4"]
    reply(engine, "x")
    drained(session)
    session.conversation.begin_edit(4)  # and the turn before is asked with all
    session.send("3")
    assert asked(engine) == ["Be brief.", "one", "a", "two", "b", "3"]


def test_it_is_kept_on_disk_and_exported_whole(engine: FakeEngine, session: ChatSession, tmp_path: Path) -> None:
    drop_two_turns(engine, session)
    table = json.loads(export.document(snapshot(session)))
    assert [each["text"] for each in table["messages"]] == ["one", "a", "two", "b", "three", "c", "four", "d"]
    assert [each.get("dropped_messages") for each in table["messages"]] == [None, 0, None, 0, None, 4, None, 4]
    session.close()
    another = FakeEngine()
    resumed = loaded(another, Journal(tmp_path / "c.db"), SYSTEM)
    resumed.resume(OpenedConversation.of(last(tmp_path / "c.db")))
    assert resumed.oldest.dropped == 4
    resumed.send("five")
    assert asked(another) == ["Be brief.", "three", "c", "four", "d", "five"]
    reply(another, "e")
    drained(resumed)
    resumed.conversation.go_back(4)
    assert resumed.oldest.dropped == 0
    resumed.close()


def test_a_stopped_reply_drops_nothing(engine: FakeEngine, session: ChatSession) -> None:
    drop_oldest(engine)
    session.send("four")
    session.new_chat()
    engine.fail(FULL, to_drop=4)
    drained(session)
    assert (session.messages, session.oldest.dropped, session.state) == ([], 0, "ready")


def test_a_reply_that_a_full_context_has_ended_goes_on_in_a_larger_one(engine: FakeEngine) -> None:
    session = loaded(engine, setup=replace(SYSTEM, ctx_size=100))
    turn(session, "one", "a", stop=StopReason.CONTEXT)
    session.models.place("-c 200")
    engine.finish_loading()
    drained(session)
    assert session.can_continue
    session.continue_reply()
    assert asked(engine) == ["Be brief.", "one", "a"]
    reply(engine, "b")
    drained(session)
    assert session.messages[-1].content == "ab" and session.compare()


def test_a_system_prompt_of_blanks_is_none() -> None:
    assert prompt_messages(" \n\t", []) == ()
    assert prompt_messages(" be brief\n", []) == (Message("system", " be brief\n"),)
