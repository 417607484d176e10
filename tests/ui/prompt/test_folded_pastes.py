"""A folded paste is one unit in the prompt: the model gets all of its text or none, whatever is pressed around it."""

import random

import pytest
from textual import events
from textual.pilot import Pilot

from spectui.ui.prompt.prompt_input import PromptInput
from tests.ui.prompt.test_prompt_input import Box

LONG = "\n".join(f"line {number}" for number in range(12))
OTHER = LONG.replace("line", "other")
NAME = f"[pasted 12 lines, {len(LONG)} characters]"


async def put(pilot: Pilot[None], *parts: str) -> PromptInput:
    """Type the short parts, and paste the long ones."""
    box = pilot.app.query_one(PromptInput)
    for part in parts:
        box.post_message(events.Paste(part))
        await pilot.pause()
    return box


async def sent(pilot: Pilot[None]) -> str:
    """What Enter sends."""
    await pilot.press("enter")
    await pilot.pause()
    assert isinstance(pilot.app, Box)
    return pilot.app.sent[-1] if pilot.app.sent else ""


CASES: list[tuple[list[str], str | None]] = [
    (["left", "left", "backspace"], "a  b"),
    (["home", "right", "right", "delete"], "a  b"),
    (["left", "backspace", "x"], f"a {LONG}xb"),
    (["left", "left", "x"], f"a {LONG}x b"),
    (["left", "left", "left", "x"], f"a {LONG}x b"),
    (["left", "left", "left", "ctrl+j", "x"], f"a {LONG}\nx b"),
    (["left", "left", "ctrl+left", "x"], f"a {LONG}x b"),
    (["home", "right", "right", "right", "x"], f"a {LONG}x b"),
    (["home", "right", "right", "ctrl+right", "x"], f"a {LONG}x b"),
    (["left", "left", "ctrl+w"], "a  b"),
    (["home", "right", "right", "ctrl+f"], None),
    (["left", "left", "shift+left", "x"], "a x b"),
    (["left", "left", "shift+left", "shift+right", "x"], f"a {LONG}x b"),
    (["home", "right", "right", "shift+right", "shift+left", "x"], f"a x{LONG} b"),
    (["left", "left", "left", "ctrl+k"], "a "),
    (["left", "left", "backspace", "ctrl+z"], f"a {LONG} b"),
    (["left", "left", "backspace", "ctrl+z", "ctrl+y"], "a  b"),
    (["left", "left", "shift+left", "ctrl+x", "home", "ctrl+v"], f"{LONG}a  b"),
    (["left", "left", "shift+left", "ctrl+c", "end", "ctrl+v"], f"a {LONG} b{LONG}"),
    (["ctrl+x", "ctrl+v"], f"a {LONG} b"),
]
"""Keys after `a [pasted] b`, and what is sent then."""


async def test_a_key_leaves_it_whole_or_takes_all_of_it() -> None:
    async with Box().run_test() as pilot:
        box = pilot.app.query_one(PromptInput)
        for keys, text in CASES:
            box.text = ""
            await put(pilot, "a ", LONG, " b")
            await pilot.press(*keys)
            assert box.text.replace(NAME, "").count("[") == 0, (keys, box.text)
            if text is not None:
                assert await sent(pilot) == text.rstrip("\n"), keys


async def test_two_of_one_text_and_two_of_others() -> None:
    async with Box().run_test() as pilot:
        box = await put(pilot, LONG, LONG, OTHER, "\n", LONG.replace("line", "LINE"), "end")
        box.move_cursor((0, 0))
        await pilot.press("right", "backspace", "x")
        assert box.text.count(NAME) == 1
        assert await sent(pilot) == f"x{LONG}{OTHER}\n{LONG.replace('line', 'LINE')}end"


async def test_a_paste_that_holds_the_name_of_another() -> None:
    async with Box().run_test() as pilot:
        await put(pilot, LONG, f"see {NAME}\n" * 9, f"and {NAME}")
        assert await sent(pilot) == LONG + f"see {NAME}\n" * 9 + f"and {NAME}"


async def test_a_click_into_it_and_a_double_click() -> None:
    async with Box().run_test() as pilot:
        box = await put(pilot, "a ", LONG, " b")
        await pilot.click(PromptInput, offset=(8, 1))
        await pilot.press("y")
        await pilot.click(PromptInput, offset=(8, 1), times=2)
        assert box.selected_text in (LONG, "")
        await pilot.press("x")
        assert await sent(pilot) in (f"a {LONG}xy b", "a xy b")


KEYS = ["left", "right", "up", "down", "home", "end", "shift+left", "shift+right", "ctrl+left", "ctrl+right", "backspace",
        "delete", "ctrl+w", "ctrl+f", "ctrl+u", "ctrl+k", "ctrl+z", "ctrl+y", "ctrl+x", "ctrl+c", "ctrl+v", "ctrl+j", "x", "]",
        "shift+up", "shift+down", "shift+home", "shift+end", "ctrl+shift+left", "ctrl+shift+k"]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_pressed(seed: int) -> None:
    """Without the names, no bracket is left of them, but what was typed."""
    chance = random.Random(seed)
    async with Box().run_test(size=(40, 24)) as pilot:
        box = await put(pilot, "one ", LONG, " two\nthree ", OTHER, OTHER, "\n", LONG)
        for _ in range(60):
            await pilot.press(key := chance.choice(KEYS))
            rest = box.text
            for name in (NAME, NAME.replace(str(len(LONG)), str(len(OTHER)))):
                rest = rest.replace(name, "")
            assert "[" not in rest and "pasted" not in rest, (key, box.text)
