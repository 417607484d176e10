"""The page that measures: a real search on tiny models beside the window, whose engine has freed its own."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Label

from spectui.config import load
from spectui.knobs import Knobs, Setup
from spectui.measure import prompts
from spectui.measure.bench.summary import Summary, summarise
from spectui.measure.live import LiveSearch
from spectui.profiles.file import ProfileFile
from spectui.ui.dialogs.questions import LineScreen
from spectui.ui.measuring.screen import PURPOSE, MeasureScreen
from spectui.ui.screen.chat import ChatScreen
from tests.fake_engine import FakeEngine
from tests.measure.bench.runs import FAST, SLOW, TARGET, a_run
from tests.measure.models import tiny_setup
from tests.ui.pilot_helpers import Window, ask, notified, paste, wait_until
from tests.ui.screen import test_disk
from tests.ui.screen_text import one_line

BENCH = summarise([a_run(TARGET, 10), a_run(FAST, 18), a_run(SLOW, 14)])


QUICK = "0.05"
"""Minutes of a search that takes seconds."""


@pytest.fixture(autouse=True)
def one_prompt(fresh_directories: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search of these tests has one short prompt."""
    monkeypatch.setattr(prompts, "USUAL", ("toaster",))
    monkeypatch.setattr(prompts, "PREDICT", 20)


async def opened(pilot: Pilot[None], minutes: str | None = None) -> MeasureScreen:
    """The page, with these minutes in its box."""
    await pilot.press("alt+r")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, MeasureScreen) and pilot.app.screen.focused)
    page = pilot.app.screen
    assert isinstance(page, MeasureScreen)
    if minutes is not None:
        await pilot.press("ctrl+u")
        await paste(pilot, minutes)
    return page


def measured(summary: Summary) -> LiveSearch:
    """A search that has ended with these runs."""
    search = LiveSearch(Setup(), Knobs(), 1)
    search.running, search.summary = False, summary
    return search


async def test_a_narrow_window_says_whole_what_it_is_for(window: Window) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        await opened(pilot)
        await wait_until(pilot, lambda: PURPOSE in one_line(app))


async def test_a_search_fills_its_table_and_its_winner_is_used_and_saved(
    window: Window, engine: FakeEngine, tmp_path: Path
) -> None:
    setup, profiles = tiny_setup(tmp_path), ProfileFile(tmp_path / "config.toml")
    seen: set[str] = set()
    async with window(setup, size=(160, 42), profiles=profiles) as (app, pilot):
        page = await opened(pilot, QUICK)
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.unloads)

        def done() -> bool:
            seen.add(str(page.query_one("#result", Label).render()))
            return "Done. To use:" in one_line(app)

        await wait_until(pilot, done)
        assert len(seen) > 2, "the table grows"
        assert "target alone" in one_line(app) and "The best of " in one_line(app)
        winner = page.winner
        assert winner is not None and winner.knobs
        await pilot.press("alt+u")
        assert {key: getattr(engine.knobs, key) for key in winner.knobs} == winner.knobs
        assert engine.knobs.temperature == Knobs().temperature
        await pilot.press("alt+s")
        await wait_until(pilot, lambda: isinstance(app.screen, LineScreen))
        await paste(pilot, "tuned")
        await pilot.press("enter")
        await wait_until(pilot, lambda: profiles.names() == ["tuned"])
        assert profiles.load("tuned").get("drafter", Knobs().drafter) == engine.knobs.drafter
        saved = load(path=tmp_path / "config.toml", profile="tuned", environ={}).setup
        assert (saved.model, saved.draft, saved.ctx_size) == (setup.model, setup.draft, setup.ctx_size)
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(app.screen, ChatScreen))
        assert len(engine.loads) == 2 and engine.loads[1].model == setup.model and engine.loads[1].draft == setup.draft
        engine.finish_loading()
        await wait_until(pilot, lambda: app.screen.session.state == "ready")
        await opened(pilot)
        await wait_until(pilot, lambda: "To use:" in one_line(app))
        assert engine.unloads == 1


async def test_escape_stops_and_keeps_what_was_measured(window: Window, engine: FakeEngine, tmp_path: Path) -> None:
    async with window(tiny_setup(tmp_path)) as (app, pilot):
        page = await opened(pilot, "100")
        await pilot.press("enter")
        await wait_until(pilot, lambda: all(part in one_line(app) for part in ("target alone", "t/s")))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Stopped: what was measured is kept." in one_line(app))
        assert not page.running
        assert "target alone" in one_line(app)
        assert len(engine.loads) == 1, "the page is open still"
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(engine.loads) == 2)


async def test_a_measurement_that_does_not_answer_is_ended_by_a_second_escape(
    window: Window, engine: FakeEngine, tmp_path: Path
) -> None:
    async with window(tiny_setup(tmp_path)) as (app, pilot):
        page = await opened(pilot, "100")
        await pilot.press("enter")
        await wait_until(pilot, lambda: page.search is not None and page.search.summary)
        (child,) = psutil.Process().children()
        child.suspend()
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Stopping: Esc ends it at once" in one_line(app))
        assert page.running
        await pilot.press("escape")
        await wait_until(pilot, lambda: not page.running)
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(engine.loads) == 2)


async def test_a_measurement_ends_with_the_window(window: Window, engine: FakeEngine, tmp_path: Path) -> None:
    async with window(tiny_setup(tmp_path)) as (_, pilot):
        page = await opened(pilot, "100")
        await pilot.press("enter")
        await wait_until(pilot, lambda: page.search is not None and page.search.summary)
        (child,) = psutil.Process().children()
    assert not child.is_running()


async def test_it_waits_until_the_models_are_freed_and_can_be_taken_back(
    window: Window, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "unload", lambda: None)  # it takes a while
    async with window(size=(120, 30)) as (app, pilot):
        page = await opened(pilot, "5")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Freeing the models of the chat." in one_line(app))
        assert page.running
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Stopped before anything was measured." in one_line(app))
        assert not page.running and app.screen is page


async def test_what_cannot_be_measured_is_a_sentence(window: Window, tmp_path: Path) -> None:
    async with window(tiny_setup(tmp_path), size=(120, 30), notifications=True) as (app, pilot):
        page = await opened(pilot, "0")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "A search takes 0.05 to 600 minutes" in one_line(app))
        assert not page.running and page.search is None


async def test_nothing_is_freed_or_loaded_where_nothing_is_measured(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        await opened(pilot)
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(app.screen, ChatScreen))
        assert (engine.unloads, len(engine.loads)) == (0, 1)


async def test_a_reply_is_not_measured_away(window: Window, engine: FakeEngine) -> None:
    async with window(notifications=True) as (app, pilot):
        await ask(pilot, "go")
        await pilot.press("alt+r")
        await wait_until(pilot, lambda: "Esc stops the reply first" in one_line(app))
        assert isinstance(app.screen, ChatScreen) and not engine.unloads


async def test_a_prompt_waits_until_the_models_are_there_again(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        chat = app.screen
        assert isinstance(chat, ChatScreen)
        chat.session.models.unload()
        await wait_until(pilot, lambda: chat.session.models.unloaded)
        await ask(pilot, "go")
        assert not engine.generates and chat.session.waiting == ("go",)
        chat.controls.load(chat.session.setup)
        engine.finish_loading()
        await wait_until(pilot, lambda: engine.generates)


@pytest.mark.parametrize("width", [60, 78, 100, 160])
async def test_a_report_fits_the_window(window: Window, width: int) -> None:
    async with window(size=(width, 30)) as (app, pilot):
        page = await opened(pilot)
        page.search = measured(BENCH)
        await wait_until(pilot, lambda: "model 8/0/0.4 *" in one_line(app))
        result = page.query_one("#result", Label)
        assert max(map(len, str(result.render()).splitlines())) <= page.query_one(VerticalScroll).size.width


async def test_the_window_reads_and_writes_no_file_while_another_process_measures(
    window: Window, engine: FakeEngine, tmp_path: Path
) -> None:
    test_disk.note_what_is_opened()
    config = tmp_path / "config.toml"
    config.write_text("# mine\n")
    profiles, before = ProfileFile(config), config.stat().st_size
    async with window(tiny_setup(tmp_path), profiles=profiles) as (app, pilot):
        page = await opened(pilot, QUICK)  # what the page imports is read once
        test_disk.listeners.append(noted := list[str]())
        await pilot.press("enter")
        await wait_until(pilot, lambda: "To use:" in one_line(app))
        await pilot.press("alt+s")
        await wait_until(pilot, lambda: isinstance(app.screen, LineScreen))
        await paste(pilot, "my tuned")
        await pilot.press("enter")
        await wait_until(pilot, lambda: config.stat().st_size > before and app.screen is page)
        test_disk.listeners.clear()
        await wait_until(pilot, lambda: "Saved: spectui chat -P 'my tuned' starts with it." in notified(app))
    assert profiles.names() == ["my tuned"]
    assert [name for name in noted if Path(name).suffix in (".txt", ".jsonl", ".toml", ".gguf", ".json")] == []
