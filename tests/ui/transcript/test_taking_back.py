"""Regenerating, editing and going back lose nothing: the old answer stays until the new one has text, and can be had again."""

from pathlib import Path

import pytest
from textual.widgets import OptionList

from spectui.chat.sentences import NO_TEXT
from spectui.store.journal import Journal
from spectui.ui.dialogs.conversations import MessagesScreen
from spectui.ui.prompt.prompt_input import PromptInput
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import ends, last
from tests.ui.pilot_helpers import BOTH_ENGINES, Window, notified, wait_until
from tests.ui.screen.test_editing import exchange, turn
from tests.ui.screen_text import said

BOTH = pytest.mark.parametrize("saved", [True, False], ids=["saved", "no-history"])


def texts(file: Path) -> list[str]:
    return [each.text for each in last(file).messages]


@BOTH
@BOTH_ENGINES
async def test_a_regenerated_reply_that_ends_without_text_leaves_the_one_before(
    window: Window, engine: FakeEngine, file: Path, saved: bool
) -> None:
    async with window(journal=Journal(file if saved else None)) as (app, pilot):
        await exchange(pilot, engine, "one", "the old answer")
        for end in ("stopped", "failed", "empty"):
            await pilot.press("ctrl+r")
            await wait_until(pilot, lambda: engine.replying)
            assert "the old answer" in said(app), "until the new one has text"
            engine.read_prompt(7, 7)
            if end == "stopped":
                await pilot.press("escape")
            elif end == "failed":
                engine.fail("It broke.")
            else:
                engine.emit_round(plain="")
                engine.finish()
            await wait_until(pilot, lambda: app.screen.session.state == "ready" and not engine.events)
            assert [each.content for each in app.screen.session.messages] == ["one", "the old answer"]
            assert said(app).count("the old answer") == 1 and said(app).count("one") == 1
        assert NO_TEXT in notified(app)
        await exchange(pilot, engine, "two", "and on")
        assert [each.content for each in engine.generates[-1]] == ["one", "the old answer", "two"]
    if saved:
        assert texts(file) == ["one", "the old answer", "two", "and on"]
        assert not last(file).others, "no branch without text"


@BOTH
async def test_an_edited_prompt_without_a_reply_is_in_the_box_again_and_what_it_replaces_is_back(
    window: Window, engine: FakeEngine, file: Path, saved: bool
) -> None:
    async with window(journal=Journal(file if saved else None)) as (app, pilot):
        await exchange(pilot, engine, "one", "first reply")
        await exchange(pilot, engine, "two", "second reply")
        before = said(app)
        box = app.screen.query_one(PromptInput)
        await pilot.press("alt+e", "alt+e", *"!", "enter")
        await wait_until(pilot, lambda: len(engine.generates) == 3)
        assert "second reply" in said(app) and "one!" in said(app)
        await pilot.press("escape")
        await wait_until(pilot, lambda: box.text == "one!")
        assert said(app) == before and app.screen.session.conversation.editing == 0
        assert [each.content for each in app.screen.session.messages] == ["one", "first reply", "two", "second reply"]
        await pilot.press("enter")
        await wait_until(pilot, lambda: len(engine.generates) == 4)
        engine.emit_round(plain="")
        engine.emit_round(plain="third reply")
        await wait_until(pilot, lambda: "third reply" in said(app))
        assert "second reply" not in said(app) and said(app).count("one!") == 1
        engine.finish()
        await wait_until(pilot, lambda: app.screen.session.state == "ready")
        await pilot.press("alt+z")
        await wait_until(pilot, lambda: said(app) == before)
        await exchange(pilot, engine, "three", "fourth reply")
    if saved:
        assert texts(file) == ["one", "first reply", "two", "second reply", "three", "fourth reply"]
        assert ends(last(file)) == ["fourth reply", "third reply"]


@BOTH
async def test_what_was_gone_back_from_is_a_branch_and_undone(
    window: Window, engine: FakeEngine, file: Path, saved: bool
) -> None:
    async with window(journal=Journal(file if saved else None)) as (app, pilot):
        await exchange(pilot, engine, "one", "first reply")
        await exchange(pilot, engine, "two", "second reply")
        before = said(app)
        await turn(pilot, "up", "up")
        await wait_until(pilot, lambda: "two" not in said(app))
        assert any("Alt+Z brings back" in each for each in notified(app))
        await pilot.press("alt+z")
        await wait_until(pilot, lambda: said(app) == before)
        await turn(pilot, "up", "up")
        await wait_until(pilot, lambda: "two" not in said(app))
        await exchange(pilot, engine, "other", "third reply")
        await pilot.press("alt+l")
        await wait_until(pilot, lambda: isinstance(app.screen, MessagesScreen))
        listed = app.screen.query_one(OptionList)
        assert listed.option_count == 5 and "second reply" in str(listed.options[4].prompt)
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: said(app) == before)
        await pilot.press("alt+z")
        await wait_until(pilot, lambda: "third reply" in said(app) and "second reply" not in said(app))
    if saved:
        assert texts(file) == ["one", "first reply", "other", "third reply"]
