"""Pictures of the main states in each theme and size, as text. `pytest --snapshot-update` takes them anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.pilot import Pilot
from textual.widgets import Input, Label

from spectui.knobs import Knobs, Setup
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import summarise
from spectui.measure.live import LiveSearch
from spectui.ui.app import SpectuiApp
from spectui.ui.measuring.screen import MeasureScreen
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen.chat import ChatScreen
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.generators import pictures
from tests.measure.bench.runs import DRAFT, TARGET, a_run
from tests.ui.dialogs.catalogues import HEADERS, Known, listed
from tests.ui.pilot_helpers import THEMES, answer, ask, hold_cursor, load, wait_until, write_reply
from tests.ui.snapshots import picture, pictured

SPEEDS = {
    TARGET: 16.3, Setting(): 28.6, DRAFT: 45.1,
    Setting("model", "fixed", 4, 0, 0.4): 22.9, Setting("model", "fixed", 4, 0, 0.75): 23.4,
    Setting("model", "fixed", 8, 0, 0.4): 24.1, Setting("model", "fixed", 8, 0, 0.75): 26.2,
    Setting("model", "fixed", 16, 0, 0.4): 17.5, Setting("model", "fixed", 16, 0, 0.75): 25.0,
}  # fmt: skip
BENCH = summarise(
    [
        a_run(setting, speed * (1 + number / 50), number, prompt)
        for setting, speed in SPEEDS.items()
        for number in range(2)
        for prompt in ("python", "story")
    ]
)

SIZES = [(80, 24), (120, 40), (200, 60)]
STYLED = (120, 40)
THEME_NAMES = sorted(path.stem for path in THEMES.glob("*.toml"))
Scene = Callable[[Pilot[None], FakeEngine], Awaitable[None]]


class TextFile(SingleFileSnapshotExtension):
    """A picture is a file of text."""

    _write_mode = WriteMode.TEXT
    _file_extension = "txt"


async def empty(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)


async def streaming(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)
    await ask(pilot, "Write add.")
    write_reply(engine)
    await wait_until(pilot, lambda: not engine.events)


async def rejected(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)
    await ask(pilot, "Write add.")
    await answer(pilot, engine)
    await pilot.press("f3")


async def inspecting(pilot: Pilot[None], engine: FakeEngine) -> None:
    await streaming(pilot, engine)
    await pilot.press("alt+2", "f4", "left")


async def comparing(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)
    await ask(pilot, "Write add.")
    await answer(pilot, engine)
    await pilot.press("f5")
    await wait_until(pilot, lambda: len(engine.generates) == 2)
    for plain in ("def", " sub"):
        engine.emit_round(plain=plain, seconds=0.1)
    engine.finish()


async def choosing(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)
    await pilot.press("ctrl+l")
    await listed(pilot)
    await pilot.press("end", "up", "enter")


async def measured(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)
    await pilot.press("alt+r")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, MeasureScreen) and pilot.app.screen.focused)
    page = pilot.app.screen
    assert isinstance(page, MeasureScreen)
    page.query_one(Input).cursor_blink = False
    page.search = LiveSearch(Setup(), Knobs(), 1)
    page.search.running, page.search.summary = False, BENCH
    await wait_until(pilot, lambda: "target alone" in str(page.query_one("#result", Label).render()))


async def load_failed(pilot: Pilot[None], engine: FakeEngine) -> None:
    await wait_until(pilot, lambda: engine.loads)
    engine.fail_loading("The vocabularies differ at token 151643: '<|endoftext|>' is not '<s>'.", without_draft=True)
    await wait_until(pilot, lambda: not engine.events)


SCENES: list[Scene] = [empty, load_failed, streaming, rejected, inspecting, comparing, choosing, measured]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_picture(
    snapshot: SnapshotAssertion, make_app: Callable[..., SpectuiApp], engine: FakeEngine, size: tuple[int, int],
    scene: Scene,
) -> None:  # fmt: skip
    engine.devices = (CPU, GPU)
    app = make_app(catalogue=Known(HEADERS))
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: pilot.app.screen.query(PromptInput))
        hold_cursor(pilot.app)
        await scene(pilot, engine)
        await wait_until(pilot, lambda: not engine.events)
        chat = app.screen_stack[0]
        assert isinstance(chat, ChatScreen)
        await wait_until(pilot, lambda: not chat.transcript.stale())
        chat.show_figures()  # not when its timer happens to come round
        await pilot.pause()
        # What stands where depends on the size, how it looks on the theme: styles in one size are enough.
        seen = await pictured(pilot, THEME_NAMES) if size == STYLED else picture(app).text + "\n"
    assert seen == snapshot(extension_class=TextFile)


def test_each_picture_on_disk_has_a_test() -> None:
    """syrupy does not report unused pictures where pytest-xdist runs the tests."""
    directory = Path(__file__).with_name("__snapshots__") / "test_pictures"
    names = {f"test_picture[{width}x{height}-{scene.__name__}].txt" for width, height in SIZES for scene in SCENES}
    assert {picture.name for picture in directory.iterdir()} == names


@pytest.mark.parametrize("scene", pictures.SCENES, ids=lambda scene: scene.__name__)
async def test_the_pictures_in_the_docs_are_those_of_this_window(tmp_path: Path, scene: Scene) -> None:
    """Where one is not: `make pictures` draws them anew."""
    name = f"{scene.__name__}.svg"
    await pictures.draw(tmp_path / name, scene)
    assert (tmp_path / name).read_text("utf-8") == (pictures.DOCS / name).read_text("utf-8")
