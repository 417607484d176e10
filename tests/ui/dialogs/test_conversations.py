"""The list of conversations: found, opened, renamed, deleted, by keys and by mouse."""

import sqlite3
from pathlib import Path
from threading import Event

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from spectui.store import library
from spectui.store.journal import Journal
from spectui.store.records import Summary
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs.conversations import ConversationsScreen
from spectui.ui.dialogs.questions import ConfirmScreen, LineScreen
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.transcript.document import INDENT
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import exchange, some_rounds
from tests.ui.pilot_helpers import BOTH_ENGINES, Make, Window, ask, burst, notified, paste, wait_until, write_reply
from tests.ui.screen_text import said

EVIL = "\x1b]0;owned\x07[red]x[/red]"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three conversations, `third` the latest."""
    file = tmp_path / "conversations.db"
    journal = Journal(file)
    for title in ("first", "second", "third"):
        journal.clear()
        exchange(journal, f"{title} question", some_rounds())
        journal.flush()
    journal.close()
    return file


def lines(app: SpectuiApp) -> list[str]:
    return [str(option.prompt) for option in app.screen.query_one(OptionList).options]


async def listed(pilot: Pilot[None], number: int) -> None:
    app = pilot.app
    await wait_until(pilot, lambda: isinstance(app.screen, ConversationsScreen))
    await wait_until(pilot, lambda: app.screen.query_one(OptionList).option_count == number)


def chat(app: SpectuiApp) -> ChatScreen:
    (screen,) = (screen for screen in app.screen_stack if isinstance(screen, ChatScreen))
    return screen


async def test_chats_stand_beside_the_text_where_there_is_room(window: Window, engine: FakeEngine, file: Path) -> None:
    async with window(journal=Journal(file), size=(170, 45)) as (app, pilot):
        pane = app.screen.chats

        def titles() -> list[str]:
            return [str(option.prompt) for option in pane.options]

        await wait_until(pilot, lambda: titles() == ["  third question", "  second question", "  first question"])
        assert app.screen.transcript.size.width - INDENT - 1 <= 100 and app.screen.panel.region.right == 170
        await pilot.click(pane, offset=(5, 2))
        await wait_until(pilot, lambda: "second question" in said(app))
        await wait_until(pilot, lambda: titles()[1] == "▸ second question" and app.screen.prompt.has_focus)
        await pilot.press("f12")
        await wait_until(pilot, lambda: not pane.is_on_screen)
        assert app.screen.transcript.size.width - INDENT - 1 == 100, "the panel has the rest"
        await pilot.press("f12")
        await wait_until(pilot, lambda: pane.is_on_screen)
        await pilot.resize_terminal(149, 45)
        await wait_until(pilot, lambda: not pane.is_on_screen)
        await pilot.press("f12")
        await listed(pilot, 3)


@pytest.mark.parametrize("size", [(120, 40), (20, 5)])
async def test_the_latest_is_first_and_opens(window: Window, engine: FakeEngine, file: Path, size: tuple[int, int]) -> None:
    async with window(journal=Journal(file), size=size) as (app, pilot):
        await pilot.press("f12")
        await listed(pilot, 3)
        assert ["third" in line for line in lines(app)] == [True, False, False]
        await pilot.press("down", "down", "enter")
        await wait_until(pilot, lambda: "first question" in said(app))
        assert isinstance(app.screen, ChatScreen)
        await ask(pilot, "more")
        await wait_until(pilot, lambda: engine.generates)
        assert [message.content for message in engine.generates[0]][1::2] == ["first question", "more"]
    assert len(library.summaries(file)) == 3, "it went on in the same conversation"


async def test_the_search_finds_what_was_said_and_shows_the_words_around_it(make_app: Make, file: Path) -> None:
    journal = Journal(file)
    exchange(journal, "so " * 20 + "the Zèbra runs " + "on " * 40, some_rounds())
    journal.close()
    library.rename(file, library.summaries(file)[0].id, EVIL)
    app = make_app(journal=Journal(file))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f12")
        await listed(pilot, 4)
        assert "]0;owned[red]x[/red]" in lines(app)[0] and "\x1b" not in lines(app)[0]
        await paste(pilot, "zebra")
        await listed(pilot, 1)
        assert "\n      …so so so so so so so so so the Zèbra runs on on" in lines(app)[0] and lines(app)[0].endswith("…")
        await pilot.press("x")
        await listed(pilot, 0)
        await pilot.press("enter")
        assert isinstance(app.screen, ConversationsScreen), "nothing to open"
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(app.screen, ChatScreen))


async def test_enter_waits_for_the_list_of_what_was_typed(window: Window, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched, found = library.summaries, Event()

    def slow(file: Path, words: str = "") -> list[Summary]:
        if words:
            assert found.wait(60)
        return searched(file, words)

    monkeypatch.setattr(library, "summaries", slow)
    async with window(journal=Journal(file)) as (app, pilot):
        await pilot.press("f12")
        await listed(pilot, 3)
        window_of_chats = app.screen
        burst(app, *"first", "enter", "enter")
        await wait_until(pilot, lambda: window_of_chats.query_one(Input).value == "first")
        await pilot.pause()
        assert app.screen is window_of_chats, "nothing is opened by the old list"
        found.set()
        await wait_until(pilot, lambda: "first question" in said(app))
        assert isinstance(app.screen, ChatScreen)


async def test_a_conversation_is_renamed_and_after_a_question_deleted(make_app: Make, file: Path) -> None:
    app = make_app(journal=Journal(file))
    async with app.run_test() as pilot:
        await pilot.press("f12")
        await listed(pilot, 3)
        await pilot.press("f2")
        await wait_until(pilot, lambda: isinstance(app.screen, LineScreen))
        app.screen.query_one(Input).value = "Tea"
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, ConversationsScreen) and "Tea" in lines(app)[0])
        assert library.summaries(file)[0].title == "Tea"
        await pilot.press("ctrl+d")
        await wait_until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("enter", "escape")
        await listed(pilot, 3)
        assert len(library.summaries(file)) == 3
        await pilot.press("ctrl+d")
        await wait_until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await listed(pilot, 2)
    assert [summary.title for summary in library.summaries(file)] == ["second question", "first question"]


@BOTH_ENGINES
async def test_deleting_the_open_one_leaves_no_trace(window: Window, engine: FakeEngine, file: Path) -> None:
    async with window(journal=Journal(file)) as (app, pilot):
        await ask(pilot, "secret")
        await wait_until(pilot, lambda: engine.generates)
        write_reply(engine)
        await pilot.press("f12")
        await listed(pilot, 4)
        assert "▸" in lines(app)[0] and "secret" in lines(app)[0]
        await pilot.press("ctrl+d")
        await wait_until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await listed(pilot, 3)
        assert said(app) == "" and engine.stops == 1
        await pilot.press("escape", "up")
        assert "secret" not in chat(app).prompt.text, "and it is brought back no more"
    with sqlite3.connect(file) as connection:
        (orphans,) = connection.execute(
            "SELECT count(*) FROM message WHERE conversation NOT IN (SELECT id FROM conversation)"
        ).fetchone()
        (chunks,) = connection.execute("SELECT count(*) FROM chunk WHERE message NOT IN (SELECT id FROM message)").fetchone()
    assert orphans == chunks == 0


async def test_no_history_no_list(make_app: Make) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.press("f12")
        await wait_until(pilot, lambda: notified(app))
        assert isinstance(app.screen, ChatScreen)
