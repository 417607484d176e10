"""Sliders and rows of choices: what keys and the mouse do, and that each says so once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import on
from textual.app import App, ComposeResult

from spectui.ui.widgets.knob import LABEL, ChoiceRow, KnobRow, Slider, shown
from tests.ui.pilot_helpers import wait_until


class KnobApp(App[None]):
    """One row, and what it has told."""

    def __init__(self, row: KnobRow) -> None:
        super().__init__()
        self.row = row
        self.told: list[float | str] = []

    def compose(self) -> ComposeResult:
        yield self.row

    @on(KnobRow.Changed)
    def note(self, event: KnobRow.Changed) -> None:
        assert event.key == self.row.key
        self.told.append(event.value)

    @property
    def drawn(self) -> str:
        return self.row.render_line(0).text


def slider(value: float, **spec: float) -> Slider:
    limits: dict[str, Any] = {"low": 0, "high": 48, "step": 1, "default": 16} | spec
    return Slider("draft_max", "draft-max", value, **limits)


def choices(value: str = "auto") -> ChoiceRow:
    return ChoiceRow("drafter", "drafter", value, choices=("auto", "model", "suffix", "off"), default="auto")


SHARE = {"low": 0.0, "high": 1.0, "step": 0.05, "default": 0.75}
HEAT = {"low": 0.0, "high": 5.0, "step": 0.05, "default": 0.8}
SEED = {"low": -1, "high": 2**31 - 1, "step": 16, "default": -1}


@pytest.mark.parametrize(
    ("make", "keys", "told"),
    [
        *((partial(slider, 16), [key], [value]) for key, value in (
            ("left", 15), ("right", 17), ("shift+left", 6), ("shift+right", 26), ("home", 0), ("end", 48))),
        (partial(slider, 3), ["delete"], [16]), (partial(slider, 0), ["left", "home", "right"], [1]),
        (partial(slider, 0.0, **SHARE), ["right"] * 20, [round(0.05 * turn, 2) for turn in range(1, 21)]),
        (partial(slider, -1, **SEED), [*"256", "enter", "right", "left", *"9999999999", "enter"], [256, 271, 255, 2**31 - 1]),
        (partial(slider, 0.33, **HEAT), ["left", *".33", "enter", "right"], [0.3, 0.33, 0.4]),
        (partial(choices, "model"), ["right"], ["suffix"]), (partial(choices, "model"), ["enter"], ["suffix"]),
        (partial(choices, "model"), ["left"], ["auto"]), (partial(choices, "model"), ["delete"], ["auto"]),
        (partial(choices), ["left", "right", "right"], ["off", "auto", "model"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("width", [60, 6], ids=["wide", "narrow"])
async def test_keys_turn_it(make: Callable[[], KnobRow], keys: Sequence[str], told: list[object], width: int) -> None:
    app = KnobApp(row := make())
    async with app.run_test(size=(width, 3)) as pilot:
        await pilot.press("tab", *keys)
        await wait_until(pilot, lambda: app.told == told)
        assert row.value == told[-1] and [type(value) for value in app.told] == [type(value) for value in told]


async def test_the_mouse_clicks_and_drags_a_slider() -> None:
    app = KnobApp(slider(16))
    async with app.run_test(size=(60, 3)) as pilot:
        first = LABEL + 1
        await pilot.mouse_down(app.row, offset=(first, 0))
        await wait_until(pilot, lambda: app.told == [0])
        await pilot.hover(app.row, offset=(59, 0))
        await wait_until(pilot, lambda: app.told[-1] == 48)
        await pilot.mouse_up(app.row, offset=(59, 0))
        await pilot.hover(app.row, offset=(first, 0))
        await pilot.pause()
        assert app.row.value == 48


async def test_a_click_turns_a_choice_on_and_on_the_left_arrow_back() -> None:
    app = KnobApp(choices())
    async with app.run_test(size=(40, 3)) as pilot:
        await pilot.click(ChoiceRow, offset=(LABEL + 4, 0))
        await wait_until(pilot, lambda: app.told == ["model"])
        await pilot.click(ChoiceRow, offset=(LABEL + 1, 0))
        await wait_until(pilot, lambda: app.told == ["model", "auto"])


@pytest.mark.parametrize(
    ("value", "spec", "figure"),
    [(0, {}, "0"), (48, {}, "48"), (200, SEED, "200"), (0.33, HEAT, ".33"), (0.9995, SHARE, ".9995")],
)
async def test_every_value_of_a_slider_is_drawn_as_it_is(value: float, spec: dict[str, float], figure: str) -> None:
    app = KnobApp(slider(value, **spec))
    async with app.run_test(size=(60, 3)):
        assert app.drawn.startswith("draft-max ") and app.drawn.endswith(f" {figure}")
        assert app.drawn.count("●") == 1 and len(app.drawn) == 60
        assert value or app.drawn.index("●") == LABEL + 1
        assert value != 48 or app.drawn.rstrip("48 ").endswith("●")
        assert "┼" in app.drawn or spec is SEED, "the default has a tick"


async def test_what_is_assigned_is_silent_and_within_the_range_or_the_choices() -> None:
    app = KnobApp(slider(16))
    async with app.run_test(size=(60, 3)) as pilot:
        app.row.value = 1000
        assert app.row.value == 48
        app.row.turn_to(-1000)
        await wait_until(pilot, lambda: app.told == [0])
    app = KnobApp(row := choices("suffix"))
    async with app.run_test(size=(40, 3)) as pilot:
        assert app.drawn.rstrip() == "drafter     ‹ suffix ›"
        row.show_choices(("auto", "model"), "suffix")
        await pilot.pause()
        assert app.drawn.rstrip() == "drafter     ‹ auto ›" and app.told == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (16, "16"), (0, "0"), (0.0, "0"), (0.55, ".55"), (0.9995, ".9995"), (1.0, "1.0"), (-1, "-1"), (1.05, "1.05"),
        (-0.5, "-.5"),
    ],
)  # fmt: skip
def test_how_numbers_are_shown(value: float, text: str) -> None:
    assert shown(value) == text


@given(st.floats(-10, 10))
def test_no_value_leaves_the_range_and_none_is_moved_within_it(value: float) -> None:
    assert slider(value, **SHARE).value == pytest.approx(min(1, max(0, value)), abs=1e-6)
