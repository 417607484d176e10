"""Text goes to the prompt from wherever the focus is, and no single key loads models anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectui.knobs import Knobs
from spectui.ui.dashboard.devices import DevicePane
from spectui.ui.dialogs.questions import LineScreen, PlacementScreen
from spectui.ui.prompt.prompt_input import PromptInput
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.pilot_helpers import PAIR, Make, Window, answer, ask, burst, load, wait_until
from tests.ui.screen_text import screen_text

GPU1 = GPU._replace(name="CUDA1", id="0000:c2:00.0")
TEXT = "are you there, R2-D2? [3 times] r"
SENT = [{" ": "space"}.get(each, each) for each in TEXT]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_text_goes_to_the_prompt_wherever_a_key_has_put_the_focus(
    window: Window, engine: FakeEngine, size: tuple[int, int]
) -> None:
    engine.devices = (CPU, GPU, GPU1)
    async with window(size=size) as (app, pilot):
        await ask(pilot, "go")
        keys = ((), ("f6",), ("f7",), ("f10",), ("alt+1",), ("alt+2",), ("alt+5",), ("f4",), ("tab",), ("shift+tab",))
        for number, before in enumerate(keys, 2):
            await answer(pilot, engine)
            await pilot.press(*before)
            burst(app, *SENT, "enter")
            await wait_until(pilot, lambda number=number: len(engine.generates) == number)
            assert engine.generates[-1][-1].content == TEXT, before
            assert engine.knobs == Knobs() and len(engine.loads) == 1


async def test_a_text_that_begins_as_a_number_does_not_lose_its_beginning(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        for number, text in enumerate(("3 apples", "-v is a flag", "1.5B or 3B?", "2.71828…"), 1):
            app.screen.query_one("#slider-draft-max").focus()
            burst(app, *({" ": "space"}.get(sign, sign) for sign in text), "enter")
            await wait_until(pilot, lambda number=number: len(engine.generates) == number)
            assert engine.generates[-1][-1].content == text and engine.knobs == Knobs()
            await answer(pilot, engine)


async def test_tab_stays_in_the_prompt(window: Window) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await pilot.press(*"some", "tab", *"thing")
        await pilot.pause()
        box = app.screen.query_one(PromptInput)
        assert box.has_focus and box.text == "something"


async def test_picked_devices_are_left_with_escape_and_by_picking_back(make_app: Make, engine: FakeEngine) -> None:
    engine.devices = (CPU, GPU)
    app = make_app(replace(PAIR, device="none"))
    async with app.run_test(size=(120, 40)) as pilot:
        await load(pilot, engine)
        for back in ("escape", "enter"):
            await pilot.press("f7", "down", "enter")
            await wait_until(pilot, lambda: "Not loaded" in screen_text(app))
            engine.report_devices(CPU, GPU)
            await wait_until(pilot, lambda: not engine.events)
            assert "Not loaded" in screen_text(app), "the memory's figures do not undo it"
            await pilot.press(back)
            await wait_until(pilot, lambda: "Not loaded" not in screen_text(app))
        await pilot.press("alt+d")
        await wait_until(pilot, lambda: isinstance(app.screen, PlacementScreen))
        assert app.screen.line == "" and len(engine.loads) == 1
        assert app.screen_stack[0].query_one(DevicePane)


async def test_keys_act_in_their_order_however_fast_they_come(window: Window) -> None:
    async with window() as (app, pilot):
        for keys, text in (
            ([*"ab", "backspace", "c"], "ac"),
            ([*"old", "ctrl+u", *"new"], "new"),
            ([*"abc", "left", "left", *"xy"], "axybc"),
            ([*"bc", "home", "a", "end", "d"], "abcd"),
        ):
            box = app.screen.query_one(PromptInput)
            box.text = ""
            burst(app, *keys)
            await wait_until(pilot, lambda box=box, text=text: box.text == text)
            question = LineScreen("What?")
            await app.push_screen(question)
            burst(app, *keys)
            await wait_until(pilot, lambda question=question, text=text: question.line == text)
            await pilot.press("escape")
