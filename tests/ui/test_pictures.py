"""Pictures of the main states in each theme and size, as text. `pytest --snapshot-update` takes them anew."""

import re
from collections.abc import Awaitable, Callable, Iterator
from itertools import groupby, product
from pathlib import Path
from string import ascii_letters
from typing import NamedTuple

import pytest
from rich.style import Style
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual._compositor import LayoutUpdate
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip

from spectui.ui.app import SpectuiApp
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen.chat import ChatScreen
from tests.fake_engine import CPU, GPU, FakeEngine
from tests.generators import pictures
from tests.generators.moving import moving
from tests.ui.dialogs.catalogues import HEADERS, Known, listed
from tests.ui.pilot_helpers import THEMES, Window, answer, ask, hold_cursor, load, raced, wait_until, write_reply
from tests.ui.screen_text import compositor

Looks = tuple[str, ...]


class Picture(NamedTuple):
    """The window's rows: their text, and a style for each cell."""

    text: str
    styles: list[list[str]]


async def pictured(pilot: Pilot[None], themes: list[str]) -> str:
    """The window's text, its cells' looks as runs of letters (`a12 b3`), and what each letter is in each theme.

    A theme that writes other text than the first fails.
    """
    pictures: list[Picture] = []
    for theme in themes:
        pilot.app.theme = theme
        await pilot.pause()
        pictures.append(picture(pilot.app))
        assert pictures[-1].text == pictures[0].text, f"{theme} writes another text"
    names = map("".join, (each for length in (1, 2) for each in product(ascii_letters, repeat=length)))
    letters: dict[Looks, str] = {}
    rows = []
    for number in range(len(pictures[0].styles)):
        looks = zip(*(each.styles[number] for each in pictures), strict=True)
        rows.append(" ".join(f"{_letter(look, letters, names)}{count}" for look, count in _runs(looks)))
    legend = [
        "\n".join([letter, *(f"    {theme}: {style}" for theme, style in zip(themes, look, strict=True))])
        for look, letter in letters.items()
    ]
    return "\n\n".join([pictures[0].text, "\n".join(rows), *legend, ""])


def picture(app: App[None]) -> Picture:
    """What the terminal shows now, with what lies under a dialog."""
    update = compositor(app).render_update(full=True, screen_stack=app._background_screens)
    assert isinstance(update, LayoutUpdate)
    strips = [Strip.join(pieces) for pieces in update.strips]
    return Picture("\n".join(strip.text.rstrip() for strip in strips), [_styles(strip) for strip in strips])


def _styles(strip: Strip) -> list[str]:
    styles: list[str] = []
    for segment in strip:
        style = segment.style or Style.null()
        seen = style.without_color + Style.from_color(style.color, style.bgcolor)  # no link, and no meta data
        styles += [str(seen)] * segment.cell_length
    return styles


def _runs(looks: Iterator[Looks]) -> Iterator[tuple[Looks, int]]:
    return ((look, len(list(run))) for look, run in groupby(looks))


def _letter(look: Looks, letters: dict[Looks, str], names: Iterator[str]) -> str:
    if look not in letters:
        letters[look] = next(names)
    return letters[look]


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
    await raced(pilot, 60.0)


async def choosing(pilot: Pilot[None], engine: FakeEngine) -> None:
    await load(pilot, engine)
    await pilot.press("ctrl+l")
    await listed(pilot)
    await pilot.press("end", *["up"] * 3, "enter")


async def load_failed(pilot: Pilot[None], engine: FakeEngine) -> None:
    await wait_until(pilot, lambda: engine.loads)
    engine.fail_loading("The vocabularies differ at token 151643: '<|endoftext|>' is not '<s>'.", without_draft=True)
    await wait_until(pilot, lambda: not engine.events)


SCENES: list[Scene] = [empty, load_failed, streaming, rejected, inspecting, comparing, choosing]
PICTURES = [
    *(pytest.param(STYLED, scene, id=f"120x40-{scene.__name__}") for scene in SCENES),
    *(
        pytest.param(size, scene, id=f"{size[0]}x{size[1]}-{scene.__name__}")
        for size in ((80, 24), (200, 60))
        for scene in (streaming, inspecting, choosing)
    ),
]
"""Each scene in one size, and in the others those whose parts are elsewhere there."""


@pytest.mark.parametrize(("size", "scene"), PICTURES)
async def test_picture(
    snapshot: SnapshotAssertion, make_app: Callable[..., SpectuiApp], engine: FakeEngine, size: tuple[int, int], scene: Scene
) -> None:
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
    names = {f"test_picture[{picture.id}].txt" for picture in PICTURES}
    assert {picture.name for picture in directory.iterdir()} == names


@pytest.mark.parametrize("scene", pictures.SCENES, ids=lambda scene: scene.__name__)
async def test_the_pictures_in_the_docs_are_those_of_this_window(tmp_path: Path, scene: Scene) -> None:
    """Where one is not: `make pictures` draws them anew."""
    name = f"{scene.__name__}.svg"
    await pictures.draw(tmp_path / name, scene)
    assert (tmp_path / name).read_text("utf-8") == (pictures.DOCS / name).read_text("utf-8")


async def test_the_picture_of_a_server_is_that_of_this_window(tmp_path: Path) -> None:
    await pictures.server(tmp_path / "server.svg")
    assert (tmp_path / "server.svg").read_text("utf-8") == (pictures.DOCS / "server.svg").read_text("utf-8")


async def test_a_moving_picture_shows_at_each_time_what_its_frame_shows(window: Window, engine: FakeEngine) -> None:
    frames = []
    async with window() as (app, pilot):
        for keys in ("a", "b", "backspace", "f1"):
            await pilot.press(keys)
            await pilot.pause()
            frames.append(app.export_screenshot(simplify=True))
    picture = moving(frames, [1.0, 0.5, 2.0, 0.5])
    for number, start in enumerate((0, 25, 37.5, 87.5)):
        assert seen(picture, start) == seen(moving([frames[number], frames[-1]], [1.0, 1.0]), 0)


def seen(picture: str, percent: float) -> set[str]:
    """The elements that are visible at this time of a moving picture."""
    hidden = set()
    for kind, steps in re.findall(r"@keyframes (k\d+)\{(.*?\})\}", picture):
        passed = [state for at, state in re.findall(r"([\d.]+)%\{visibility:(\w+)\}", steps) if float(at) <= percent]
        if passed[-1] == "hidden":
            hidden.add(kind)
    styles = dict(re.findall(r"^\.(s\d+)\{(.*)\}$", picture, re.MULTILINE))
    shown = set()
    for kind, elements in re.findall(r"<g(?: class=\"a (k\d+)(?: z)?\")?>(<(?:text|rect).*?)</g>", picture):
        if kind not in hidden:
            shown |= set(re.findall(r"<(?:text|rect).*?>(?:[^<]+</text>)?", elements))
    return {re.sub(r'class="(s\d+)"', lambda found: styles[found[1]], element) for element in shown}
