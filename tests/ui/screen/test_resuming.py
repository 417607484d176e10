"""A chat is on disk and comes back with --continue, a disk that fails is said, and a full context drops turns."""

from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from spectui.chat.sentences import CUT_OFF
from spectui.engine.events import Message, RoundDone
from spectui.speculation.records import StopReason
from spectui.store import library
from spectui.store.journal import Journal
from spectui.store.recovery.crash import Crash
from spectui.ui.app import SpectuiApp
from spectui.ui.transcript.source import KINDS
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import begin_reply, last, write_prompt
from tests.ui.pilot_helpers import PAIR, Make, Window, answer, ask, load, notified, wait_until, write_reply
from tests.ui.screen.test_editing import exchange
from tests.ui.screen_text import REPLY, said, shown


async def began(pilot: Pilot[None], engine: FakeEngine, prompt: str) -> None:
    """A prompt is sent and a part of its reply is written."""
    await ask(pilot, prompt)
    await wait_until(pilot, lambda: engine.generates)
    write_reply(engine)
    await wait_until(pilot, lambda: not engine.events)


async def test_the_window_closes_during_a_reply(window: Window, engine: FakeEngine, file: Path) -> None:
    async with window(journal=Journal(file)) as (_, pilot):
        await began(pilot, engine, "add")
        engine.emit_round(plain="# more")
        engine.finish(StopReason.CANCELLED)  # as the worker does when it is closed
    assert engine.closed
    conversation = last(file)
    assert conversation.messages[1].text == REPLY + "# more"
    assert conversation.messages[1].reply is not None and conversation.messages[1].reply.stop == "cancelled"


def broken_off(file: Path, system: str = "", rounds: bool = True) -> None:
    """A chat whose spectui died during the reply."""
    journal = Journal(file)
    begin_reply(journal, write_prompt(journal, "add", system, ""), PAIR)
    engine = FakeEngine()
    write_reply(engine)
    for event in engine.events if rounds else ():
        if isinstance(event, RoundDone):
            journal.add_round(event.round)
    journal.close()


async def test_a_conversation_goes_on(window: Window, engine: FakeEngine, file: Path) -> None:
    broken_off(file)
    assert last(file).unfinished
    odd = "[ui.keys] is odd."
    async with window(journal=Journal(file), conversation=last(file), notices=[odd], size=(120, 40)) as (app, pilot):
        await wait_until(pilot, lambda: odd in shown(app))
        assert "add" in said(app) and REPLY.strip() in said(app)
        assert shown(app).index(CUT_OFF) < shown(app).index(odd)
        transcript = app.screen.query_one(Transcript)
        await wait_until(pilot, lambda: all(reply.source.count for reply in transcript.document.replies))
        kinds = {kind for reply in transcript.document.replies for kind in reply.source.kinds}
        assert {KINDS[kind] for kind in kinds} == {"accepted", "correction", "bonus", "plain"}, "the colours came back"
        await ask(pilot, "and now")
        await wait_until(pilot, lambda: engine.generates)
        prompt = [message._replace(tokens=()) for message in engine.generates[0]]
        assert prompt == [Message("user", "add"), Message("assistant", REPLY), Message("user", "and now")]
        await answer(pilot, engine)
    assert len(library.summaries(file)) == 1
    assert [message.text for message in last(file).messages] == ["add", REPLY, "and now", REPLY]


async def test_the_safe_way_is_there_until_models_are_loaded(make_app: Make, engine: FakeEngine, tmp_path: Path) -> None:
    app = make_app(crash=Crash("loading", PAIR, 0.0, tmp_path / "log", ""))
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: "loads the models in safe mode" in shown(app))
        assert "ctrl+s" in app.screen.active_bindings
        await pilot.press("ctrl+l")
        await wait_until(pilot, lambda: engine.loads)
        assert "ctrl+s" in app.screen.active_bindings
        engine.finish_loading()
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("ctrl+s")
        assert engine.loads == [PAIR] and "ctrl+s" not in app.screen.active_bindings


async def test_a_prompt_without_an_answer_can_be_asked_again(window: Window, engine: FakeEngine, file: Path) -> None:
    broken_off(file, "Be brief.", rounds=False)
    async with window(journal=Journal(file), conversation=last(file)) as (app, pilot):
        assert engine.loads[0].system == "Be brief."
        assert "no answer: Ctrl+R asks it again" in shown(app)
        await pilot.press("ctrl+r")
        await wait_until(pilot, lambda: engine.generates)
        assert engine.generates == [(Message("system", "Be brief."), Message("user", "add"))]
        await answer(pilot, engine)
    assert [message.text for message in last(file).messages] == ["add", REPLY]


async def test_a_disk_that_fails_is_said_and_the_chat_goes_on(window: Window, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file stands where the directory should be")
    async with window(journal=Journal(tmp_path / "data" / "conversations.db"), size=(120, 40)) as (app, pilot):
        await began(pilot, engine, "add")
        await wait_until(pilot, lambda: "This chat is in memory only" in shown(app))
        assert REPLY.strip() in said(app)


async def test_hostile_text_in_the_database_reaches_no_screen(make_app: Make, file: Path) -> None:
    evil = "\x1b]0;owned\x07[red]x[/red]\x9b31m\u202e"
    journal = Journal(file)
    write_prompt(journal, evil, evil, evil)
    journal.close()
    app = make_app(conversation=last(file))
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: "owned" in said(app))
        assert "]0;owned[red]x[/red]31m" in said(app)


MARK = "↑ dropped turns: 1, no part of the prompt any more"


async def full(pilot: Pilot[None], engine: FakeEngine, *, goes_on: bool) -> None:
    """The last reply is full; `goes_on`: and is asked for again without the first turn."""
    number = len(engine.generates)
    engine.finish(StopReason.CONTEXT, to_drop=2)
    await wait_until(pilot, lambda: not engine.events and len(engine.generates) == number + goes_on)


def rows_of(app: SpectuiApp) -> list[str]:
    """The rows of the transcript."""
    transcript = app.screen.transcript
    return [row.text.strip() for row in transcript.rows(range(transcript.virtual_size.height))]


def words(app: SpectuiApp) -> str:
    """The transcript without its wrapping."""
    return " ".join(" ".join(rows_of(app)).split())


def top_of_mark(app: SpectuiApp) -> int:
    """The row of the transcript with the mark; -1: there is none."""
    return next((at for at, row in enumerate(rows_of(app)) if MARK in row), -1)


def dims(app: SpectuiApp, text: str) -> set[bool]:
    """Whether the prompt with this text is drawn as what the model does not read any more."""
    transcript = app.screen.transcript
    found = set()
    for row in transcript.rows(range(transcript.virtual_size.height)):
        if text == row.text.strip():
            colours = {segment.style.color for segment in row if text in segment.text and segment.style}
            found.add(colours != {transcript.rich_style.color})
    return found


async def test_a_key_drops_the_oldest_turns_and_goes_on_and_another_brings_them_back(
    window: Window, engine: FakeEngine
) -> None:
    async with window(size=(120, 60)) as (app, pilot):
        app.screen.transcript.add_notice("above the first prompt")
        await exchange(pilot, engine, "one", "alpha")
        assert "dropped" not in words(app)
        await exchange(pilot, engine, "two", "beta")
        await pilot.press("alt+j")
        await wait_until(pilot, lambda: any("was not full" in each for each in notified(app)))
        await pilot.press("ctrl+r")
        engine.emit_round(plain="gamma")
        await full(pilot, engine, goes_on=False)
        await wait_until(pilot, lambda: "is full: Alt+J drops the oldest turns and goes on, Ctrl+N" in words(app))
        assert top_of_mark(app) == -1
        await pilot.press("alt+j")
        await full(pilot, engine, goes_on=True)
        assert [each.content for each in engine.generates[-1]] == ["two", "gamma"]
        engine.emit_round(plain=" delta")
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        await wait_until(pilot, lambda: top_of_mark(app) > 0)
        assert "goes on without the oldest turns (1)" in words(app) and "Alt+U brings them back" in words(app)
        rows = rows_of(app)
        assert rows.index("alpha") < top_of_mark(app) < rows.index("two") < rows.index("gamma delta")
        assert (dims(app, "one"), dims(app, "two")) == ({True}, {False})
        assert MARK not in app.screen.transcript.document.text and "alpha" in app.screen.transcript.document.text
        await pilot.press("alt+u")
        await wait_until(pilot, lambda: top_of_mark(app) == -1)
        assert dims(app, "one") == {False}
        await exchange(pilot, engine, "three", "epsilon")
        assert [each.content for each in engine.generates[-1]] == ["one", "alpha", "two", "gamma delta", "three"]


async def test_a_setting_drops_by_itself_and_an_opened_conversation_is_marked(
    make_app: Make, engine: FakeEngine, file: Path
) -> None:
    app = make_app(journal=Journal(file))
    engine.knobs = replace(engine.knobs, context_full="drop-oldest")
    async with app.run_test(size=(120, 60)) as pilot:
        await load(pilot, engine)
        await exchange(pilot, engine, "one", "alpha")
        await pilot.press(*"two", "enter")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        engine.emit_round(plain="beta")
        await full(pilot, engine, goes_on=True)
        engine.emit_round(plain=" gamma")
        engine.finish()
        await wait_until(pilot, lambda: top_of_mark(app) > 0 and "beta gamma" in rows_of(app))
        shown = rows_of(app)
        notice = next(at for at, row in enumerate(shown) if "The context was full" in row)
        assert shown.index("two") < notice < shown.index("beta gamma"), "it tells what was before the text"
    app = make_app(journal=Journal(file), conversation=last(file))
    async with app.run_test(size=(120, 60)) as pilot:
        await wait_until(pilot, lambda: app.screen.session.last_reply is not None)
        await wait_until(pilot, lambda: top_of_mark(app) > 0)
        rows = rows_of(app)
        assert rows.index("alpha") < top_of_mark(app) < rows.index("beta gamma")
