"""Choosing models: Ctrl+L lists the files of the machine; the target is chosen, then its draft, and both are loaded."""

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Label, OptionList

from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.header import GgufHeader
from spectui.knobs import Setup
from spectui.llama.devices.records import MemoryUse
from spectui.ui.app import SpectuiApp
from spectui.ui.dialogs.models import ModelsScreen
from spectui.ui.dialogs.questions import Plans
from spectui.ui.remembered import Remembered
from tests.fake_engine import FakeEngine
from tests.llama.ggufs import write_model
from tests.ui.dialogs.catalogues import LLAMA, Known, header
from tests.ui.pilot_helpers import PAIR, answer, ask, burst, load, paste, wait_until
from tests.ui.screen_text import screen_text

HEADERS = [
    header("target", 1_900_000_000),
    header("draft", 400_000_000),
    header("tiny", 100_000_000),
    header("llama", 800_000_000, LLAMA, architecture="llama"),
    header("mamba", 300_000_000, None, architecture="mamba"),
    header("broken", 1, None, problem="is damaged or cut short: download it again"),
]


def listed(pilot: Pilot[None]) -> list[str]:
    options = pilot.app.screen.query_one(OptionList).options
    ids = [option.id or "no draft" for option in options]
    return [Path(one).stem for one in ids if not one.startswith("pair ")]


def pointed(pilot: Pilot[None]) -> str:
    option = pilot.app.screen.query_one(OptionList).highlighted_option
    return Path((option.id if option else None) or "no draft").stem


def about(pilot: Pilot[None]) -> str:
    return str(pilot.app.screen.query_one(Label).content)


@pytest.fixture
def app(make_app: Callable[..., SpectuiApp]) -> SpectuiApp:
    return make_app(catalogue=Known(HEADERS))


async def opened(pilot: Pilot[None], engine: FakeEngine, key: str = "ctrl+l", models: int = len(HEADERS)) -> ModelsScreen:
    await load(pilot, engine)
    await pilot.press(key)
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen))
    await wait_until(pilot, lambda: len(listed(pilot)) == models)
    return pilot.app.screen  # type: ignore[return-value]


async def test_ctrl_l_chooses_target_and_draft_and_loads_them(app: SpectuiApp, engine: FakeEngine):
    async with app.run_test() as pilot:
        await opened(pilot, engine)
        assert listed(pilot) == ["draft", "llama", "mamba", "target", "tiny", "broken"]
        assert pointed(pilot) == "target"  # it is loaded
        assert "Same vocabulary, smaller: tiny, draft." in about(pilot)
        await pilot.press("up", "up", "enter")  # llama
        await wait_until(pilot, lambda: listed(pilot)[0] == "no draft")
        assert pointed(pilot) == "no draft"  # none has its vocabulary
        await pilot.press("escape", "enter")
        assert listed(pilot) == ["no draft", "tiny", "draft", "llama", "mamba", "target", "broken"]
        assert pointed(pilot) == "draft"  # it is loaded
        await pilot.press("up", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
    assert engine.loads[1] == replace(PAIR, draft="/models/tiny.gguf")


async def test_enter_takes_what_was_typed_however_quickly(app: SpectuiApp, engine: FakeEngine):
    async with app.run_test() as pilot:
        await opened(pilot, engine)
        burst(app, *"llama", "enter")
        await wait_until(pilot, lambda: listed(pilot)[0] == "no draft")
        assert pilot.app.screen.query_one(Input).value == "" and listed(pilot)[-1] == "broken", "all, for the draft"
        burst(app, "down", *"tiny", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
    assert engine.loads[1] == replace(PAIR, model="/models/llama.gguf", draft="/models/tiny.gguf")


async def test_a_line_says_what_a_model_is_and_then_whether_it_can_draft(app: SpectuiApp, engine: FakeEngine):
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, engine)
        lines = {line.split()[1]: line for line in screen_text(app).splitlines() if " MB " in line or " GB " in line}
        for told in ("800 MB", "Q8_0", "32 768", "llama 1.5B"):  # size, quantisation, context, architecture
            assert told in lines["llama"]
        assert "is damaged or cut short" in screen_text(app)
        await paste(pilot, "target")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "✓" in screen_text(app))
        rows = screen_text(app).splitlines()
        lines = {name: next(row for row in rows if f" {name} " in row) for name in ("tiny", "llama", "mamba")}
        assert "✓" in lines["tiny"] and "same vocabulary" in lines["tiny"]
        assert "~" in lines["llama"] and "it has 128000 tokens" in lines["llama"]
        assert "·" in lines["mamba"] and "has no vocabulary of text" in lines["mamba"]


async def test_the_likeliest_draft_is_proposed_for_another_target(make_app: Callable[..., SpectuiApp], engine: FakeEngine):
    app = make_app(Setup(model="/models/llama.gguf"), catalogue=Known(HEADERS))
    async with app.run_test() as pilot:
        await opened(pilot, engine)
        await paste(pilot, "target")
        await pilot.press("enter")
        assert pointed(pilot) == "tiny"
        await pilot.press("enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
    assert engine.loads[1] == Setup(model="/models/target.gguf", draft="/models/tiny.gguf")


async def test_without_a_draft(app: SpectuiApp, engine: FakeEngine):
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: engine.loads)
        engine.fail_loading("No.")
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("alt+m")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen))
        await pilot.press("escape", "ctrl+l")
        await wait_until(pilot, lambda: engine.loads == [PAIR, PAIR])  # where a load failed, it is tried again
        await opened(pilot, engine)
        await pilot.press("enter", "pageup", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 3)
    assert engine.loads[2] == replace(PAIR, draft=None)


async def test_what_cannot_be_used_says_why_and_is_not_taken(app: SpectuiApp, engine: FakeEngine):
    async with app.run_test() as pilot:
        screen = await opened(pilot, engine)
        await paste(pilot, "broken")
        assert "Is damaged or cut short" in about(pilot)
        await pilot.press("enter")
        assert listed(pilot) == ["broken"]
        await pilot.press("ctrl+u")
        await paste(pilot, "target")
        await pilot.press("enter")
        await paste(pilot, "mamba")
        assert "It has no vocabulary of text" in about(pilot)
        await pilot.press("enter")
        assert pilot.app.screen is screen
        await pilot.press("ctrl+u")
        await paste(pilot, "llama")
        assert "Translated, slower: it has 128000 tokens and the target 152000." in about(pilot)
        await pilot.press("enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
    assert engine.loads[1].draft == "/models/llama.gguf"


async def test_escape_changes_nothing_a_reply_goes_on_meanwhile_and_a_conversation_stays_with_other_models(
    app: SpectuiApp, engine: FakeEngine
):
    async with app.run_test() as pilot:
        await load(pilot, engine)
        await ask(pilot, "hello")
        await pilot.press("alt+m")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ModelsScreen))
        engine.emit_round(plain="hi")
        await wait_until(pilot, lambda: not engine.events and pointed(pilot) == "target")
        await pilot.press("enter", "escape", "escape")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, ModelsScreen))
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        assert (len(engine.loads), engine.stops) == (1, 0)
        await pilot.press("ctrl+l")
        await wait_until(pilot, lambda: isinstance(app.screen, ModelsScreen) and pointed(pilot) == "target")
        await pilot.press("enter", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
        engine.finish_loading()
        await wait_until(pilot, lambda: not engine.events)
        await ask(pilot, "and")
        assert [message.content for message in engine.generates[1]] == ["hello", "hi", "and"]


async def test_where_nothing_is_found_it_says_where_it_looked(make_app: Callable[..., SpectuiApp], engine: FakeEngine):
    async with make_app(catalogue=Known([])).run_test() as pilot:
        await opened(pilot, engine, models=0)
        await paste(pilot, "x")
        await wait_until(pilot, lambda: "type the path of a file or directory" in about(pilot))
        await pilot.press("enter")
        await paste(pilot, "/no/such")
        await wait_until(pilot, lambda: "There is no GGUF file at" in about(pilot))
    assert len(engine.loads) == 1


@pytest.mark.parametrize("kind", ["file", "directory"])
async def test_a_path_that_is_typed_is_taken(
    make_app: Callable[..., SpectuiApp], engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    directory = tmp_path / "My Models"
    directory.mkdir()
    write_model(directory / "own.gguf")
    monkeypatch.chdir(directory)
    app = make_app(catalogue=Known(HEADERS))
    async with app.run_test() as pilot:
        await opened(pilot, engine)
        await paste(pilot, str(directory / "own.gguf" if kind == "file" else directory))
        await pilot.press("enter")  # before the path was read
        await wait_until(pilot, lambda: "no draft" in listed(pilot))
        await paste(pilot, "~/no such")
        await app.screen.workers.wait_for_complete()
        await wait_until(pilot, lambda: "There is no GGUF file at" in about(pilot))
        await pilot.press(*["backspace"] * 9, "home", "enter")
        await wait_until(pilot, lambda: len(engine.loads) == 2)
    assert engine.loads[1] == replace(PAIR, model=str(directory / "own.gguf"), draft=None)


async def test_the_last_pairs_stand_on_top_before_any_search_at_the_next_start_too(
    make_app: Callable[..., SpectuiApp], engine: FakeEngine, tmp_path: Path
) -> None:
    searched, file = threading.Event(), tmp_path / "window.json"

    class Slow(ModelCatalogue):
        def scan(self, *_: object) -> Iterator[GgufHeader]:
            searched.wait(60)
            yield from ()

    pairs = []
    for name in ("one", "two"):
        write_model(tmp_path / f"{name}.gguf")
        pairs.append(replace(PAIR, model=str(tmp_path / f"{name}.gguf"), draft=None))
    for number, setup in enumerate(pairs, 1):
        async with make_app(setup, remembered=Remembered(file), catalogue=Slow()).run_test() as pilot:
            await wait_until(pilot, lambda number=number: len(engine.loads) == number)
            engine.finish_loading()
            latest = [[setup.model, None]]
            await wait_until(pilot, lambda latest=latest: Remembered(file).get("pairs", [])[:1] == latest)  # if killed now
            await pilot.press("alt+m")
            await wait_until(pilot, lambda setup=setup: f"▸ {Path(setup.model).stem}  without" in screen_text(pilot.app))
            if number == 2:
                await pilot.press("enter")
                await wait_until(pilot, lambda: engine.loads[-1] == pairs[0])
            searched.set()


async def test_names_can_do_nothing_to_the_terminal_and_are_no_markup(make_app: Callable[..., SpectuiApp], engine: FakeEngine):
    evil = "\x1b]0;owned\x07[bold]\udce9\n[@click=app.quit]"
    async with make_app(catalogue=Known([header(evil, 1, architecture="\x1b[31m")])).run_test(size=(120, 40)) as pilot:
        await opened(pilot, engine, models=1)
        await pilot.press("down")
        option = pilot.app.screen.query_one(OptionList).get_option_at_index(1)
        assert "\x1b" not in str(option.prompt) and "[bold]" in str(option.prompt)
        assert "\x1b" not in about(pilot)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "who proposes for ?]0;owned?[bold]?" in screen_text(pilot.app))
        assert "[@click=app.quit]" in screen_text(pilot.app)


async def test_what_the_models_would_take_is_said_before_they_are_chosen(
    make_app: Callable[..., SpectuiApp], engine: FakeEngine
):
    """Asked in a thread, with what is loaded now and will be freed."""
    asked: list[tuple[str, str | None]] = []

    def plan(setup: Setup, loaded: Sequence[MemoryUse]) -> str:
        assert threading.current_thread() is not threading.main_thread()
        asked.append((Path(setup.model or "").stem, setup.draft and Path(setup.draft).stem))
        assert loaded == []
        return f"CUDA0 {len(asked)}.0 of 8.0 GB. It fits."

    app = make_app(catalogue=Known(HEADERS), plan=plan)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, engine)
        await wait_until(pilot, lambda: "CUDA0 1.0 of 8.0 GB. It fits." in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "CUDA0 2.0 of 8.0 GB. It fits." in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "CUDA0 3.0 of 8.0 GB. It fits." in screen_text(app))
    assert asked == [("target", None), ("target", "draft"), ("target", None)]


async def test_what_is_chosen_for_a_moment_is_not_planned(
    make_app: Callable[..., SpectuiApp], recwarn: pytest.WarningsRecorder
) -> None:
    asked: list[Setup] = []
    first, second = Setup(model="first"), Setup(model="second")
    app = make_app()
    async with app.run_test() as pilot:
        plans = Plans(app.screen, lambda setup: asked.append(setup) or "It fits.", lambda: None)  # type: ignore[func-returns-value]
        plans.of(first)
        await wait_until(pilot, lambda: plans.of(second) == "It fits.")
    gc.collect()
    assert asked == [second]
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


async def test_the_directory_that_a_model_was_named_in_is_gone(
    make_app: Callable[..., SpectuiApp], engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    app = make_app(Setup(model="target.gguf", draft="draft.gguf"), catalogue=ModelCatalogue())
    async with app.run_test() as pilot:
        here.rmdir()
        await opened(pilot, engine, models=0)
        await paste(pilot, "x")
        await wait_until(pilot, lambda: "There is no GGUF file" in about(pilot))
        await pilot.press("escape")
        await ask(pilot, "add")
        await answer(pilot, engine)
        await pilot.press("f5")
        await wait_until(pilot, lambda: len(engine.generates) == 2)
