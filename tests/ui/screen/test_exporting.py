"""Export from the chat: asked where, never over another file, and the same with and without history."""

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from spectui.store.journal import Journal
from spectui.ui.dialogs.questions import ConfirmScreen, LineScreen
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Window, answer, ask, notified, wait_until


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
