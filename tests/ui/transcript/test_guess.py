"""The guess before the verdict: a draft is seen while the target reads it, and is never a part of the text."""

from __future__ import annotations

import pytest

from spectui.engine.events import Guess, RoundDone
from spectui.engine.worker import Emitter
from spectui.ui.textual_patches.app import TerminalApp
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Window, ask, wait_until
from tests.ui.screen_text import said, screen_text


async def test_a_draft_is_seen_until_it_is_accepted_or_struck(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        engine.emit_round(plain="One")
        await wait_until(pilot, lambda: "One█" in screen_text(app))
        engine.guess = " sea\nis"
        await wait_until(pilot, lambda: "One sea⏎is" in screen_text(app))
        transcript = app.screen.query_one(Transcript)
        assert "sea" not in said(app) and "sea" not in transcript.document.text, "it is no text"
        engine.guess = ""
        engine.emit_round(" sea", correction=" was", rejected=["\n", "is"])
        await wait_until(pilot, lambda: "One sea was█⏎is" in screen_text(app))
        engine.guess = " calm"
        await wait_until(pilot, lambda: "One sea was calm" in screen_text(app))
        engine.guess = ""
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        await pilot.pause()
        assert "calm" not in screen_text(app) and said(app).endswith("One sea was")


@pytest.mark.parametrize("why", ["behind", "still"])
async def test_a_slow_terminal_and_a_person_who_wants_nothing_to_move_are_spared(
    window: Window, engine: FakeEngine, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        if why == "behind":
            monkeypatch.setattr(TerminalApp, "is_behind", True)
        else:
            app.animation_level = "none"
        await ask(pilot, "go")
        engine.guess = " sea"
        engine.emit_round("One", correction=" was", rejected=[" is"])
        await wait_until(pilot, lambda: "One was█" in screen_text(app))
        assert "sea" not in screen_text(app) and " is" not in said(app)


def test_a_guess_is_told_behind_its_rounds_alone() -> None:
    """On a device that overlaps rounds the next draft is made before the round before it is told."""
    done, emitter = FakeEngine(), Emitter()
    done.emit_round(plain="One")
    (event,) = done.events
    assert isinstance(event, RoundDone)
    emitter.emit(Guess(1, " sea"))
    assert emitter.guess == ""
    emitter.emit(event)
    assert emitter.guess == " sea" and len(emitter.events) == 1, "it waits in no queue"
    done.finish()
    emitter.emit(done.events[-1])
    assert emitter.guess == ""
