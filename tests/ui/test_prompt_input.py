"""The prompt box: which keys send, which begin a line, what is recalled and what is pasted."""

from __future__ import annotations

import pytest
from textual import events, on
from textual.app import App, ComposeResult

from spectui.ui.prompt_input import PromptInput


class Box(App[None]):
    """A box that accepts everything."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def compose(self) -> ComposeResult:
        yield PromptInput()

    @on(PromptInput.Submitted)
    def keep(self, event: PromptInput.Submitted) -> None:
        self.sent.append(event.text)
        event.control.accept(event.text)


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+j", "alt+enter"])
async def test_enter_sends_and_others_begin_a_line(key: str) -> None:
    app = Box()
    async with app.run_test() as pilot:
        await pilot.press("a", key, "b")
        box = app.query_one(PromptInput)
        assert box.text == "a\nb"
        assert box.size.height == 2
        await pilot.press("enter")
        assert app.sent == ["a\nb"]
        assert box.text == ""


async def test_white_space_is_not_sent() -> None:
    app = Box()
    async with app.run_test() as pilot:
        await pilot.press("space", "enter")
        assert app.sent == []
        assert app.query_one(PromptInput).text == " "


async def test_up_in_an_empty_box_goes_back_through_the_prompts() -> None:
    app = Box()
    async with app.run_test() as pilot:
        await pilot.press("a", "enter", "b", "enter", "up")
        box = app.query_one(PromptInput)
        assert box.text == "b"
        await pilot.press("up")
        assert box.text == "a"
        await pilot.press("x", "up")
        assert box.text == "ax", "what is being written stays"


async def test_a_paste_keeps_its_lines_and_loses_its_control_characters() -> None:
    app = Box()
    async with app.run_test() as pilot:
        box = app.query_one(PromptInput)
        box.post_message(events.Paste("one\r\ntwo\rthree\x1b]52;c;eA==\x07"))
        await pilot.pause()
        assert box.text == "one\ntwo\nthree]52;c;eA=="
        assert app.sent == []
