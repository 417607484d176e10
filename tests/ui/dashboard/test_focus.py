"""Who has the keys when the panel turns or goes: never a widget that cannot be seen."""

from __future__ import annotations

from spectui.ui.dashboard.pages.rounds import RoundsPage
from spectui.ui.dashboard.panel import SidePanel
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Window, wait_until


async def test_a_page_with_nothing_to_turn_gives_the_keys_to_the_prompt(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.click("#slider-temperature")
        await wait_until(pilot, lambda: app.screen.query_one("#slider-temperature").has_focus)
        knobs = engine.knobs
        await pilot.click("#pages", offset=(14, 0))
        await wait_until(pilot, lambda: app.screen.query_one(SidePanel).page == "details")
        await pilot.press(*"r4", "left")
        await wait_until(pilot, lambda: app.screen.prompt.text == "r4")
        assert engine.knobs == knobs


async def test_an_overlay_turned_to_a_page_with_nothing_to_turn_gives_the_keys_to_the_prompt(window: Window) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        await pilot.press("f6", "alt+2")
        await wait_until(pilot, lambda: app.screen.query_one(RoundsPage).has_focus)
        await pilot.press("f10", *"hi")
        await wait_until(pilot, lambda: app.screen.prompt.text == "hi")
        assert app.screen.query_one(SidePanel).page == "details"
        await pilot.press("alt+5")
        await wait_until(pilot, lambda: app.screen.query_one("#slider-draft-max").has_focus)


async def test_a_knob_that_leaves_the_first_page_gives_the_keys_to_the_prompt(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.press("f9")
        await wait_until(pilot, lambda: app.screen.query_one("#slider-p-min").region)
        await pilot.click("#slider-p-min")
        await wait_until(pilot, lambda: app.screen.query_one("#slider-p-min").has_focus)
        await pilot.press("f9")  # under the next policy it has no effect
        await wait_until(pilot, lambda: app.screen.prompt.has_focus)
        knobs = engine.knobs
        await pilot.press("left", "delete")
        await pilot.pause()
        assert engine.knobs == knobs


async def test_a_panel_that_a_narrow_window_hides_gives_the_keys_to_the_prompt(window: Window) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.click("#slider-temperature")
        await wait_until(pilot, lambda: app.screen.query_one("#slider-temperature").has_focus)
        await pilot.resize_terminal(80, 24)
        await wait_until(pilot, lambda: not app.screen.query_one(SidePanel).region)
        await wait_until(pilot, lambda: app.screen.prompt.has_focus)
