"""The Markdown view: code, thinking, copying, and going from reply to reply."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widgets import Collapsible, Markdown
from textual.widgets.markdown import MarkdownFence

from spectui.chat.text.prose import Part, code_blocks, parts, said
from spectui.ui.dialogs.markdown_screen import MarkdownScreen
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, Window, ask, load, notified, wait_until
from tests.ui.screen_text import compositor

REPLY = """<think>
Should I
```py
not_this()
```
</think>
# Title

```python
first = 1
```

and then

```
second
lines
```
"""


async def replied(pilot: Pilot[None], engine: FakeEngine, *texts: str) -> None:
    await load(pilot, engine)
    for number, text in enumerate(texts, 1):
        await ask(pilot, f"prompt{number}")
        await wait_until(pilot, lambda number=number: len(engine.generates) == number)  # type: ignore[misc]
        engine.read_prompt(3, 3)
        engine.emit_round(plain=text)
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)


async def reading(pilot: Pilot[None]) -> None:
    await pilot.press("alt+v")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, MarkdownScreen) and pilot.app.screen.query(Markdown))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (20, 5)])
async def test_a_reply_is_read_and_left(make_app: Make, engine: FakeEngine, size: tuple[int, int]) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await replied(pilot, engine, REPLY)
        await reading(pilot)
        await wait_until(pilot, lambda: len(app.screen.query(MarkdownFence)) == 2)
        (section,) = app.screen.query(Collapsible)
        assert section.collapsed and "thinking" in section.title
        await pilot.press("t")
        assert not section.collapsed
        await pilot.press("alt+v")
        await wait_until(pilot, lambda: app.screen.query(Transcript))


async def test_code_is_highlighted(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(80, 40)) as pilot:
        await replied(pilot, engine, REPLY)
        await reading(pilot)

        def colours() -> dict[str, object]:
            strips = compositor(app).render_strips()
            return {piece.text.strip(): piece.style.color for strip in strips for piece in strip if piece.style}

        await wait_until(pilot, lambda: {"first", "1"} <= {*colours()})
        assert colours()["first"] != colours()["1"]


async def test_code_is_copied_with_one_key_or_a_click(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(80, 40)) as pilot:
        await replied(pilot, engine, REPLY)
        await pilot.press("alt+k")
        assert app.clipboard == "second\nlines"
        await reading(pilot)
        await wait_until(pilot, lambda: len(app.screen.query(MarkdownFence)) == 2)
        await pilot.press("c", "c")
        assert app.clipboard == "first = 1"
        await pilot.press("c")
        assert app.clipboard == "second\nlines", "round again"
        await pilot.click(MarkdownFence)
        assert app.clipboard == "first = 1"


async def test_an_empty_block_is_not_copied(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(80, 40)) as pilot:
        await replied(pilot, engine, "so:\n```\n```")
        await pilot.press("alt+k")
        await reading(pilot)
        await pilot.press("c")
        none, empty = notified(app)
        assert "no code block" in none and "is empty" in empty


async def test_from_reply_to_reply(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await replied(pilot, engine, "*one*", "two \x1b]0;x\x07[link](javascript:x)")
        await reading(pilot)
        page = app.screen
        assert "\x1b" not in page.query_one(Markdown).source
        await pilot.press("left")
        await wait_until(pilot, lambda: page.query(Markdown) and page.query_one(Markdown).source == "*one*")


async def test_nothing_to_read(window: Window) -> None:
    async with window() as (app, pilot):
        await pilot.press("alt+v", "alt+k")
        assert len(notified(app)) == 2


def test_thinking_is_told_from_speech() -> None:
    assert parts("a") == [Part(False, "a")]
    assert parts("<think>\n\n</think>\n\na") == [Part(False, "a")]
    assert parts("b\n</think>\na") == [Part(True, "b"), Part(False, "a")]
    assert parts("a\n<think>b") == [Part(False, "a"), Part(True, "b")]
    assert parts("write <think> and </think>") == [Part(False, "write <think> and </think>")]
    assert said(REPLY).startswith("# Title")
    assert code_blocks(REPLY) == ["first = 1", "second\nlines"]
