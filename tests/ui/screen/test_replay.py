"""A replay in the window: it goes by itself, can be steered, and asks no model anything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from spectui.chat.session import ChatSession
from spectui.engine.events import Asked, Event, Finished, Message, RoundDone
from spectui.knobs import Knobs
from spectui.traces.player import TracePlayer, first_setup
from spectui.traces.reader import Trace
from spectui.ui.app import SpectuiApp
from spectui.ui.screen.replay import NO_MODEL, ReplayScreen
from spectui.ui.widgets.slider import Slider
from tests.traces.events import KNOBS, LOADED, chat, reply
from tests.traces.test_format import written
from tests.ui.pilot_helpers import THEMES, notified, paste, wait_until
from tests.ui.screen_text import said, screen_text, shown


@asynccontextmanager
async def replay(
    file: Path, events: Sequence[Event] = chat(), *, speed: float = 1000.0, paused: bool = False
) -> AsyncIterator[tuple[SpectuiApp, Pilot[None], TracePlayer]]:
    trace = Trace(written(file, events))
    player = TracePlayer(trace, speed)
    player.paused = paused
    app = SpectuiApp(
        player, first_setup(trace), Knobs(), theme_directories=(THEMES,),
        make_screen=partial(ReplayScreen, player=player, file=file),
    )  # fmt: skip
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_until(pilot, lambda: isinstance(app.screen, ReplayScreen) and app.screen.session.state == "ready")
        yield app, pilot, player


def session_of(app: SpectuiApp) -> ChatSession:
    assert isinstance(app.screen, ReplayScreen)
    return app.screen.session


async def test_the_whole_chat_is_played_and_it_is_said_that_it_is_a_replay(tmp_path: Path) -> None:
    async with replay(tmp_path / "chat.jsonl") as (app, pilot, _):
        await wait_until(pilot, lambda: "chat.jsonl: ended" in screen_text(app))
        # The last prompt of the recording began another conversation, and failed.
        await wait_until(pilot, lambda: "the device is gone" in shown(app))
        session = session_of(app)
        assert session.messages == [session.conversation.unanswered]


async def test_prompts_and_replies_stand_there_as_they_did(tmp_path: Path) -> None:
    async with replay(tmp_path / "t", chat()[:-2]) as (app, pilot, player):
        session = session_of(app)
        await wait_until(pilot, lambda: player.ended and session.state == "ready" and len(session.messages) == 4)
        assert [message.content for message in session.messages][::2] == ["hello", "and now?"]
        played = [token.id for message in session.messages for round in message.rounds for token in round.tokens]
        rounds = [event.round for event in chat() if isinstance(event, RoundDone)]
        assert played == [token.id for round in rounds for token in round.tokens]
        assert session.setup.system == "be brief"
        await wait_until(pilot, lambda: app.screen.query_one("#slider-draft-max", Slider).value == 2)


async def test_what_was_said_before_the_trace_began_is_shown(tmp_path: Path) -> None:
    """As after spectui chat --continue --trace."""
    second = [n for n, event in enumerate(chat()) if isinstance(event, Asked)][1]
    async with replay(tmp_path / "t", [LOADED, *chat()[second:-2]]) as (app, pilot, player):
        await wait_until(pilot, lambda: player.ended and len(session_of(app).messages) == 4)
        assert "hello" in said(app) and "and now?" in said(app)


async def test_a_reply_that_was_asked_for_again_replaces_the_first_one(tmp_path: Path) -> None:
    start, end = (next(n for n, event in enumerate(chat()) if isinstance(event, kind)) for kind in (Asked, Finished))
    once = chat()[start : end + 1]
    async with replay(tmp_path / "t", [LOADED, *once, *once]) as (app, pilot, player):
        await wait_until(pilot, lambda: player.ended and session_of(app).state == "ready")
        await wait_until(pilot, lambda: len(session_of(app).messages) == 2)
        assert said(app).count("hello") == 1


async def test_a_comparison_with_plain_decoding_is_played_as_one(tmp_path: Path) -> None:
    system, first = Message("system", "be brief"), Message("user", "hello")
    events = [LOADED, *reply([system, first], [1, 2, 3])]
    events += reply([system, first], [1, 2, 3], replace(KNOBS, drafter="off"))
    async with replay(tmp_path / "t", events) as (app, pilot, player):
        session = session_of(app)
        await wait_until(pilot, lambda: player.ended and session.state == "ready" and session.comparison is not None)
        assert session.comparison is not None
        await wait_until(pilot, lambda: session.comparison and session.comparison.identical)
        assert session.messages[-1].figures.statistics.drafted > 0  # the reply with drafts stays


async def test_keys_pause_step_and_change_the_speed(tmp_path: Path) -> None:
    async with replay(tmp_path / "t", speed=0.01, paused=True) as (app, pilot, player):  # it does not end meanwhile
        await wait_until(pilot, lambda: "t: paused, 0.01x" in screen_text(app))
        await pilot.press("plus", "plus", "minus")
        await wait_until(pilot, lambda: "paused, 0.02x" in screen_text(app))
        await pilot.press("space")
        assert not player.paused
        await wait_until(pilot, lambda: "t: 0.02x" in screen_text(app))
        await pilot.press("full_stop")
        assert player.paused


@pytest.mark.parametrize("how", ["type", "paste"])
async def test_who_wants_to_ask_something_is_told_that_there_is_no_model(tmp_path: Path, how: str) -> None:
    async with replay(tmp_path / "t", paused=True) as (app, pilot, _):
        if how == "type":
            await pilot.press("h")
        else:
            await paste(pilot, "hello there")
        await wait_until(pilot, lambda: NO_MODEL in notified(app))
        assert "hello there" not in said(app)


async def test_what_needs_a_model_has_no_key_and_a_slider_stays(tmp_path: Path) -> None:
    async with replay(tmp_path / "t", paused=True) as (app, pilot, player):
        screen = app.screen
        assert isinstance(screen, ReplayScreen)
        keys = set(screen.active_bindings)
        assert not keys & {"ctrl+r", "f5", "alt+m", "ctrl+n", "f7", "f8", "alt+e", "f12", "alt+g"}
        assert {"space", "plus", "f2", "f4", "ctrl+q"} <= keys
        screen.controls.turn("draft_max", 9)
        await pilot.pause()
        assert player.knobs.draft_max != 9
        assert NO_MODEL in notified(app)
