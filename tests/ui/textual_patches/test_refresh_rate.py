"""How often the window is drawn while a reply comes: as seldom as a person accepts, since each frame is taken from it."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from spectui.ui.screen.chat import ChatScreen
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, ask, wait_until

ROUND = 5
"""Tokens that come together."""


class Timer:
    """The chat's timer on a clock of its own, on which `seconds` go by as fast as the window can follow."""

    def __init__(self, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._engine = engine
        self._frames = 0
        self._now = 0.0
        real = ChatScreen.set_interval

        def set_interval(screen: ChatScreen, interval: float, callback: Any = None, **options: Any) -> Any:
            if callback != screen._tick:
                return real(screen, interval, callback, **options)
            self._interval, self._callback = interval, callback
            return self

        monkeypatch.setattr(ChatScreen, "set_interval", set_interval)

    def stop(self) -> None:
        """Textual's call: another follows."""

    async def begin(self, pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch) -> None:
        """Load, and count each frame from now on."""
        await wait_until(pilot, lambda: self._engine.loads)
        self._engine.finish_loading()
        self._callback()
        await pilot.pause()
        monkeypatch.setattr(pilot.app.screen, "_figures_due", float("inf"))  # they are counted by another clock
        monkeypatch.setattr(pilot.app, "_display", self._drawn)

    def _drawn(self, screen: object, update: object) -> None:
        self._frames += update is not None

    def seconds(self, number: int, speed: float) -> list[int]:
        """The frames in each of so many seconds, in which so many tokens come a second."""
        frames, start, came = [], self._now, 0
        for second in range(number):
            self._frames = 0
            while self._now < start + second + 1:
                self._now += self._interval
                while came + ROUND <= speed * (self._now - start):
                    self._engine.emit_round(*["a "] * (ROUND - 1), bonus="b ")
                    came += ROUND
                self._callback()
            frames.append(self._frames)
        return frames

    def until_drawn(self, text: str) -> float:
        """The seconds that a token waits for its frame."""
        self._frames, start = 0, self._now
        self._engine.emit_round(plain=text)
        while not self._frames:
            assert self._now < start + 10
            self._now += self._interval
            self._callback()
        return self._now - start


Timed = Callable[[], AbstractAsyncContextManager[tuple[Pilot[None], Timer]]]


async def asked(pilot: Pilot[None], engine: FakeEngine, text: str = "go") -> None:
    """A prompt is sent, and read by the engine."""
    before = len(engine.generates)
    await ask(pilot, text)
    await wait_until(pilot, lambda: len(engine.generates) > before)
    engine.read_prompt(5, 5)


@pytest.fixture
def timed(make_app: Make, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Timed:
    """Opens a window with a timer of its own, and asks something in it."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Pilot[None], Timer]]:
        timer = Timer(engine, monkeypatch)
        async with make_app().run_test(size=(120, 40)) as pilot:
            await timer.begin(pilot, monkeypatch)
            await asked(pilot, engine)
            yield pilot, timer

    return opened


async def test_the_pace_follows_the_reply(timed: Timed) -> None:
    async with timed() as (_, timer):
        timer.until_drawn("a ")
        for speed, frames in ((50, 8), (180, 8), (220, 30), (400, 30), (50, 8)):
            assert timer.seconds(3, speed)[-1] == pytest.approx(frames, abs=1)
        assert timer.seconds(2, 0)[-1] == 0, "nothing came, nothing is drawn"


async def test_the_first_token_of_a_reply_does_not_wait_as_those_behind_it_do(timed: Timed, engine: FakeEngine) -> None:
    async with timed() as (pilot, timer):
        assert timer.until_drawn("at once") <= 1 / 30
        assert timer.until_drawn(" later") == pytest.approx(1 / 8)
        engine.finish()
        timer.seconds(1, 0)
        await asked(pilot, engine, "a prompt that takes a while to read")
        timer.seconds(2, 0)
        assert timer.until_drawn("at once") <= 1 / 30


async def test_a_look_draws_and_leaves_nothing_to_be_looked_for(
    timed: Timed, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message is a turn of the loop, taken from the cores that decode."""
    async with timed() as (pilot, timer):
        timer.until_drawn("a ")
        await pilot.pause()
        posted: list[object] = []
        with monkeypatch.context() as patch:
            for pump in (pilot.app, pilot.app.screen):
                patch.setattr(pump, "post_message", lambda message: posted.append(message) or True)
            timer.until_drawn("b\nc ")
        assert not posted


async def test_a_key_is_drawn_between_two_looks(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    async with timed() as (pilot, timer):
        timer.until_drawn("a ")
        monkeypatch.setattr(
            pilot.app, "_display", lambda screen, update: update and drawn.append(update.render_segments(pilot.app.console))
        )
        await pilot.press("Q")
        await wait_until(pilot, lambda: any("Q" in each for each in drawn))


@pytest.mark.parametrize(("given", "expected"), [({}, "240"), ({"TEXTUAL_FPS": "30"}, "30")])
def test_what_changed_waits_for_a_short_turn_of_the_timer_unless_a_person_says_otherwise(given: dict, expected: str) -> None:
    """Textual reads it when it is imported, so what imports the window must come first."""
    environment = {name: value for name, value in os.environ.items() if name != "TEXTUAL_FPS"} | given
    told = [sys.executable, "-c", "import spectui.ui.app, textual.constants; print(textual.constants.MAX_FPS)"]
    assert subprocess.run(told, env=environment, capture_output=True, text=True).stdout.strip() == expected
