"""Questions: one answer, however often Enter is pressed."""

from __future__ import annotations

from spectui.ui.dialogs.questions import LineScreen
from tests.ui.pilot_helpers import Window, wait_until


async def test_enter_twice_at_once_is_one_answer(window: Window) -> None:
    answers: list[str | None] = []
    async with window() as (app, pilot):
        question = LineScreen("What?", "this")
        await app.push_screen(question, answers.append)
        question.action_take()
        question.action_take()
        await wait_until(pilot, lambda: answers)
        await pilot.pause()
        assert answers == ["this"] and len(app.screen_stack) == 1
