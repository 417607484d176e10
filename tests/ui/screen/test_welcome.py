"""The first window: a person who named no model is told how many there are and how to choose, and can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from spectui.engine import demo
from spectui.errors import SpectuiError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.knobs import Knobs, Setup
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs.models import ModelsScreen
from tests.fake_engine import FakeEngine
from tests.llama.ggufs import write_model
from tests.ui.pilot_helpers import PAIR, THEMES, Window, load, notified, wait_until
from tests.ui.screen_text import shown


def window(engine: FakeEngine, setup: Setup, place: Path, knobs: Knobs | None = None) -> SpectuiApp:
    return SpectuiApp(engine, setup, knobs or Knobs(), theme_directories=(THEMES,), catalogue=ModelCatalogue([place]))


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # In the one that all tests share another may have made the demo's draft.
    monkeypatch.setenv("SPECTUI_CACHE_DIR", str(tmp_path / "cache"))
    write_model(tmp_path / "large.gguf")
    write_model(tmp_path / "small.gguf")
    (tmp_path / "again.gguf").symlink_to(tmp_path / "small.gguf")
    return tmp_path


def one(pilot: Pilot[None]) -> str:
    return " ".join(shown(pilot.app).split())


async def chosen(pilot: Pilot[None], key: str) -> None:
    """Choose the first target and no draft."""
    await pilot.press(key)
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen))
    await wait_until(pilot, lambda: len(pilot.app.screen.query_one(OptionList).options) == 2)
    await pilot.press("home", "enter")
    await wait_until(pilot, lambda: len(pilot.app.screen.query_one(OptionList).options) == 3)
    await pilot.press("pageup", "enter")


@pytest.mark.parametrize("key", ["ctrl+l", "alt+m"])
@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
async def test_models_are_offered_where_there_is_none_yet(
    engine: FakeEngine, models: Path, key: str, size: tuple[int, int]
) -> None:
    app = window(engine, Setup(), models)
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: "2 models found on this machine: press Alt+M" in one(pilot))
        assert not engine.loads
        await chosen(pilot, key)
        await wait_until(pilot, lambda: engine.loads)
    assert Path(engine.loads[0].model or "").parent == models
    assert engine.loads[0].draft is None


async def test_where_there_are_none_it_says_where_to_get_some(engine: FakeEngine, tmp_path: Path) -> None:
    app = window(engine, Setup(), tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "`-hf USER/REPO` fetches one" in one(pilot))
        await pilot.press("h", "enter")
        await wait_until(pilot, lambda: notified(app))
        assert "Alt+M chooses one" in notified(app)[0]
        assert app.screen.prompt.text == "h"  # type: ignore[attr-defined]


async def test_the_demo_runs_meanwhile_and_leaves_no_knob_behind(
    engine: FakeEngine, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_packaged", lambda: Path("/demo/SmolLM2.gguf"))
    pair = demo.default_setup(Setup())
    app = window(engine, pair, models, replace(demo.demo_knobs(Knobs(), ()), temperature=0.1))
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "2 models found" in one(pilot))
        await load(pilot, engine)
        assert engine.knobs.policy == "fixed"
        await chosen(pilot, "ctrl+l")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        assert engine.knobs == Knobs(temperature=0.1)


async def test_who_has_chosen_is_offered_nothing(window: Window, models: Path) -> None:
    async with window(PAIR, catalogue=ModelCatalogue([models])) as (app, pilot):
        await pilot.pause()
        assert len(app.screen.workers) == 0
        assert "found" not in one(pilot)


def test_counting_opens_nothing(models: Path) -> None:
    (models / "small.gguf").chmod(0)
    assert ModelCatalogue([models]).count() == 2
    assert ModelCatalogue([models]).count(lambda: True) == 0


def test_without_the_demo_pair_only_the_window_can_do_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_packaged", lambda: None)
    assert demo.default_setup(Setup(), required=False) == Setup()
    with pytest.raises(SpectuiError, match="No model is given"):
        demo.default_setup(Setup())
