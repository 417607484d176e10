"""Reading: a reply turns into text when it ends, its tokens come back, code is copied, and a chat is exported to a file."""

import json
from pathlib import Path

import pytest
from textual.events import AppBlur, AppFocus
from textual.pilot import Pilot
from textual.widgets import Input

from spectui.chat.messages import ChatMessage
from spectui.chat.text.code_blocks import last_code_blocks
from spectui.speculation.records import StopReason
from spectui.store.journal import Journal
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs.questions import ConfirmScreen, LineScreen
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen import reading
from spectui.ui.transcript.reader import FindLine
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, Window, answer, ask, burst, load, notified, wait_until, write_reply
from tests.ui.transcript.test_transcript import rows, style_of

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


async def turn(pilot: Pilot[None], engine: FakeEngine, text: str, number: int) -> None:
    """The `number`th prompt, answered by this text."""
    await ask(pilot, f"prompt{number}")
    await wait_until(pilot, lambda: len(engine.generates) == number)
    engine.read_prompt(3, 3)
    thought, mark, answer = text.rpartition("</think>\n")
    if mark:
        engine.emit_round(plain=thought + mark, thought=True)
    engine.emit_round(plain=answer, thought=False)
    engine.finish()
    await wait_until(pilot, lambda: not engine.events)


async def replied(pilot: Pilot[None], engine: FakeEngine, *texts: str) -> None:
    await load(pilot, engine)
    for number, text in enumerate(texts, 1):
        await turn(pilot, engine, text, number)


def transcript_of(pilot: Pilot[None]) -> Transcript:
    return pilot.app.screen.query_one(Transcript)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_a_reply_that_ends_is_text_and_a_key_brings_its_tokens_back(
    make_app: Make, engine: FakeEngine, size: tuple[int, int]
) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await replied(pilot, engine, REPLY.replace("1", "4711"))
        transcript = transcript_of(pilot)
        await wait_until(pilot, lambda: "   ╭ python" in rows(transcript))
        await pilot.pause()
        seen = rows(transcript)
        assert seen[seen.index("   Title") + 2 :][:8] == [
            "   ╭ python", "   │ first = 4711", "   ╰─", "", "   and then", "", "   ╭─", "   │ second"
        ]  # fmt: skip
        assert style_of(transcript, "Title").bold
        assert style_of(transcript, "4711").color != style_of(transcript, "first").color, "code has its own colours"
        await pilot.press("f2")
        await wait_until(pilot, lambda: "   ```python" in rows(transcript))
        await pilot.press("f2")
        await wait_until(pilot, lambda: rows(transcript) == seen)


async def test_a_reply_is_tokens_while_it_is_written_and_while_one_looks_at_tokens(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        transcript = transcript_of(pilot)

        def coloured() -> bool:
            return style_of(transcript, "return").underline is True  # the correction

        await ask(pilot, "go")
        write_reply(engine)
        await wait_until(pilot, lambda: not engine.events)
        assert coloured()
        engine.finish()
        await wait_until(pilot, lambda: not coloured())
        for key in ("f3", "f4"):
            await pilot.press(key)
            await wait_until(pilot, coloured)
            await pilot.press(key)
            await wait_until(pilot, lambda: not coloured())
        first = transcript.document.replies[0].source.rounds[0]
        reading.mark_round(app.screen, first)
        await wait_until(pilot, coloured)
        reading.mark_round(app.screen, None)
        await wait_until(pilot, lambda: not coloured())


async def test_a_reply_without_rejected_drafts_is_text_too_after_it_was_written_beside_rejected_ones(
    window: Window, engine: FakeEngine
) -> None:
    async with window(size=(120, 40)) as (_, pilot):
        await pilot.press("f3")
        await ask(pilot, "go")
        engine.read_prompt(3, 3)
        engine.emit_round(plain="# One")
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        assert "   # One" in rows(transcript_of(pilot))
        await pilot.press("f3")
        await wait_until(pilot, lambda: "   One" in rows(transcript_of(pilot)))


async def test_a_reply_that_goes_on_is_tokens_again(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (_, pilot):
        transcript = transcript_of(pilot)
        await ask(pilot, "go")
        engine.read_prompt(3, 3)
        engine.emit_round(plain="# One")
        engine.finish(StopReason.LIMIT)
        await wait_until(pilot, lambda: "   One" in rows(transcript))
        await pilot.press("alt+g")
        await wait_until(pilot, lambda: "   # One█" in rows(transcript))
        engine.emit_round(plain="\n- two")
        engine.finish()
        await wait_until(pilot, lambda: {"   One", "   • two"} <= {*rows(transcript)})


async def test_what_is_selected_stays_until_it_is_let_go(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        transcript = transcript_of(pilot)
        await ask(pilot, "go")
        engine.read_prompt(3, 3)
        engine.emit_round(plain="a **bold** word")
        await wait_until(pilot, lambda: "   a **bold** word█" in rows(transcript))
        y = rows(transcript).index("   a **bold** word█")
        await pilot.mouse_down(transcript, offset=(5, y))
        await pilot.hover(transcript, offset=(12, y))
        await pilot.mouse_up(transcript, offset=(12, y))
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("ctrl+c")
        assert app.clipboard == "**bold**" and "   a **bold** word" in rows(transcript)
        app.screen.clear_selection()
        await wait_until(pilot, lambda: "   a bold word" in rows(transcript))
        await pilot.mouse_down(transcript, offset=(5, y))
        await pilot.hover(transcript, offset=(8, y))
        await pilot.mouse_up(transcript, offset=(8, y))
        await pilot.press("ctrl+c")
        assert app.clipboard == "**bold**", "as it was written"


async def test_code_is_copied_with_a_key_and_an_empty_block_is_not(window: Window, engine: FakeEngine) -> None:
    async with window(size=(80, 40)) as (app, pilot):
        await pilot.press("alt+k", "alt+w")
        for number, text in enumerate(("so:\n```\n```", REPLY), 1):
            await turn(pilot, engine, text, number)
            await pilot.press("alt+k")
            assert [sentence.split()[3] for sentence in notified(app)][:3] == ["code", "reply", "code"]
        assert app.clipboard == "second\nlines"
        await pilot.press("alt+w")
        assert app.clipboard == REPLY[REPLY.index("# Title") :].strip("\n"), "the whole reply, without its thinking"
        await wait_until(pilot, lambda: "   ╭ python" in rows(transcript_of(pilot)))
        await pilot.click(transcript_of(pilot), offset=(14, rows(transcript_of(pilot)).index("   ╭ python")))
        await wait_until(pilot, lambda: app.clipboard == "first = 1")


async def test_words_are_found_in_what_was_said_folded_or_not(window: Window, engine: FakeEngine) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        transcript = transcript_of(pilot)
        lines = "\n".join(f"line {number}" for number in range(60))
        for number, text in enumerate((REPLY, f"A **needle**\n\n{lines}", "Needles."), 1):
            await turn(pilot, engine, text, number)
        burst(app, "ctrl+f", *"needle")
        line = app.screen.query_one(FindLine)
        await wait_until(pilot, lambda: line.border_title == "find 2 of 2" and "   Needles." in rows(transcript))
        await pilot.press("enter")
        await wait_until(pilot, lambda: line.border_title == "find 1 of 2" and "   A needle" in rows(transcript))
        assert style_of(transcript, "needle").reverse
        await pilot.press("up")
        await wait_until(pilot, lambda: line.border_title == "find 2 of 2" and "   Needles." in rows(transcript))
        line.value = "not_this"
        await wait_until(pilot, lambda: line.border_title == "find 1 of 1" and "   not_this()" in rows(transcript))
        line.value = "nowhere"
        await wait_until(pilot, lambda: line.border_title == "find 0 of 0")
        await pilot.press("escape", "x")
        assert not line.display and app.screen.query_one(PromptInput).text == "x"


async def test_a_bell_rings_where_a_long_reply_ends_behind_another_window(
    window: Window, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[int] = []
    monkeypatch.setattr(SpectuiApp, "bell", lambda _: rung.append(len(engine.generates)))
    async with window() as (app, pilot):
        for number, (focused, seconds) in enumerate(((True, 20.0), (False, 1.0), (False, 20.0)), 1):
            await ask(pilot, "go")
            await wait_until(pilot, lambda number=number: len(engine.generates) == number)
            app.post_message(AppFocus() if focused else AppBlur())
            await pilot.pause()
            engine.emit_round(plain="x", seconds=seconds)
            engine.finish()
            await wait_until(pilot, lambda: not engine.events)
    assert rung == [3]


def test_code_that_was_thought_is_none_of_the_reply() -> None:
    assert last_code_blocks([ChatMessage("assistant", REPLY)]) == ["first = 1", "second\nlines"]


async def said(pilot: Pilot[None], engine: FakeEngine) -> None:
    """One exchange."""
    await ask(pilot, "add two")
    await wait_until(pilot, lambda: engine.generates)
    await answer(pilot, engine)


async def export(pilot: Pilot[None], name: str = "") -> None:
    """Ask for the export, under this name or the proposed one."""
    await pilot.press("alt+x")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, LineScreen))
    if name:
        pilot.app.screen.query_one(Input).value = name
    await pilot.press("enter")


@pytest.mark.parametrize("kept", [True, False])
async def test_both_kinds(
    window: Window, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    async with window(journal=Journal(tmp_path / "c.db" if kept else None)) as (app, pilot):
        await said(pilot, engine)
        await export(pilot)
        file = tmp_path / "here" / "add-two.md"
        await wait_until(pilot, lambda: file.exists() and file.stat().st_size)
        assert file.read_text().endswith("## You\n\nadd two\n\n## Reply\n\ndef add(a, b):\n    return a + b\n")
        await export(pilot, "x.json")
        await wait_until(pilot, lambda: any("x.json" in each for each in notified(app)))
    reply = json.loads((tmp_path / "here" / "x.json").read_text())["messages"][1]
    assert reply["stats"]["rejected"] == 2 and len(reply["tokens"]) == 11


async def test_what_is_there_is_asked_about(
    window: Window, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.md"
    file.write_text("mine")
    async with window() as (app, pilot):
        await said(pilot, engine)
        await export(pilot, "mine")
        await wait_until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("escape")
        assert file.read_text() == "mine"
        await export(pilot, "mine")
        await wait_until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await wait_until(pilot, lambda: "add two" in file.read_text())
        await export(pilot, "../out.md")
        await wait_until(pilot, lambda: any("no plain file name" in each for each in notified(app)))
    assert not (tmp_path.parent / "out.md").exists()


async def test_a_removed_directory_is_told_in_a_sentence(
    window: Window, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    async with window() as (app, pilot):
        await said(pilot, engine)
        here.rmdir()
        await export(pilot)
        await wait_until(pilot, lambda: any("directory was removed" in each for each in notified(app)))
