"""The box of the system prompt where there is hardly room for it."""

from __future__ import annotations

from textual.widgets import Label, TextArea

from spectui.ui.dialogs.system_prompt import SystemPromptScreen
from tests.ui.pilot_helpers import Window, burst, wait_until


async def test_a_key_behind_fast_letters_does_not_overtake_them(window: Window) -> None:
    async with window() as (app, pilot):
        await pilot.press("alt+y")
        await wait_until(pilot, lambda: isinstance(app.screen, SystemPromptScreen) and app.screen.focused)
        burst(app, *"brief", "ctrl+s")
        await wait_until(pilot, lambda: not isinstance(app.screen, SystemPromptScreen))
        assert app.screen.session.setup.system == "brief"


async def test_a_tiny_window_keeps_its_rows_for_the_text(window: Window) -> None:
    async with window(size=(20, 5)) as (app, pilot):
        await pilot.press("alt+y")
        await wait_until(pilot, lambda: isinstance(app.screen, SystemPromptScreen))
        await wait_until(pilot, lambda: not app.screen.query_one(Label).display)
        await wait_until(pilot, lambda: app.screen.query_one(TextArea).size.height >= 3)
