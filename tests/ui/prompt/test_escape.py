"""One Escape has one effect, and no text is lost by it; what is not sent when the program ends is in the box again."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui.store.journal import Journal
from spectui.store.prompts import PromptHistory, prompts_file
from spectui.ui.prompt.prompt_input import PromptInput
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import BOTH_ENGINES, Make, Window, ask, load, notified, paste, wait_until, write_reply


@BOTH_ENGINES
async def test_a_waiting_prompt_is_taken_back_first_and_the_reply_goes_on(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        box = app.screen.query_one(PromptInput)
        await ask(pilot, "one")
        write_reply(engine)
        await ask(pilot, "two")
        await ask(pilot, "three")
        await paste(pilot, "four")
        await pilot.press("escape")
        assert box.text == "two\nthree\nfour" and engine.stops == 0 and engine.replying
        await pilot.press("escape")
        assert engine.stops == 1 and box.text == "two\nthree\nfour"


@BOTH_ENGINES
async def test_ctrl_c_stops_a_reply_and_copies_what_is_selected(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        await ask(pilot, "one")
        write_reply(engine)
        await paste(pilot, "some text")
        await pilot.press("ctrl+a", "shift+end", "ctrl+c")
        assert engine.stops == 0 and app.clipboard == "some text"
        await pilot.press("end", "ctrl+c")
        assert engine.stops == 1
        await wait_until(pilot, lambda: app.screen.session.state == "ready")
        await pilot.press("ctrl+c")
        assert engine.stops == 1 and app.screen.prompt.text == "some text"


async def test_what_was_written_in_an_edit_is_in_the_history(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        box = app.screen.query_one(PromptInput)
        await ask(pilot, "one")
        write_reply(engine)
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("alt+e", "!", "2", "escape")
        assert box.text == "" and app.screen.session.conversation.editing is None
        await pilot.press("up")
        assert box.text == "one!2"


async def test_ctrl_z_undoes_in_the_prompt_before_it_suspends(window: Window) -> None:
    async with window(notifications=True) as (app, pilot):
        await paste(pilot, "\n".join("abcdefghijkl"))
        await pilot.press("backspace")
        assert app.screen.prompt.text == ""
        await pilot.press("ctrl+z")
        assert app.screen.prompt.unsent.splitlines() == list("abcdefghijkl"), "a folded paste is one unit"
        await pilot.press("ctrl+z")
        assert app.screen.prompt.text == "" and app.check_action("suspend_process", ())
        await pilot.press("ctrl+z")
        assert notified(app) == ["There is nothing more to undo."]


@pytest.mark.parametrize(
    ("saved", "begun", "attached"),
    [(True, "", ""), (True, "@n.txt ", "\n\nn.txt:\n```txt\nnote\n```"), (True, "/new ", ""), (False, "", "")],
)
async def test_an_unsent_prompt_survives_the_end_of_the_program(
    make_app: Make, engine: FakeEngine, file: Path, saved: bool, begun: str, attached: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    (file.parent / "n.txt").write_text("note")
    text = "\n".join(f"line {number}" for number in range(40))
    app = make_app(journal=Journal(file if saved else None))
    async with app.run_test() as pilot:
        await load(pilot, engine)
        await pilot.press(*begun)
        await paste(pilot, text)
    app = make_app(journal=Journal(file if saved else None))
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        engine.finish_loading()
        box = app.screen.query_one(PromptInput)
        if not saved:
            assert box.text == ""
            return
        await wait_until(pilot, lambda: box.unsent == begun + text)
        if begun == "/new ":
            return
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.generates)
        assert engine.generates[0][0].content == begun + text + attached
    assert PromptHistory(prompts_file()).take_unsent() == "", "what was sent is not there again"


async def test_an_unsent_prompt_is_on_disk_while_it_is_written(window: Window, file: Path) -> None:
    async with window(journal=Journal(file)) as (_, pilot):
        await paste(pilot, "half a thought")
        kept = prompts_file().with_name("unsent.json")
        await wait_until(pilot, lambda: kept.is_file() and "half a thought" in kept.read_text())
        assert kept.stat().st_mode & 0o077 == 0
