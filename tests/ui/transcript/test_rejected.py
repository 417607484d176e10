"""Rejected drafts: a key shows them where they stood, and nothing that leaves the window as text has them."""

from pathlib import Path

import pytest

from spectui.store.journal import Journal
from spectui.ui.dialogs.questions import LineScreen
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import last
from tests.ui.pilot_helpers import Window, answer, ask, wait_until
from tests.ui.screen_text import REPLY, screen_text

WITH_REJECTEDS = "   def add(a, b):\n        pass⏎return a + b"


async def test_seen_they_are_neither_copied_nor_saved_nor_exported_nor_sent(
    window: Window, engine: FakeEngine, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with window(journal=Journal(file), size=(120, 40)) as (app, pilot):
        await pilot.press("f3")
        await ask(pilot, "add two")
        await answer(pilot, engine)
        transcript = app.screen.query_one(Transcript)

        def drawn() -> str:
            return "\n".join(line[: transcript.size.width].rstrip() for line in screen_text(app).splitlines())

        await wait_until(pilot, lambda: WITH_REJECTEDS in drawn())
        top = drawn().splitlines().index("   def add(a, b):") - transcript.region.y
        await pilot.mouse_down(transcript, offset=(3, top))
        await pilot.hover(transcript, offset=(40, top + 1))
        await pilot.mouse_up(transcript, offset=(40, top + 1))
        await pilot.press("ctrl+c")
        assert app.clipboard == REPLY.rstrip("\n")
        await pilot.press("alt+x")
        await wait_until(pilot, lambda: isinstance(app.screen, LineScreen))
        await pilot.press("enter")
        exported = tmp_path / "add-two.md"
        await wait_until(pilot, lambda: exported.exists() and exported.read_text().endswith(f"## Reply\n\n{REPLY}"))
        await pilot.click("#prompt")
        await ask(pilot, "more")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
        assert engine.generates[1][1].content == REPLY
        await pilot.press("f3")
        await wait_until(pilot, lambda: "pass" not in drawn())
    assert last(file).messages[1].text == REPLY


async def test_one_without_a_text_is_seen_too(window: Window, engine: FakeEngine) -> None:
    async with window(size=(120, 40)) as (app, pilot):
        await ask(pilot, "go")
        engine.emit_round("one", correction=" two", rejected=[""])
        await wait_until(pilot, lambda: "one two" in screen_text(app))
        await pilot.press("f3")
        await wait_until(pilot, lambda: "one∅ two" in screen_text(app))
