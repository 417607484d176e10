"""The window where the context is full: the oldest turns are dropped, seen as dropped, and brought back."""

from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from spectui.speculation.records import StopReason
from spectui.store.journal import Journal
from spectui.ui.app import SpectuiApp
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import last
from tests.ui.pilot_helpers import Make, Window, load, notified, wait_until
from tests.ui.screen.test_editing import exchange

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
