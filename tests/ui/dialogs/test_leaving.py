"""A screen that is left before it has widgets, or twice: the window stands."""

import asyncio
from pathlib import Path
from typing import Any

from textual import events
from textual.binding import Binding
from textual.pilot import Pilot

from spectui.knobs import Knobs
from spectui.profiles.file import ProfileFile
from spectui.store.journal import Journal
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs.lists import HelpScreen
from spectui.ui.textual_patches.screen import Palette
from tests.fake_engine import FakeEngine
from tests.ui.dialogs.catalogues import HEADERS, Known
from tests.ui.pilot_helpers import Window, answer, ask, paste, wait_until
from tests.ui.screen_text import screen_text

SCREENS = {
    "f1": "HelpScreen", "alt+l": "MessagesScreen", "alt+m": "ModelsScreen", "alt+d": "PlacementScreen",
    "alt+y": "SystemPromptScreen", "alt+x": "LineScreen", "alt+s": "LineScreen",
    "ctrl+p": "Palette", "alt+a": "Palette", "f12": "ConversationsScreen",
}  # fmt: skip
"""By the key that opens them. The last may begin a new chat, which has no messages to list."""


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
