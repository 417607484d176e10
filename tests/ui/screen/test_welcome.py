"""The first window: a person who named no model has three ways to one, and a panel when there is one."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Event

import pytest
from textual.app import App
from textual.pilot import Pilot

from spectui.engine import demo
from spectui.errors import SpectuiError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.knobs import Knobs, Setup
from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.panel import SidePanel
from spectui.ui.dialogs.models import ModelsScreen
from spectui.ui.remembered import Remembered
from spectui.ui.screen import welcome
from spectui.ui.screen.welcome import PAIRS, Choices, fitting
from tests.fake_engine import FakeEngine
from tests.llama.ggufs import write_model
from tests.ui.dialogs.test_models import listed as models_listed
from tests.ui.pilot_helpers import PAIR, Window, notified, paste, wait_until, window_of
from tests.ui.screen_text import one_line


def window(engine: FakeEngine, place: Path, **arguments: object) -> SpectuiApp:
    return window_of(engine, Setup(), Knobs(temperature=0.1), catalogue=ModelCatalogue([place]), **arguments)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # In the one that all tests share another may have made the demo's draft.
    monkeypatch.setenv("SPECTUI_CACHE_DIR", str(tmp_path / "cache"))
    write_model(tmp_path / "large.gguf")
    write_model(tmp_path / "small.gguf")
    (tmp_path / "again.gguf").symlink_to(tmp_path / "small.gguf")
    return tmp_path


@pytest.fixture(params=[False, True], ids=["without-demo", "with-demo"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(demo, "_packaged", lambda: Path("/demo/SmolLM2.gguf") if request.param else None)
    return bool(request.param)


async def listed(pilot: Pilot[None], files: str) -> Choices:
    """Wait until it is known how many files there are."""
    await wait_until(pilot, lambda: files in one_line(pilot.app))
    return pilot.app.screen.query_one(Choices)


async def chosen(pilot: Pilot[None]) -> None:
    """Choose the first target and no draft in the list of models."""
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen))
    await wait_until(pilot, lambda: len(models_listed(pilot)) == 2)
    await pilot.press("home", "enter")
    await wait_until(pilot, lambda: len(models_listed(pilot)) == 3)
    await pilot.press("pageup", "enter")


@pytest.mark.parametrize("size", [(120, 40), (50, 12)])
async def test_enter_chooses_among_the_files_and_the_panel_comes_with_the_model(
    engine: FakeEngine, models: Path, size: tuple[int, int]
) -> None:
    app = window(engine, models)
    async with app.run_test(size=size) as pilot:
        choices = await listed(pilot, "1 choose a file 2 on this machine")
        assert choices.has_focus and choices.highlighted == 0
        assert not app.screen.query_one(SidePanel).region
        assert not engine.loads
        await pilot.press("enter")
        await chosen(pilot)
        await wait_until(pilot, lambda: engine.loads)
        assert Path(engine.loads[0].model or "").parent == models
        assert engine.loads[0].draft is None
        await wait_until(pilot, lambda: app.screen.prompt.has_focus and not choices.region)
        assert bool(app.screen.query_one(SidePanel).region) == (size[0] == 120)
        assert engine.knobs == Knobs(temperature=0.1)


@pytest.mark.parametrize(("name", "number"), [("", 2), ("large.gguf", 1)], ids=["directory", "file"])
async def test_a_path_that_is_typed_opens_the_list_of_what_is_there(
    engine: FakeEngine, models: Path, name: str, number: int
) -> None:
    app = window(engine, models / "nowhere")
    async with app.run_test(size=(100, 30)) as pilot:
        await listed(pilot, "none where other programs keep theirs")
        await paste(pilot, str(models / name))
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, ModelsScreen) and len(models_listed(pilot)) == number)
        await pilot.press("enter", "enter")
        await wait_until(pilot, lambda: engine.loads)
        assert Path(engine.loads[0].model or "").parent == models


async def test_the_model_of_the_last_time_is_named_before_any_search(engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "window.json").write_text(json.dumps({"pairs": [[str(tmp_path / "mine.gguf"), None]]}))
    app = window(engine, tmp_path, remembered=Remembered(tmp_path / "window.json"))
    async with app.run_test(size=(100, 30)) as pilot:
        await listed(pilot, "choose a file the last was mine")
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, ModelsScreen) and "mine" in one_line(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.loads)
        assert engine.loads[0].model == str(tmp_path / "mine.gguf")


async def test_text_goes_to_the_prompt_is_kept_and_why_nothing_can_be_fetched_is_said(
    engine: FakeEngine, tmp_path: Path
) -> None:
    def fetch(target: str, draft: str, progress: Callable[[int], None]) -> tuple[str, str]:
        raise SpectuiError("The hub cannot be asked.")

    app = window(engine, tmp_path, fetch=fetch)
    async with app.run_test(size=(100, 30)) as pilot:
        choices = await listed(pilot, "none where other programs keep theirs")
        await pilot.press("3", "h", "enter")
        await wait_until(pilot, lambda: notified(app))
        assert "chooses one" in notified(app)[0]
        assert app.screen.prompt.text == "3h"  # type: ignore[attr-defined]
        await pilot.press("escape")
        await wait_until(pilot, lambda: choices.has_focus)
        app.screen.prompt.text = ""  # type: ignore[attr-defined]
        await pilot.press("2", "enter")
        await wait_until(pilot, lambda: "The hub cannot be asked." in notified(app))
        assert not engine.loads


async def test_without_files_the_quickest_way_is_proposed_and_enter_in_an_empty_box_takes_it(
    engine: FakeEngine, tmp_path: Path, installed: bool
) -> None:
    fetched: list[str] = []

    def fetch(target: str, draft: str, progress: Callable[[int], None]) -> tuple[str, str]:
        fetched.append(target)
        return "/hub/target.gguf", "/hub/draft.gguf"

    app = window(engine, tmp_path, fetch=fetch)
    async with app.run_test(size=(100, 30)) as pilot:
        choices = await listed(pilot, "none where other programs keep theirs")
        assert choices.highlighted == (2 if installed else 1)
        app.screen.prompt.focus()  # type: ignore[attr-defined]
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.loads)
    if installed:
        assert demo.is_demo(engine.loads[0])
        assert engine.knobs == Knobs(temperature=0.1), "which are the chosen ones"
    else:
        assert (engine.loads[0].model, engine.loads[0].draft) == ("/hub/target.gguf", "/hub/draft.gguf")
    assert len(fetched) == (0 if installed else 1)


async def test_without_the_demo_a_recorded_chat_can_be_watched(
    engine: FakeEngine, tmp_path: Path, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[str] = []
    monkeypatch.setattr(welcome, "in_terminal", lambda lines, meanwhile: run.extend(lines))
    monkeypatch.setattr(App, "suspend", lambda app: nullcontext())
    app = window(engine, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await listed(pilot, "3 the demo" if installed else "3 watch a recorded chat")
        await pilot.press("3", "enter")
        await wait_until(pilot, lambda: run or engine.loads)
        assert [line.partition(" ")[2] for line in run] == ([] if installed else ["-m spectui replay demo"])


async def test_a_download_shows_how_far_it_is_and_can_be_stopped_and_begun_again(engine: FakeEngine, tmp_path: Path) -> None:
    more = Event()

    def fetch(target: str, draft: str, progress: Callable[[int], None]) -> tuple[str, str]:
        progress(PAIRS[-1].bytes // 2)
        assert more.wait(60)
        more.clear()
        progress(PAIRS[-1].bytes)
        return "/hub/target.gguf", "/hub/draft.gguf"

    app = window(engine, tmp_path, fetch=fetch)
    async with app.run_test(size=(100, 30)) as pilot:
        await listed(pilot, "none where")
        for stopped in (True, False):
            await pilot.press("2", "enter")
            await wait_until(pilot, lambda: "50 % of 2.3 GB" in one_line(app))
            if stopped:
                await pilot.press("escape")
            more.set()
            await wait_until(pilot, lambda stopped=stopped: notified(app) if stopped else engine.loads)
            assert [each.model for each in engine.loads] == ([] if stopped else ["/hub/target.gguf"])
    assert "The download was stopped" in notified(app)[0]


def test_the_pair_fits_the_machine() -> None:
    assert [fitting(gigabytes * 10**9).name for gigabytes in (0, 6, 8, 12, 24, 80)] == [
        f"Qwen2.5-Coder {size} and 0.5B" for size in ("1.5B", "1.5B", "7B", "7B", "14B", "14B")
    ]


async def test_who_has_chosen_is_offered_nothing(window: Window, models: Path) -> None:
    async with window(PAIR, catalogue=ModelCatalogue([models])) as (app, pilot):
        await pilot.pause()
        assert len(app.screen.workers) == 0
        assert not app.screen.query(Choices)


def test_counting_opens_nothing(models: Path) -> None:
    (models / "small.gguf").chmod(0)
    assert ModelCatalogue([models]).count() == 2
    assert ModelCatalogue([models]).count(lambda: True) == 0


def test_without_the_demo_pair_only_the_window_can_do_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_packaged", lambda: None)
    assert demo.pair(Setup()) is None
    with pytest.raises(SpectuiError, match="No model is given"):
        demo.default_setup(Setup())
