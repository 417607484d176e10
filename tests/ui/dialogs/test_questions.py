"""Questions and the box of the system prompt: one answer, with all that was typed before it."""

from __future__ import annotations

from textual.widgets import Label, TextArea

from spectui.ui.dialogs.questions import LineScreen, SystemPromptScreen
from tests.ui.pilot_helpers import Window, burst, wait_until


async def test_keys_that_come_at_once_give_one_answer_of_all_letters_before_them(window: Window) -> None:
    answers: list[str | None] = []
    async with window() as (app, pilot):
        question = LineScreen("What?", "this")
        await app.push_screen(question, answers.append)
        question.action_take()
        question.action_take()
        await wait_until(pilot, lambda: answers)
        await pilot.pause()
        assert answers == ["this"] and len(app.screen_stack) == 1
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
