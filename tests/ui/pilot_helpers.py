"""Helpers for a window under Textual's pilot: load, ask, answer, and wait for conditions instead of sleeping."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from inspect import signature
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from textual.app import App
from textual.events import Key, Paste
from textual.pilot import Pilot
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from spectui.chat.session import ChatSession
from spectui.engine.protocol import Engine
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import Reason, StopReason
from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.panel import SidePanel
from spectui.ui.dialogs.compare import CompareScreen
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen.chat import ChatScreen
from tests.fake_engine import FakeEngine

PAIR = Setup(model="/models/target.gguf", draft="/models/draft.gguf")
THEMES = Path(__file__).resolve().parents[2] / "themes"

BOTH_ENGINES = pytest.mark.parametrize("engine", [False, True], indirect=True, ids=["at-once", "late"])
"""For tests of what stops a reply or a load: they run once more with an engine that ends it a tick later."""

Make = Callable[..., SpectuiApp]
Window = Callable[..., AbstractAsyncContextManager[tuple[SpectuiApp, Pilot[None]]]]
"""The fixtures `make_app` and `window`."""


def window_of(engine: Engine, setup: Setup, knobs: Knobs, **arguments: Any) -> SpectuiApp:
    """An application with the project's themes. `arguments`: of `SpectuiApp`, or of its `ChatSession` or `ChatScreen`, and
    `profiles`."""
    engine.knobs = knobs
    known = signature(SpectuiApp).parameters
    of_session, of_screen = (
        {name: arguments.pop(name) for name in signature(kind).parameters if name in arguments and name not in known}
        for kind in (ChatSession, ChatScreen)
    )
    session = ChatSession(engine, setup, **of_session)
    session.user_knobs.profiles = arguments.pop("profiles", session.user_knobs.profiles)
    return SpectuiApp(session, theme_directories=(THEMES,), make_screen=partial(ChatScreen, **of_screen), **arguments)


def notified(app: App[None]) -> list[str]:
    """The messages at the window's edge, the oldest first."""
    return [each.message for each in app._notifications]


async def wait_until(pilot: Pilot[None], predicate: Callable[[], object]) -> None:
    """Let the application run until the predicate holds."""
    deadline = monotonic() + 60
    while not predicate():
        window = pilot.app.screen
        assert monotonic() < deadline, f"still not so: {predicate}; {window}, {window.classes}, {window.size}"
        await pilot.pause(0.01)


def burst(app: SpectuiApp, *keys: str) -> None:
    """Have all these keys come in at once, before anything is done about the first."""
    for key in keys:
        app.post_message(Key(key, {"enter": "\r", "space": " "}.get(key, key if len(key) == 1 else None)))


async def click_key(pilot: Pilot[None], key: str) -> None:
    """Click a key on the window's last line, once it stands there."""

    def standing() -> FooterKey | None:
        line = pilot.app.screen.query_one(Footer)
        return next((each for each in line.query(FooterKey) if each.key == key and each.region.y), None)

    while True:
        before = standing()
        await pilot.pause()
        if before is not None and before is standing():  # it is made anew where the keys have changed
            await pilot.click(before)
            return


def hold_cursor(app: App[None]) -> None:
    """Keep the prompt's cursor visible: a picture must not depend on when it blinks."""
    prompt = app.screen_stack[0].query_one(PromptInput)
    prompt.cursor_blink = False
    prompt.blink_timer.stop()


async def load(pilot: Pilot[None], engine: FakeEngine) -> None:
    """Wait for the request to load and grant it."""
    await wait_until(pilot, lambda: engine.loads)
    engine.finish_loading()
    await wait_until(pilot, lambda: not engine.events)


async def ask(pilot: Pilot[None], text: str) -> None:
    """Paste a prompt and send it."""
    await paste(pilot, text)
    await pilot.press("enter")
    await pilot.pause()


async def paste(pilot: Pilot[None], text: str) -> None:
    """Paste a text into what has the focus: a tenth of the time that its letters would take."""
    pilot.app.post_message(Paste(text))
    await pilot.pause()


def write_reply(engine: FakeEngine) -> None:
    """A few rounds with every origin in them."""
    engine.read_prompt(1204, 1204, reused=400, seconds=2.5)
    engine.emit_round(plain="def", seconds=0.08, reason=Reason("measuring"))
    engine.emit_round(" add", "(a", ", b", bonus="):", seconds=0.16, reason=Reason("draft", 3, 16, 1.5))
    engine.emit_round("\n    ", correction="return", rejected=[" pass", "\n"], seconds=0.15)
    engine.emit_round(" a", " +", " b", bonus="\n", seconds=0.16, source="suffix", reason=Reason("draft", 3, 16, 1.7))


async def answer(pilot: Pilot[None], engine: FakeEngine, reason: StopReason = StopReason.EOS) -> None:
    """Write a reply and end it."""
    write_reply(engine)
    engine.finish(reason)
    await wait_until(pilot, lambda: not engine.events)


async def streaming(pilot: Pilot[None], engine: FakeEngine) -> SidePanel:
    """Load, and have a reply written that goes on. Returns the panel."""
    await load(pilot, engine)
    await ask(pilot, "Write add.")
    write_reply(engine)
    await wait_until(pilot, lambda: not engine.events)
    pilot.app.screen.show_figures()
    return pilot.app.screen.query_one(SidePanel)


async def raced(pilot: Pilot[None], seconds: float) -> CompareScreen:
    """Wait for the race, and show it as it is so many seconds after its start, whatever the clock says."""
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen) and pilot.app.screen.lanes)
    race = pilot.app.screen
    assert isinstance(race, CompareScreen)
    race._since = None
    race.advance(seconds)
    await pilot.pause()
    return race
