"""F1: the keys in a list that can be searched and acted on; questions; dialogs that are left before their widgets, or twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Input, Label, OptionList, TextArea

from spectui.knobs import Knobs
from spectui.profiles.file import ProfileFile
from spectui.store.journal import Journal
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs.conversations import MessagesScreen
from spectui.ui.dialogs.lists import HelpScreen
from spectui.ui.dialogs.questions import LineScreen, SystemPromptScreen
from tests.fake_engine import FakeEngine
from tests.ui.dialogs.catalogues import HEADERS, Known
from tests.ui.pilot_helpers import Window, answer, ask, burst, paste, wait_until
from tests.ui.screen_text import one_line, screen_text


def lines(app: SpectuiApp) -> list[str]:
    return [str(option.prompt) for option in app.screen.query_one(OptionList).options]


async def helped(pilot: Pilot[None]) -> None:
    app = pilot.app
    await pilot.press("f1")
    await wait_until(pilot, lambda: isinstance(app.screen, HelpScreen) and app.screen.query_one(OptionList).option_count)


@pytest.mark.parametrize("size", [(120, 40), (20, 5)])
async def test_typing_finds_a_key_and_enter_does_it(window: Window, size: tuple[int, int]) -> None:
    async with window(size=size) as (app, pilot):
        await helped(pilot)
        await paste(pilot, "colour tok")
        await wait_until(pilot, lambda: len(lines(app)) == 2)
        assert lines(app)[0] == "reading" and lines(app)[1].split()[0] == "F2"
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.screen_stack[0].transcript.show_tokens)  # type: ignore[attr-defined]
        assert not isinstance(app.screen, HelpScreen)


async def test_a_small_window_shows_a_dozen_keys_at_once_and_closes_by_three(window: Window) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        await helped(pilot)
        rows = [row for row in screen_text(app).splitlines() if row.startswith("│   ")]
        assert len(rows) >= 12 and sum(row.split()[1].startswith(("F", "Ctrl+", "Alt+")) for row in rows) >= 10
        assert not any("Super" in row for row in rows), "few keyboards have it"
        await paste(pilot, "decode the last prompt without")
        await wait_until(pilot, lambda: len(lines(app)) == 2)
        assert lines(app)[1].endswith("…")
        assert "Decode the last prompt without drafts, and run both side by side" in screen_text(app), "whole, below"
        app.screen.query_one(Input).value = "nonesuch"
        await wait_until(pilot, lambda: not lines(app))
        await pilot.press("enter", "down")
        assert isinstance(app.screen, HelpScreen), "nothing is chosen"
        for key in ("escape", "f1", "ctrl+p"):
            await pilot.press(key)
            await wait_until(pilot, lambda: not isinstance(app.screen, HelpScreen))
            await pilot.press("a")
            await helped(pilot)
        assert app.screen_stack[0].prompt.text == "aaa"  # type: ignore[attr-defined]


async def test_what_is_done_most_comes_first_until_words_name_something(window: Window, tmp_path: Path) -> None:
    profiles = ProfileFile(tmp_path / "config.toml")
    names = ["[/x]", "code [$accent]", "[V2]"]  # no markup
    for name in names:
        profiles.save(name, Knobs())
    async with window(profiles=profiles, size=(120, 40)) as (app, pilot):
        await helped(pilot)
        assert " ".join(line.split()[0] for line in lines(app)[:8]) == "most Ctrl+N Alt+M Alt+C Alt+E Ctrl+R Alt+X Alt+Z"
        assert not any("Knob: " in line or "Theme: " in line for line in lines(app)), "they are many"
        for words, bar in (("page", "Page"), ("new", "New"), ("rej", "Rejected"), ("seed", "Knob: seed")):
            app.screen.query_one(Input).value = words
            await wait_until(pilot, lambda words=words: app.screen.words == words)
            highlighted = app.screen.query_one(OptionList).highlighted_option
            assert highlighted is not None and f" {bar} " in str(highlighted.prompt)
        await pilot.press("enter")
        await wait_until(pilot, lambda: getattr(app.screen.focused, "key", "") == "seed")
        await pilot.press("ctrl+p")
        await paste(pilot, "profile:")
        await wait_until(pilot, lambda: screen_text(app).count("Profile: ") == len(names))
        assert [name for name in names if f"Profile: {name}" not in screen_text(app)] == []


async def test_keys_are_shown_as_they_are_mapped_with_the_name_to_map_and_the_screen_is_explained(window: Window) -> None:
    async with window(keymap={"rejected": "alt+f9", "send": "f11"}, size=(120, 40)) as (app, pilot):
        await pilot.press("alt+3")
        await helped(pilot)
        assert any(line.split()[:2] == ["Alt+F9", "Rejected"] for line in lines(app))
        assert not any(line.split()[:1] == ["F3"] for line in lines(app))
        assert any("F11 sends." in line for line in lines(app))
        await paste(pilot, "alt+f9")
        await wait_until(pilot, lambda: "in [ui.keys]: rejected" in screen_text(app))
        await pilot.press("ctrl+u")
        await paste(pilot, "details")
        await wait_until(pilot, lambda: "milliseconds of an average round, by what they went into" in one_line(app))
        assert "Each column is a round" not in "".join(lines(app)), "that page is not seen"


async def test_a_window_over_the_chat_has_its_own_keys(window: Window, engine: FakeEngine) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        await ask(pilot, "go")
        await answer(pilot, engine)
        await pilot.press("alt+l")
        await wait_until(pilot, lambda: isinstance(app.screen, MessagesScreen))
        await helped(pilot)
        assert any("Edit or branch" in line for line in lines(app)) and not any("Rejected" in line for line in lines(app))
        await paste(pilot, "close")
        await pilot.press("enter")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)


async def test_keys_that_come_at_once_give_one_answer_of_all_letters_before_them(window: Window) -> None:
    answers: list[str | None] = []
    async with window() as (app, pilot):
        question = LineScreen("What?", "this")
        await app.push_screen(question, answers.append)
        question.action_take()
        question.action_take()
        await wait_until(pilot, lambda: answers)
        await pilot.pause()
        assert answers == ["this"] and len(app.screen_stack) == 1
        await pilot.press("alt+y")
        await wait_until(pilot, lambda: isinstance(app.screen, SystemPromptScreen) and app.screen.focused)
        burst(app, *"brief", "ctrl+s")
        await wait_until(pilot, lambda: not isinstance(app.screen, SystemPromptScreen))
        assert app.screen.session.setup.system == "brief"


async def test_a_tiny_window_keeps_its_rows_for_the_text(window: Window) -> None:
    async with window(size=(20, 5)) as (app, pilot):
        await pilot.press("alt+y")
        await wait_until(pilot, lambda: isinstance(app.screen, SystemPromptScreen))
        await wait_until(pilot, lambda: not app.screen.query_one(Label).display)
        await wait_until(pilot, lambda: app.screen.query_one(TextArea).size.height >= 3)


SCREENS = {
    "f1": "HelpScreen", "alt+l": "MessagesScreen", "alt+m": "ModelsScreen", "alt+d": "PlacementScreen",
    "alt+y": "SystemPromptScreen", "alt+x": "LineScreen", "alt+s": "LineScreen",
    "ctrl+p": "HelpScreen", "alt+a": "HelpScreen", "f12": "ConversationsScreen",
}  # fmt: skip
"""By the key that opens them. The last may begin a new chat, which has no messages to list."""


def press(app: SpectuiApp, key: str) -> None:
    app.post_message(events.Key(key, key if len(key) == 1 else None))


async def turns(number: int) -> None:
    """Let the application do a little."""
    for _ in range(number):
        await asyncio.sleep(0)


async def come_back(app: SpectuiApp, pilot: Pilot[None]) -> None:
    """Leave whatever is open."""

    def back() -> bool:
        if len(app.screen_stack) > 1:
            press(app, "escape")
        return len(app.screen_stack) == 1

    await wait_until(pilot, back)


def parts(tmp_path: Path) -> dict[str, Any]:
    """What the screens show."""
    return {
        "journal": Journal(tmp_path / "conversations.db"), "catalogue": Known(HEADERS),
        "plan": lambda setup, loaded: "It fits.", "profiles": ProfileFile(tmp_path / "config.toml"),
    }  # fmt: skip


async def test_keys_that_come_before_the_widgets(window: Window, engine: FakeEngine, tmp_path: Path) -> None:
    """The app handles keys with priority at once, whatever the screen in front waits for: its widgets, or its first layout."""
    async with window(size=(100, 30), **parts(tmp_path)) as (app, pilot):
        await ask(pilot, "one")
        await answer(pilot, engine)
        for key in SCREENS:
            press(app, key)
            while len(app.screen_stack) == 1:
                await turns(1)
            screen = app.screen
            actions = [each.action for each in screen.BINDINGS if isinstance(each, Binding) and each.priority]
            moves = [each for each in actions if each.startswith(("move", "scroll", "turn"))]
            for action in [each for each in actions if each not in ("back", "dismiss(None)", "stop")]:
                if app.screen is screen:
                    await app.run_action(action, screen)
            for _ in range(40):
                for action in moves if app.screen is screen else ():
                    await app.run_action(action, screen)
                await turns(1)
            assert app.is_running, key
            await come_back(app, pilot)
            if engine.loading:
                engine.finish_loading()
                await wait_until(pilot, lambda: not engine.events)
