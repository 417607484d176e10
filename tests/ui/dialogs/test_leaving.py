"""A screen that is left at any moment, also before it has widgets: the window stands.

`TEST_LEAVES` is how often; by hand: `TEST_LEAVES=5000 pytest tests/ui/dialogs/test_leaving.py`.
"""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.binding import Binding
from textual.pilot import Pilot

from spectui.knobs import Knobs
from spectui.profiles.file import ProfileFile
from spectui.store.journal import Journal
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs import models, questions
from spectui.ui.dialogs.lists import HelpScreen
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.textual_patches.screen import Palette
from tests.fake_engine import FakeEngine
from tests.ui.dialogs.catalogues import HEADERS, Known
from tests.ui.pilot_helpers import Window, answer, ask, paste, wait_until
from tests.ui.screen_text import screen_text

LEAVES = int(os.environ.get("TEST_LEAVES", "40"))
SCREENS = {
    "f1": "HelpScreen", "alt+l": "MessagesScreen", "alt+m": "ModelsScreen", "alt+d": "PlacementScreen",
    "alt+y": "SystemPromptScreen", "alt+x": "LineScreen", "alt+s": "LineScreen",
    "ctrl+p": "Palette", "alt+a": "Palette", "f12": "ConversationsScreen",
}  # fmt: skip
"""By the key that opens them. The last may begin a new chat, which has no messages to list."""
FURTHER = {
    "f12": ("f2", "ctrl+d", "a", "enter"), "alt+m": ("enter", "q", "down"), "alt+l": ("up", "enter"),
    "alt+d": ("-", "x"), "ctrl+p": ("a", "down"),
}  # fmt: skip
"""What may be pressed there: dialogs of dialogs, searches, plans."""


def press(app: SpectuiApp, key: str) -> None:
    app.post_message(events.Key(key, key if len(key) == 1 else None))


async def turns(number: int) -> None:
    """Let the application do a little."""
    for _ in range(number):
        await asyncio.sleep(0)


async def come_back(app: SpectuiApp, pilot: Pilot[None]) -> None:
    """Leave whatever is open."""

    def back() -> bool:
        if len(app.screen_stack) > 1:
            press(app, "escape")
        return len(app.screen_stack) == 1

    await wait_until(pilot, back)


def parts(tmp_path: Path) -> dict[str, Any]:
    """What the screens show."""
    return {
        "journal": Journal(tmp_path / "conversations.db"), "catalogue": Known(HEADERS),
        "plan": lambda setup, loaded: "It fits.", "profiles": ProfileFile(tmp_path / "config.toml"),
    }  # fmt: skip


async def test_keys_that_come_before_the_widgets(window: Window, engine: FakeEngine, tmp_path: Path) -> None:
    """The app handles keys with priority at once, whatever the screen in front waits for: its widgets, or its first layout."""
    async with window(size=(100, 30), **parts(tmp_path)) as (app, pilot):
        await ask(pilot, "one")
        await answer(pilot, engine)
        for key in SCREENS:
            press(app, key)
            while len(app.screen_stack) == 1:
                await turns(1)
            screen = app.screen
            actions = [each.action for each in screen.BINDINGS if isinstance(each, Binding) and each.priority]
            moves = [each for each in actions if each.startswith(("move", "scroll", "turn"))]
            for action in [each for each in actions if each not in ("back", "dismiss(None)", "stop")]:
                if app.screen is screen:
                    await app.run_action(action, screen)
            for _ in range(40):
                for action in moves if app.screen is screen else ():
                    await app.run_action(action, screen)
                await turns(1)
            assert app.is_running, key
            await come_back(app, pilot)
            if engine.loading:
                engine.finish_loading()
                await wait_until(pilot, lambda: not engine.events)


@pytest.mark.parametrize("seed", range(2))
async def test_the_window_stands(
    window: Window, engine: FakeEngine, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((models, "REFRESH_S"), (questions, "PLAN_AFTER_S")):
        monkeypatch.setattr(module, name, 0.002)
    chance = random.Random(seed)
    seen: set[str] = set()
    async with window(size=(100, 30), **parts(tmp_path)) as (app, pilot):
        await ask(pilot, "one")
        await answer(pilot, engine)
        done: list[str] = []
        for _ in range(LEAVES // 2):
            key = chance.choice(list(SCREENS))
            done = [key]
            press(app, key)
            await turns(chance.choice((chance.randrange(30), chance.randrange(200))))
            while key in FURTHER and chance.randrange(3) == 0:
                done.append(chance.choice(FURTHER[key]))
                press(app, done[-1])
                await turns(chance.randrange(60))
            seen |= {type(each).__name__ for each in app.screen_stack}
            press(app, "escape")
            await turns(chance.randrange(30))
            assert app.is_running, done
            if chance.randrange(2):
                await come_back(app, pilot)
        await come_back(app, pilot)
        await pilot.pause()  # what was pressed last comes before the end
        assert isinstance(app.screen, ChatScreen)
    assert len(seen) > 4, "many were open"


async def test_the_palette_is_left_once_and_opens_over_the_keys_that_were_asked_for_in_it(
    window: Window, tmp_path: Path
) -> None:
    profiles = ProfileFile(tmp_path / "config.toml")
    names = ["[/x]", "code [$accent]", "[V2]"]  # no markup
    for name in names:
        profiles.save(name, Knobs())
    async with window(profiles=profiles, size=(120, 40)) as (app, pilot):
        await pilot.press("ctrl+p")
        await paste(pilot, "profile:")
        await wait_until(pilot, lambda: screen_text(app).count("Profile: ") == len(names))
        assert [name for name in names if f"Profile: {name}" not in screen_text(app)] == []
        palette = app.screen
        palette.dismiss()
        palette.dismiss()
        await wait_until(pilot, lambda: not isinstance(app.screen, Palette))
        for key, screen in (("ctrl+p", Palette), ("f1", HelpScreen), ("ctrl+p", Palette)):
            await pilot.press(key)
            await wait_until(pilot, lambda screen=screen: isinstance(app.screen, screen))
        for depth in (3, 2, 1):
            await pilot.press("escape")
            await wait_until(pilot, lambda depth=depth: len(app.screen_stack) == depth)
