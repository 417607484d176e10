"""A conversation without a widget, over the fake engine."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectui.chat import actions
from spectui.chat.messages import OpenedConversation
from spectui.chat.session import ChatSession
from spectui.chat.text.code_blocks import last_code_blocks
from spectui.engine.demo import NOTICE
from spectui.engine.events import Message, Notice, RoundDone
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import StopReason
from spectui.store import library
from spectui.store.journal import Journal
from spectui.store.recovery.crash import Crash
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import last, some_rounds, until

PAIR = Setup(model="/models/target.gguf", draft="/models/draft.gguf")


def drained(session: ChatSession) -> list[object]:
    return list(session.drain())


def loaded(engine: FakeEngine, journal: Journal | None = None, setup: Setup = PAIR) -> ChatSession:
    """A session whose models are there."""
    session = ChatSession(engine, setup, journal)
    session.models.load(setup)
    engine.finish_loading()
    drained(session)
    assert session.state == "ready"
    return session


def reply(engine: FakeEngine, *texts: str, stop: StopReason = StopReason.EOS) -> None:
    for text in texts:
        engine.emit_round(plain=text)
    engine.finish(stop)


def turn(session: ChatSession, prompt: str, *texts: str, stop: StopReason = StopReason.EOS) -> None:
    """Send a prompt, which is answered with these texts, a round for each."""
    session.send(prompt)
    assert isinstance(session.engine, FakeEngine)
    reply(session.engine, *texts, stop=stop)
    drained(session)


def test_the_demo_is_named_once_per_start():
    """Also where models are loaded again, in a new process of the engine too."""
    engine = FakeEngine()
    session = loaded(engine)
    another = Notice("something else")
    engine.events.extend([Notice(NOTICE), another])
    assert drained(session) == [Notice(NOTICE), another]
    session.models.load(replace(PAIR, ctx_size=512))
    engine.finish_loading()
    engine.events.extend([Notice(NOTICE), another])
    shown = drained(session)
    assert another in shown and Notice(NOTICE) not in shown


def test_a_models_file_chooses_what_a_person_has_not(engine: FakeEngine) -> None:
    session = ChatSession(engine, PAIR)
    session.user_knobs.given = {"top_p"}

    def load(sampling: dict[str, float]) -> tuple[float, float, float]:
        session.models.load(replace(PAIR, ctx_size=session.setup.ctx_size + 1))
        engine.finish_loading()
        engine.events.append(engine.events.pop()._replace(sampling=sampling))
        drained(session)
        return session.knobs.temperature, session.knobs.top_p, session.knobs.min_p

    usual = Knobs()
    assert load({"temperature": 0.0, "top_p": 1.0, "min_p": 0.2}) == (0.0, usual.top_p, 0.2)
    session.knobs = replace(session.knobs, temperature=0.5)
    assert load({"temperature": 0.1}) == (0.5, usual.top_p, usual.min_p), "what was turned stays, and the last file's goes"
    session.knobs = session.user_knobs.defaults
    assert session.knobs.temperature == 0.1


@pytest.fixture
def late() -> FakeEngine:
    return FakeEngine(late=True)


def test_a_message_has_the_rounds_that_made_it(engine: FakeEngine) -> None:
    session = loaded(engine)
    turn(session, "one", "a", "b")
    turn(session, "two", "c")
    assert [message.content for message in session.messages] == ["one", "ab", "two", "c"]
    assert [len(message.rounds) for message in session.messages] == [0, 2, 0, 1]
    assert [message.figures.emitted for message in session.messages] == [0, 2, 0, 1]
    assert session.figures().chat.emitted == 3


@pytest.mark.parametrize("reopened", [False, True])
def test_round_numbers_of_a_continuation_go_on_also_when_the_chat_is_closed_meanwhile(
    engine: FakeEngine, tmp_path: Path, reopened: bool
) -> None:
    file = tmp_path / "c.db"
    session = loaded(engine, Journal(file))
    turn(session, "one", "a", "b", stop=StopReason.CANCELLED)
    if reopened:
        session.journal.flush()
        session.resume(OpenedConversation.of(last(file)))
    rounds = session.messages[-1].rounds
    assert session.can_continue
    session.continue_reply()
    written = tuple(token.id for round in rounds for token in round.tokens)
    assert engine.generates[-1] == (Message("user", "one"), Message("assistant", "ab", written)) and len(written) == 2
    engine.emit_round(plain="c")
    (round,) = [event.round for event in session.drain() if isinstance(event, RoundDone)]
    assert round.index == 2 and [token.round for token in round.tokens] == [2]
    engine.emit_round(plain="d")
    engine.finish(StopReason.CANCELLED)  # as the worker does when it is closed
    session.close()
    assert session.messages[-1].rounds is rounds and [round.index for round in rounds] == [0, 1, 2, 3]
    stored = last(file).messages[-1]
    assert stored.text == "abcd" and stored.reply is not None
    assert [round.index for round in stored.reply.rounds] == [0, 1, 2, 3]


@pytest.mark.parametrize("then", ["new chat", "another conversation"])
def test_leaving_a_conversation_whose_reply_a_load_has_stopped_lets_the_load_go_on(
    late: FakeEngine, tmp_path: Path, then: str
) -> None:
    session = loaded(late, Journal(tmp_path / "c.db"))
    turn(session, "one", "a")
    session.send("two")
    late.emit_round(plain="b")
    drained(session)
    session.models.load(replace(PAIR, model="/models/other.gguf"))
    if then == "new chat":
        session.new_chat()
    else:
        session.journal.flush()
        session.resume(OpenedConversation.of(last(tmp_path / "c.db")))
    late.settle()
    drained(session)
    assert session.state == "loading" and late.stops == 0
    late.finish_loading()
    drained(session)
    assert session.state == "ready" and session.name == "other"
    assert [message.content for message in session.messages][:2] == ([] if then == "new chat" else ["one", "a"])


def test_what_still_comes_of_a_reply_that_was_left_is_dropped(late: FakeEngine) -> None:
    session = loaded(late)
    session.send("one")
    late.emit_round(plain="a")
    session.new_chat()
    assert late.stops == 1 and session.state == "leaving", "the engine has not said that it is free"
    assert not session.submit("two")
    late.settle()
    assert drained(session) == [] and session.messages == []
    assert session.send_waiting()
    assert late.generates[-1] == (Message("user", "two"),)


def test_models_that_ended_spectui_are_loaded_on_the_second_request(engine: FakeEngine, tmp_path: Path) -> None:
    crash = Crash("loading", PAIR, 0.0, tmp_path / "log", "")
    session = ChatSession(engine, PAIR, crash=crash)
    assert not session.models.load(PAIR) and engine.loads == [] and session.state == "failed"
    assert session.models.load(PAIR) and engine.loads == [PAIR]
    engine.finish_loading()
    drained(session)
    assert session.models.crash is None


def test_a_conversation_from_the_disk_has_its_figures(engine: FakeEngine, tmp_path: Path) -> None:
    session = loaded(engine, Journal(tmp_path / "c.db"))
    session.set_system("Be brief.")
    turn(session, "one", "a", "b")
    before = session.figures()
    session.close()
    again = ChatSession(FakeEngine(), PAIR)
    again.resume(OpenedConversation.of(last(tmp_path / "c.db")))
    assert again.setup.system == "Be brief."
    assert (again.figures().reply, again.figures().chat) == (before.reply, before.chat)
    again.new_chat()
    assert again.setup.system == "" and again.figures().chat.emitted == 0


def test_a_comparison_in_an_opened_conversation_has_the_time_of_its_prompt(engine: FakeEngine, tmp_path: Path) -> None:
    """A template may write it."""
    session = loaded(engine, Journal(tmp_path / "c.db"))
    turn(session, "one", "a")
    session.close()
    session = loaded(again := FakeEngine(), Journal(tmp_path / "c.db"))
    session.resume(OpenedConversation.of(last(tmp_path / "c.db")))
    session.compare()
    reply(again, "a")
    drained(session)
    session.regenerate()
    assert engine.terms * 2 == again.terms and engine.terms[0].at is not None
    session.close()


def test_a_schema_is_for_the_replies_that_begin_while_it_is_there(engine: FakeEngine, tmp_path: Path) -> None:
    session, file = loaded(engine, Journal(tmp_path / "c.db")), tmp_path / "a list.json"
    file.write_text(text := '{"type": "array"}')
    turn(session, "one", "a")
    assert actions.schema(session, str(file)) == f"Replies obey {file} from now on: /schema alone ends it."
    turn(session, "two", "b", stop=StopReason.CANCELLED)
    assert actions.schema(session, "") == "Replies obey no schema."
    session.journal.flush()
    session.resume(OpenedConversation.of(last(tmp_path / "c.db")))
    session.continue_reply()
    reply(engine, "c")
    drained(session)
    session.compare()
    reply(engine, "bc")
    drained(session)
    turn(session, "three", "d")
    assert [terms.grammar for terms in engine.terms] == ["", text, text, text, ""]
    for content, why in (("[]", "no object"), ("{", "Expecting"), ("\0", "UTF-8")):
        file.write_text(content)
        with pytest.raises(UsageError, match=why):
            actions.schema(session, str(file))


def test_the_code_of_the_last_finished_reply(engine: FakeEngine) -> None:
    session = loaded(engine)
    assert last_code_blocks(session.messages) == []
    turn(session, "code", "```\na\n```\n", "and\n```\nb\n```\nand nothing\n```\n```\n")
    session.send("more")
    engine.emit_round(plain="```\nc")
    drained(session)
    assert last_code_blocks(session.messages[:-1]) == ["a", "b"]
    assert last_code_blocks(session.messages) == ["c"]
    engine.finish()
    drained(session)
    turn(session, "no code", "none")
    assert last_code_blocks(session.messages) == ["c"], "of the last reply with code"


def texts(file: Path) -> list[str]:
    """The texts of the conversation on disk."""
    conversation = library.last(file)
    return [message.text for message in conversation.messages] if conversation is not None else []


def test_what_the_engine_says_is_saved_before_the_window_takes_it(engine: FakeEngine, tmp_path: Path) -> None:
    session = loaded(engine, Journal(tmp_path / "c.db"))
    session.send("one")
    engine.emit_round(plain="a")
    engine.emit_round(plain="b")
    until(lambda: texts(tmp_path / "c.db") == ["one", "ab"])
    engine.finish()
    until(lambda: last(tmp_path / "c.db").messages[-1].reply.stop == "eos")
    assert drained(session) and session.messages[-1].content == "ab"
    session.close()
    reply = last(tmp_path / "c.db").messages[-1].reply
    assert reply is not None and [token.text for round in reply.rounds for token in round.tokens] == ["a", "b"]


def test_what_is_heard_of_a_reply_that_was_left_is_no_part_of_the_next_one(late: FakeEngine, tmp_path: Path) -> None:
    session = loaded(late, Journal(tmp_path / "c.db"))
    session.send("first")
    late.emit_round(plain="a")
    session.new_chat()
    session.send("second")
    late.events.append(RoundDone(some_rounds(2)[1], None))  # of the first: it has not stopped yet
    late.settle()
    late.emit_round(plain="b")
    until(lambda: texts(tmp_path / "c.db") == ["second", "b"])
    session.close()
    kept = library.summaries(tmp_path / "c.db")
    replies = [library.open_conversation(tmp_path / "c.db", each.id).messages[-1].text for each in kept]
    assert replies == ["b", "a"]


def test_without_a_disk_a_new_chat_is_undone(engine: FakeEngine) -> None:
    session = loaded(engine)
    turn(session, "one", "a")
    session.new_chat()
    turn(session, "two", "b")
    assert session.conversation.branches() == {}, "another chat is no other reply"
    session.new_chat()
    assert session.messages == [] and not session.conversation.no_undo
    session.conversation.undo()
    session.conversation.undo()
    assert [each.content for each in session.messages] == ["one", "a"]
    session.regenerate()
    reply(engine, "b")
    drained(session)
    assert [each.content for each in session.messages] == ["one", "b"] and len(session.messages[-1].rounds) == 1
    session.regenerate()
    engine.emit_round(plain="c")
    session.new_chat()
    session.conversation.undo()
    assert [each.content for each in session.messages] == ["one", "c"], "also a reply whose text was not taken yet"
