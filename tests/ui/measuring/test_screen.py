"""The page that measures: a real command on tiny models beside the window, whose engine has freed its own."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from textual.pilot import Pilot

from spectui.config import load
from spectui.knobs import Knobs
from spectui.measure.bench import results
from spectui.measure.bench.summary import summarise
from spectui.measure.live import View
from spectui.measure.report.tables import text
from spectui.profiles.file import ProfileFile
from spectui.ui.dialogs.questions import LineScreen
from spectui.ui.measuring.result import ResultPane
from spectui.ui.measuring.screen import PURPOSE, MeasureScreen
from spectui.ui.screen.chat import ChatScreen
from tests.fake_engine import FakeEngine
from tests.measure.bench.runs import FAST, SLOW, TARGET, a_run
from tests.measure.models import tiny_setup
from tests.ui.pilot_helpers import Window, ask, notified, paste, wait_until
from tests.ui.screen import test_disk
from tests.ui.screen_text import one_line

BENCH = summarise([a_run(TARGET, 10), a_run(FAST, 18), a_run(SLOW, 14)])


@pytest.fixture
def quick(tmp_path: Path) -> str:
    """Options of a search that takes a second."""
    (tmp_path / "prompts.txt").write_text("Hi")
    return f"-f {tmp_path / 'prompts.txt'} -n 20 --minutes 0.05 --results {tmp_path / 'runs.jsonl'}"


async def opened(pilot: Pilot[None], options: str | None = None) -> MeasureScreen:
    """The page, with these options in its box."""
    await pilot.press("alt+r")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, MeasureScreen) and pilot.app.screen.focused)
    page = pilot.app.screen
    assert isinstance(page, MeasureScreen)
    if options is not None:
        await pilot.press("ctrl+u")
        await paste(pilot, options)
    return page


async def test_a_narrow_window_says_whole_what_it_is_for(window: Window) -> None:
    async with window(size=(80, 24)) as (app, pilot):
        await opened(pilot)
        await wait_until(pilot, lambda: PURPOSE in one_line(app))


async def laid_out(pilot: Pilot[None]) -> None:
    """Wait until the result is as high as its lines: it grows at the layout after the words above it."""
    pane = pilot.app.screen.query_one(ResultPane)
    await wait_until(pilot, lambda: pane.styles.height is not None and pane.size.height == pane.styles.height.value)


async def test_a_search_fills_its_table_and_its_winner_is_used_and_saved(
    window: Window, engine: FakeEngine, tmp_path: Path, quick: str
) -> None:
    setup, profiles = tiny_setup(tmp_path), ProfileFile(tmp_path / "config.toml")
    seen: list[tuple[str, ...]] = []
    async with window(setup, size=(160, 42), profiles=profiles) as (app, pilot):
        page = await opened(pilot, quick)
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.unloads)

        def done() -> bool:
            seen.append(page.view.lines)
            return "Done. To use:" in one_line(app)

        await wait_until(pilot, done)
        await laid_out(pilot)
        assert len(set(seen)) > 2, "the table grows"
        view = page.view
        assert "target alone" in one_line(app) and any(line.startswith("The best of ") for line in view.lines)
        assert results.read(tmp_path / "runs.jsonl")
        winner = view.winner
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


async def test_escape_stops_and_keeps_what_was_measured(
    window: Window, engine: FakeEngine, tmp_path: Path, quick: str
) -> None:
    async with window(tiny_setup(tmp_path)) as (app, pilot):
        page = await opened(pilot, quick.replace("--minutes 0.05", "--minutes 100"))
        await pilot.press("enter")
        await wait_until(pilot, lambda: all(part in one_line(app) for part in ("target alone", "t/s")))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Stopped: what was measured is kept." in one_line(app))
        assert not page.running
        assert "target alone" in one_line(app) and results.read(tmp_path / "runs.jsonl")
        assert len(engine.loads) == 1, "the page is open still"
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(engine.loads) == 2)


async def test_a_measurement_that_does_not_answer_is_ended_by_a_second_escape(
    window: Window, engine: FakeEngine, tmp_path: Path, quick: str
) -> None:
    async with window(tiny_setup(tmp_path)) as (app, pilot):
        page = await opened(pilot, quick.replace("--minutes 0.05", "--minutes 100"))
        await pilot.press("enter")
        await wait_until(pilot, lambda: page.view.lines)
        (child,) = psutil.Process().children()
        child.suspend()
        await pilot.press("escape")
        await wait_until(pilot, lambda: "stopping, Esc ends it at once" in one_line(app))
        assert page.running
        await pilot.press("escape")
        await wait_until(pilot, lambda: not page.running)
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(engine.loads) == 2)


async def test_a_measurement_ends_with_the_window(
    window: Window, engine: FakeEngine, tmp_path: Path, quick: str
) -> None:
    async with window(tiny_setup(tmp_path)) as (_, pilot):
        page = await opened(pilot, quick.replace("--minutes 0.05", "--minutes 100"))
        await pilot.press("enter")
        await wait_until(pilot, lambda: page.view.lines)
        (child,) = psutil.Process().children()
    assert not child.is_running()


async def test_it_waits_until_the_models_are_freed_and_can_be_taken_back(
    window: Window, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "unload", lambda: None)  # it takes a while
    async with window(size=(120, 30)) as (app, pilot):
        page = await opened(pilot, "")
        page.view = View(("what was measured before",))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Freeing the models of the chat." in one_line(app))
        assert page.running and "measured before" not in one_line(app)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Enter begins" in one_line(app))
        assert not page.running and app.screen is page


async def test_what_cannot_be_measured_is_a_sentence(window: Window, tmp_path: Path) -> None:
    async with window(tiny_setup(tmp_path), size=(120, 30), notifications=True) as (app, pilot):
        page = await opened(pilot, "--prompts 'x")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "The options cannot be read" in one_line(app))
        assert not page.running
        await pilot.press("ctrl+u")
        await paste(pilot, "--prompts nonesuch")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "There is no prompt 'nonesuch'" in one_line(app) and not page.running)


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
        pane = page.query_one(ResultPane)
        page.view = View(tuple(text(BENCH, pane.size.width)))
        page.show_result()
        await wait_until(pilot, lambda: "model 8/0/0.4 *" in one_line(app))
        await laid_out(pilot)
        assert "n_accept" in one_line(app)


async def test_the_window_reads_and_writes_no_file_while_another_process_measures(
    window: Window, engine: FakeEngine, tmp_path: Path, quick: str
) -> None:
    test_disk.note_what_is_opened()
    config = tmp_path / "config.toml"
    config.write_text("# mine\n")
    profiles, before = ProfileFile(config), config.stat().st_size
    async with window(tiny_setup(tmp_path), profiles=profiles) as (app, pilot):
        page = await opened(pilot, quick)  # what the page imports is read once
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
