"""Text goes to the prompt from wherever the focus is, and no Escape and no end of the program loses any."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectui.knobs import Knobs
from spectui.store.journal import Journal
from spectui.store.prompts import PromptHistory, prompts_file
from spectui.ui.dashboard.machine import DevicePane
from spectui.ui.dialogs.questions import LineScreen, PlacementScreen
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen.chat import ChatScreen
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.ui.pilot_helpers import (
    BOTH_ENGINES,
    PAIR,
    Make,
    Window,
    answer,
    ask,
    burst,
    load,
    notified,
    paste,
    wait_until,
    write_reply,
)
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


@pytest.mark.parametrize("key", ["f7", "f10", "alt+1", "alt+2", "alt+5", "f4"])
async def test_a_key_moves_the_focus_before_the_next_key_is_taken(window: Window, engine: FakeEngine, key: str) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        await answer(pilot, engine)
        burst(app, key, *"why")
        app.call_later(burst, app, *"23")  # these come while the first are acted on
        await wait_until(pilot, lambda: app.screen.query_one(PromptInput).text == "why23")
        assert app.focused is app.screen.query_one(PromptInput) and engine.knobs == Knobs()


async def test_a_text_that_begins_as_a_number_does_not_lose_its_beginning(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        for number, text in enumerate(("3 apples", "-v is a flag", "1.5B or 3B?", "2.71828…"), 1):
            app.screen.query_one("#slider-draft-max").focus()
            burst(app, *({" ": "space"}.get(sign, sign) for sign in text), "enter")
            await wait_until(pilot, lambda number=number: len(engine.generates) == number)
            assert engine.generates[-1][-1].content == text and engine.knobs == Knobs()
            await answer(pilot, engine)


async def test_an_undo_that_comes_before_a_prompt_is_sent_takes_nothing_back_of_the_next_one(
    window: Window, engine: FakeEngine
) -> None:
    async with window() as (app, pilot):
        await pilot.press(*"hello")
        burst(app, "enter", "ctrl+z", *"one")
        await wait_until(pilot, lambda: len(engine.generates) == 1)
        burst(app, "2")
        box = app.screen.query_one(PromptInput)
        await wait_until(pilot, lambda: box.text.endswith("2"))
        await pilot.pause()
        assert box.text == "one2"


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


@pytest.mark.parametrize("key", ["ctrl+p", "alt+a", "f1", "alt+m", "ctrl+f"])
async def test_letters_that_come_at_once_after_escape_are_for_the_prompt(window: Window, key: str) -> None:
    async with window() as (app, pilot):
        chat = app.screen
        await pilot.press(key)
        await wait_until(pilot, lambda: app.screen.is_mounted and (app.screen is not chat or chat.focused is not chat.prompt))
        burst(app, "escape", *"abc")
        await wait_until(pilot, lambda: app.screen is chat and chat.prompt.text == "abc")


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


async def test_what_came_back_of_the_last_chat_is_on_disk_at_once(
    make_app: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that is killed in its first second loses nothing."""
    PromptHistory(prompts_file()).keep_unsent("half a thought")
    monkeypatch.setattr(ChatScreen, "_show_once_a_second", lambda self: None)
    app = make_app(journal=Journal(file))
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: app.screen.prompt.unsent == "half a thought")
        await wait_until(pilot, prompts_file().with_name("unsent.json").is_file)
