"""The slider: what keys and the mouse do, and that it says so once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import on
from textual.app import App, ComposeResult

from spectui.ui.widgets.slider import LABEL, Slider, shown
from tests.ui.pilot_helpers import wait_until


class SliderApp(App[None]):
    def __init__(self, **spec: float) -> None:
        super().__init__()
        self.spec = {"value": 16, "low": 0, "high": 48, "step": 1, "default": 16} | spec
        self.seen: list[float] = []

    def compose(self) -> ComposeResult:
        yield Slider("draft_max", "draft-max", self.spec.pop("value"), **self.spec)

    @on(Slider.Changed)
    def note(self, event: Slider.Changed) -> None:
        assert event.key == "draft_max"
        self.seen.append(event.value)


def drawn(app: SliderApp) -> str:
    slider = app.query_one(Slider)
    return slider.render_line(0).text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("left", 15), ("right", 17), ("shift+left", 6), ("shift+right", 26), ("home", 0), ("end", 48),
    ],
)  # fmt: skip
async def test_keys(key: str, value: int) -> None:
    app = SliderApp()
    async with app.run_test(size=(60, 3)) as pilot:
        await pilot.press("tab", key)
        await wait_until(pilot, lambda: app.seen == [value])
        assert app.query_one(Slider).value == value
        assert isinstance(app.seen[0], int)


async def test_back_to_the_default() -> None:
    app = SliderApp(value=3)
    async with app.run_test(size=(60, 3)) as pilot:
        await pilot.press("tab", "delete")
        await wait_until(pilot, lambda: app.seen == [16])


async def test_a_turn_against_the_end_says_nothing() -> None:
    app = SliderApp(value=0)
    async with app.run_test(size=(60, 3)) as pilot:
        await pilot.press("tab", "left", "home", "right")
        await wait_until(pilot, lambda: bool(app.seen))
        assert app.seen == [1]


async def test_floats_stay_on_their_steps() -> None:
    app = SliderApp(value=0.0, low=0.0, high=1.0, step=0.05, default=0.75)
    async with app.run_test(size=(60, 3)) as pilot:
        await pilot.press("tab", *["right"] * 20)
        await wait_until(pilot, lambda: len(app.seen) == 20)
        assert app.seen == [round(0.05 * turn, 2) for turn in range(1, 21)]


async def test_mouse_click_and_drag() -> None:
    app = SliderApp(value=16)
    async with app.run_test(size=(60, 3)) as pilot:
        slider = app.query_one(Slider)
        first = LABEL + 1
        await pilot.mouse_down(slider, offset=(first, 0))
        await wait_until(pilot, lambda: app.seen == [0])
        await pilot.hover(slider, offset=(59, 0))
        await wait_until(pilot, lambda: app.seen[-1] == 48)
        await pilot.mouse_up(slider, offset=(59, 0))
        await pilot.hover(slider, offset=(first, 0))
        await pilot.pause()
        assert slider.value == 48


async def test_every_value_is_drawn_zero_too() -> None:
    app = SliderApp(value=3)
    async with app.run_test(size=(60, 3)):
        slider = app.query_one(Slider)
        slider.value = 0
        line = drawn(app)
        assert line.index("●") == LABEL + 1
        assert line.startswith("draft-max ")
        assert line.endswith("  0")
        assert "┼" in line, "the default has a tick"
        slider.value = 48
        assert drawn(app).rstrip("48 ").endswith("●")
        assert len(drawn(app)) == 60


async def test_an_assigned_value_is_clamped_and_silent_and_a_turned_one_is_told() -> None:
    app = SliderApp()
    async with app.run_test(size=(60, 3)) as pilot:
        slider = app.query_one(Slider)
        slider.value = 1000
        assert slider.value == 48
        slider.turn_to(-1000)
        assert slider.value == 0
        await wait_until(pilot, lambda: bool(app.seen))
        assert app.seen == [0]


async def test_a_narrow_window_does_not_break_it() -> None:
    app = SliderApp()
    async with app.run_test(size=(6, 3)) as pilot:
        await pilot.press("tab", "right")
        await wait_until(pilot, lambda: app.seen == [17])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (16, "16"),
        (0, "0"),
        (0.0, "0"),
        (0.55, ".55"),
        (0.9995, ".9995"),
        (1.0, "1.0"),
        (-1, "-1"),
        (1.05, "1.05"),
        (-0.5, "-.5"),
    ],
)
def test_how_numbers_are_shown(value: float, text: str) -> None:
    assert shown(value) == text


@given(st.floats(-10, 10))
def test_no_value_leaves_the_range_and_none_is_moved_within_it(value: float) -> None:
    slider = Slider("p_min", "p-min", value, low=0.0, high=1.0, step=0.05, default=0.75)
    assert 0 <= slider.value <= 1
    assert slider.value == pytest.approx(min(1, max(0, value)), abs=1e-6)


@pytest.mark.parametrize(
    ("value", "spec", "figure"),
    [(200, {"low": -1, "high": 2**31 - 1, "step": 16, "default": -1}, "200"),
     (0.33, {"low": 0.0, "high": 5.0, "step": 0.05, "default": 0.8}, ".33"),
     (0.9995, {"low": 0.0, "high": 1.0, "step": 0.01, "default": 0.95}, ".9995")],
)  # fmt: skip
async def test_a_value_between_the_steps_is_shown_as_it_is(value: float, spec: dict[str, float], figure: str) -> None:
    app = SliderApp(value=value, **spec)
    async with app.run_test(size=(60, 3)):
        assert drawn(app).endswith(f" {figure}")
        assert drawn(app).count("●") == 1 and len(drawn(app)) == 60


async def test_a_number_that_is_typed_is_taken_as_it_is_and_a_turn_goes_to_a_step() -> None:
    app = SliderApp(value=-1, low=-1, high=2**31 - 1, step=16, default=-1)
    async with app.run_test(size=(60, 3)) as pilot:
        await pilot.press("tab", *"256", "enter", "right", "left", *"9999999999", "enter")
        await wait_until(pilot, lambda: app.seen == [256, 271, 255, 2**31 - 1])
        assert all(isinstance(value, int) for value in app.seen)


async def test_a_turn_from_between_the_steps_goes_the_way_of_the_key() -> None:
    app = SliderApp(value=0.33, low=0.0, high=5.0, step=0.05, default=0.8)
    async with app.run_test(size=(60, 3)) as pilot:
        await pilot.press("tab", "left", *".33", "enter", "right")
        await wait_until(pilot, lambda: app.seen == [0.3, 0.33, 0.4])
