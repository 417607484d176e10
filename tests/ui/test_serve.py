"""The window of a server: requests come into it, and what is turned there holds for those that do not set it themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from textual.pilot import Pilot

from spectui.engine.events import Event, Failed, Finished, Loaded, Message
from spectui.engine.requests import Request, Requests
from spectui.knobs import Knobs, Setup
from spectui.serve.watching import WatchedEngine
from spectui.ui.app import SpectuiApp
from spectui.ui.screen import controls
from spectui.ui.screen.serve import ServeScreen
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import THEMES, wait_until
from tests.ui.screen_text import screen_text


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
    app = SpectuiApp(watched, record.setup, Knobs(), theme_directories=(THEMES,), make_screen=screen)
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
