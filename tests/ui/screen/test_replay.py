"""Windows that only look on: a replay, which goes by itself and can be steered, and a server's requests, as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest
from textual.pilot import Pilot

from spectui.chat.player import ConversationPlayer
from spectui.chat.session import ChatSession
from spectui.engine.events import Event, Failed, Finished, Loaded, Message
from spectui.engine.requests import Request, Requests
from spectui.knobs import Knobs, Setup
from spectui.serve.watching import WatchedEngine
from spectui.store.records import StoredConversation
from spectui.ui.app import SpectuiApp
from spectui.ui.screen import controls
from spectui.ui.screen.replay import NO_MODEL, ReplayScreen
from spectui.ui.screen.serve import ServeScreen
from tests.chat.test_player import chat, reply, stored
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import some_rounds
from tests.ui.dashboard.rounds import accepted, rounds_of
from tests.ui.pilot_helpers import THEMES, notified, paste, wait_until
from tests.ui.screen_text import said, screen_text, shown


@asynccontextmanager
async def replay(
    conversation: StoredConversation | None = None, *, speed: float = 1000.0, paused: bool = False
) -> AsyncIterator[tuple[SpectuiApp, Pilot[None], ConversationPlayer]]:
    player = ConversationPlayer(conversation or chat(), speed)
    player.paused = paused
    session, screen = ChatSession(player, player.setup), partial(ReplayScreen, player=player)
    app = SpectuiApp(session, theme_directories=(THEMES,), make_screen=screen)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_until(pilot, lambda: isinstance(app.screen, ReplayScreen) and session_of(app).state != "loading")
        yield app, pilot, player


def session_of(app: SpectuiApp) -> ChatSession:
    assert isinstance(app.screen, ReplayScreen)
    return app.screen.session


async def test_the_whole_chat_is_played_and_it_is_said_that_it_is_a_replay() -> None:
    async with replay() as (app, pilot, _):
        await wait_until(pilot, lambda: "replay of title: ended" in screen_text(app))
        session = session_of(app)
        await wait_until(pilot, lambda: session.state == "ready" and len(session.messages) == 4)
        assert [message.content for message in session.messages][::2] == ["hello", "and now?"]
        played = [round for message in session.messages for round in message.rounds]
        assert played == [*some_rounds(4), *some_rounds(2)]
        assert session.setup.system == "be brief" and session.name == "other"


async def test_a_reply_without_its_end_and_turns_that_were_dropped_are_shown_as_such() -> None:
    last = reply(some_rounds(2), None)
    assert last.reply is not None
    dropping = last._replace(reply=last.reply._replace(dropped=2))
    async with replay(stored("hello", reply(some_rounds()), "and now?", dropping)) as (app, pilot, player):
        await wait_until(pilot, lambda: player.ended and "The reply broke off here." in shown(app))
        assert session_of(app).oldest.dropped == 2


async def test_at_its_end_nothing_says_that_it_could_be_compared_or_stopped() -> None:
    async with replay(stored("hello", reply(rounds_of(accepted(3), accepted(3))))) as (app, pilot, player):
        await wait_until(pilot, lambda: player.ended and "as without guesses" in screen_text(app))
        assert "F5" not in screen_text(app)
        await wait_until(pilot, lambda: "Stop" not in screen_text(app).splitlines()[-1])


async def test_keys_pause_step_and_change_the_speed() -> None:
    async with replay(speed=0.01, paused=True) as (app, pilot, player):  # it does not end meanwhile
        await wait_until(pilot, lambda: "title: paused, 0.01x" in screen_text(app))
        await pilot.press("plus", "plus", "minus")
        await wait_until(pilot, lambda: "paused, 0.02x" in screen_text(app))
        await pilot.press("space")
        assert not player.paused
        await wait_until(pilot, lambda: "title: 0.02x" in screen_text(app))
        await pilot.press("full_stop")
        assert player.paused


@pytest.mark.parametrize("how", ["type", "paste"])
async def test_who_wants_to_ask_something_is_told_that_there_is_no_model(how: str) -> None:
    async with replay(paused=True) as (app, pilot, _):
        if how == "type":
            await pilot.press("h")
        else:
            await paste(pilot, "hello there")
        await wait_until(pilot, lambda: NO_MODEL in notified(app))
        assert "hello there" not in said(app)


async def test_what_needs_a_model_has_no_key_and_a_slider_stays() -> None:
    async with replay(paused=True) as (app, pilot, player):
        screen = app.screen
        assert isinstance(screen, ReplayScreen)
        keys = set(screen.active_bindings)
        assert not keys & {"ctrl+r", "f5", "alt+m", "ctrl+n", "f7", "f8", "alt+e", "f12", "alt+g"}
        assert {"space", "plus", "f2", "f4", "ctrl+q"} <= keys
        controls.turn(screen, "draft_max", 9)
        await pilot.pause()
        assert player.knobs.draft_max != 9
        assert NO_MODEL in notified(app)


def loaded() -> Loaded:
    engine = FakeEngine()
    engine.load(Setup(model="target.gguf"))
    engine.finish_loading()
    return next(event for event in engine.events if isinstance(event, Loaded))


@asynccontextmanager
async def window(size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[SpectuiApp, Pilot[None], FakeEngine, Requests]]:
    engine = FakeEngine()
    requests, record = Requests(engine), loaded()
    watched = WatchedEngine(requests, record)
    screen = partial(ServeScreen, watched=watched, where="http://here/v1")
    app = SpectuiApp(ChatSession(watched, record.setup), theme_directories=(THEMES,), make_screen=screen)
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: "http://here/v1 waits for its first request." in screen_text(app))
        yield app, pilot, engine, requests
    requests.close()


def ask(requests: Requests, text: str, heard: list[Event], **knobs: object) -> None:
    requests.submit(Request((Message("user", text),), heard.append, "editor/1.0", knobs=knobs))


async def test_requests_are_shown_as_they_come_and_can_be_looked_at_again() -> None:
    for size in ((120, 40), (80, 24)):
        async with window(size) as (app, pilot, engine, requests):
            for prompt, reply in (("first prompt", "apples"), ("second prompt", "pears")):
                heard: list[Event] = []
                ask(requests, prompt, heard)
                await wait_until(pilot, lambda prompt=prompt: prompt in screen_text(app))
                engine.emit_round(reply)
                await wait_until(pilot, lambda reply=reply: reply in screen_text(app))
                assert "editor/1.0" in screen_text(app)
                engine.finish()
                await wait_until(pilot, lambda heard=heard: isinstance(heard[-1], Finished))
            assert "apples" not in screen_text(app) and "‹ 2/2 ›" not in screen_text(app), "the first is no branch of it"
            await pilot.press("p")
            await wait_until(pilot, lambda: "first prompt" in screen_text(app) and "apples" in screen_text(app))
            ask(requests, "third prompt", [])
            await pilot.press("f")
            await wait_until(pilot, lambda: "third prompt" in screen_text(app))


async def test_a_turned_knob_holds_where_the_request_sets_none() -> None:
    async with window() as (app, pilot, engine, requests):
        ask(requests, "mine", [], temperature=0.0)
        await wait_until(pilot, lambda: "mine" in screen_text(app))
        assert isinstance(app.screen, ServeScreen)
        controls.turn(app.screen, "draft_max", 3)
        controls.turn(app.screen, "temperature", 1.5)
        await wait_until(pilot, lambda: engine.knobs.draft_max == 3)
        assert engine.knobs.temperature == 0.0
        engine.finish()
        ask(requests, "yours", [])
        await wait_until(pilot, lambda: engine.knobs == replace(Knobs(), draft_max=3, temperature=1.5))


async def test_esc_ends_the_request_that_is_shown_and_no_other() -> None:
    async with window() as (app, pilot, engine, requests):
        first: list[Event] = []
        second: list[Event] = []
        ask(requests, "shown", first)
        await wait_until(pilot, lambda: "shown" in screen_text(app))
        engine.emit_round("text")
        ask(requests, "waits", second)
        await wait_until(pilot, lambda: "text" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "waits" in screen_text(app) and requests.running is not None)
        assert isinstance(first[-1], Finished) and not any(isinstance(event, Finished | Failed) for event in second)
