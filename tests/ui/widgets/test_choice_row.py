"""A row of choices: what keys and the mouse do, and that it says so once."""

from __future__ import annotations

import pytest
from textual import on
from textual.app import App, ComposeResult

from spectui.ui.widgets.choice_row import ChoiceRow
from spectui.ui.widgets.slider import LABEL
from tests.ui.pilot_helpers import wait_until


class ChoiceRowApp(App[None]):
    def __init__(self, value: str = "auto") -> None:
        super().__init__()
        self.start = value
        self.seen: list[str] = []

    def compose(self) -> ComposeResult:
        yield ChoiceRow("drafter", "drafter", self.start, choices=("auto", "model", "suffix", "off"), default="auto")

    @on(ChoiceRow.Changed)
    def note(self, event: ChoiceRow.Changed) -> None:
        assert event.key == "drafter"
        self.seen.append(event.value)


@pytest.mark.parametrize(
    ("key", "value"), [("right", "suffix"), ("enter", "suffix"), ("left", "auto"), ("delete", "auto")]
)
async def test_keys(key: str, value: str) -> None:
    app = ChoiceRowApp("model")
    async with app.run_test(size=(40, 3)) as pilot:
        await pilot.press("tab", key)
        await wait_until(pilot, lambda: app.seen == [value])
        assert app.query_one(ChoiceRow).value == value


async def test_after_the_last_choice_comes_the_first() -> None:
    app = ChoiceRowApp()
    async with app.run_test(size=(40, 3)) as pilot:
        await pilot.press("tab", "left", "right", "right")
        await wait_until(pilot, lambda: app.seen == ["off", "auto", "model"])


async def test_a_click_turns_on_and_on_the_left_arrow_back() -> None:
    app = ChoiceRowApp()
    async with app.run_test(size=(40, 3)) as pilot:
        await pilot.click(ChoiceRow, offset=(LABEL + 4, 0))
        await wait_until(pilot, lambda: app.seen == ["model"])
        await pilot.click(ChoiceRow, offset=(LABEL + 1, 0))
        await wait_until(pilot, lambda: app.seen == ["model", "auto"])


async def test_it_shows_name_and_choice_and_an_assignment_is_silent() -> None:
    app = ChoiceRowApp()
    async with app.run_test(size=(40, 3)) as pilot:
        row = app.query_one(ChoiceRow)
        assert row.render_line(0).text.rstrip() == "drafter     ‹ auto ›"
        row.value = "suffix"
        await pilot.pause()
        assert row.render_line(0).text.rstrip() == "drafter     ‹ suffix ›"
        assert app.seen == []


async def test_a_value_that_is_no_choice_any_more_becomes_the_default() -> None:
    app = ChoiceRowApp("suffix")
    async with app.run_test(size=(40, 3)) as pilot:
        row = app.query_one(ChoiceRow)
        row.show_choices(("auto", "model"), "suffix")
        assert row.value == "auto"
        await pilot.press("tab", "right")
        await wait_until(pilot, lambda: app.seen == ["model"])
