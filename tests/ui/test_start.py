"""The start of the window: what is drawn first, and done once. Its end: the exit code, and the look of the next start."""

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import RenderableType
from textual._compositor import LayoutUpdate
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets._footer import FooterKey

from spectui.knobs import Setup
from spectui.store.journal import Journal
from spectui.telemetry.monitor import Monitor
from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.panel import PAGES, SidePanel
from spectui.ui.dashboard.status import LoadingLine
from spectui.ui.remembered import Remembered
from spectui.ui.screen.chat import ChatScreen
from spectui.ui.widgets.rows import Slider
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import PAIR, Make, Window, load, wait_until
from tests.ui.screen_text import screen_text


async def test_a_narrow_window_does_not_begin_with_the_panel(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def note(app: SpectuiApp, screen: Screen[object], _: object) -> None:
        drawn.append([panel.region.width for panel in screen.query(SidePanel)])

    monkeypatch.setattr(SpectuiApp, "_display", note)
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: app.screen.query(SidePanel) and drawn)
    assert [widths for widths in drawn if widths], "some drawing has a panel"
    assert not [widths for widths in drawn if widths not in ([], [0])]


@pytest.mark.parametrize(("setup", "size"), [(PAIR, (120, 40)), (Setup(model="target.gguf"), (80, 24)), (Setup(), (20, 5))])
async def test_the_window_is_styled_once_at_its_start_and_rightly(
    setup: Setup, size: tuple[int, int], make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = []
    restyle = Screen.update_node_styles
    monkeypatch.setattr(Screen, "update_node_styles", lambda screen, animate=True: again.append(restyle(screen, animate)))
    app = make_app(setup)

    def worn() -> dict[object, object]:
        parts = [app.screen, *app.screen.walk_children()]
        return {part: (part.styles.get_rules(), part.visual_style) for part in parts}

    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: screen_text(app).strip())
        panel = app.screen.query_one(SidePanel)
        await wait_until(pilot, lambda: panel.profile.is_mounted and all(each.is_mounted for each in panel.query(Slider)))
        assert not again
        first = worn()
        restyle(app.screen, False)
        assert worn() == first


async def test_what_is_not_seen_yet_does_not_hold_up_the_first_drawing(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    polling: list[bool] = []
    monkeypatch.setattr(Monitor, "start", lambda monitor: polling.append(True))
    first: list[tuple[set[str], bool]] = []
    draw = SpectuiApp._display

    def note(app: SpectuiApp, screen: Screen[object], drawing: RenderableType | None) -> None:
        if isinstance(drawing, LayoutUpdate) and screen.query(SidePanel) and not first:
            first.append(({str(part.id) for part in screen.query_one(SidePanel).children}, bool(polling)))
        draw(app, screen, drawing)

    monkeypatch.setattr(SpectuiApp, "_display", note)
    app = make_app(monitor=Monitor())
    async with app.run_test(size=(120, 40)) as pilot:
        every_part = {"pages"}.union(*PAGES.values())
        panel = app.screen.query_one(SidePanel)
        await wait_until(pilot, lambda: {part.id for part in panel.children} == every_part and polling)
        assert first == [({"pages", *PAGES["now"]}, False)]
        await wait_until(pilot, lambda: len(panel.query("#sliders Slider")) == len(panel.sliders))
        for page, parts in PAGES.items():
            panel.show_page(page)
            assert [part.id for part in panel.children if part.display and part.id != "pages"] == list(parts)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_keys_may_come_before_the_pages_that_they_open(
    size: tuple[int, int], make_app: Make, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount_rest = SidePanel._compose_rest

    def later(panel: SidePanel) -> None: ...

    monkeypatch.setattr(SidePanel, "_compose_rest", later)
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await load(pilot, engine)
        panel = app.screen.query_one(SidePanel)
        for key in (*(f"alt+{number}" for number in range(1, 1 + len(PAGES))), "alt+0", "alt+p", "f8", "f10"):
            await pilot.press(key)
        app.screen.panel.open_knob("top_k")  # type: ignore[attr-defined]
        await pilot.press("alt+2")
        mount_rest(panel)
        await wait_until(pilot, lambda: panel.rounds.is_mounted)
        assert [part.id for part in panel.children if part.display] == ["pages", "rounds"]
        await wait_until(pilot, lambda: "each round will stand here" in screen_text(app))


@pytest.mark.parametrize("number", range(1, 5))
async def test_the_window_can_be_left_at_any_of_its_first_drawings(
    number: int, make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawings: list[object] = []
    draw = SpectuiApp._display

    def note(app: SpectuiApp, screen: Screen[object], drawing: RenderableType | None) -> None:
        draw(app, screen, drawing)
        if drawing is not None:
            drawings.append(drawing)
            if len(drawings) == number:
                app.exit(None, 129)

    monkeypatch.setattr(SpectuiApp, "_display", note)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: app.return_code is not None)
    assert app.return_code == 129


async def test_nothing_that_the_start_parsed_is_parsed_anew(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    reparse = Stylesheet.reparse
    monkeypatch.setattr(Stylesheet, "reparse", lambda sheet: parsed.append(reparse(sheet)))
    app = make_app(theme="spectui-light")
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: len(app.screen.query(FooterKey)) > 3)
        assert not parsed
        assert app.screen.styles.background == Color.parse(app.available_themes["spectui-light"].background or "")


async def test_the_collector_is_at_work_once_the_window_stands(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpectuiApp, "is_headless", False)
    gc.unfreeze()  # what `pytest_collection_finish` froze
    gc.disable()  # as `spectui chat` does
    try:
        async with make_app().run_test() as pilot:
            await wait_until(pilot, gc.isenabled)
            assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.freeze()  # as `pytest_collection_finish` did


async def test_it_may_close_before_it_has_widgets(make_app: Make) -> None:
    app = make_app()
    await app.run_async(headless=True, auto_pilot=_close)
    assert app.return_code == 129


async def test_its_first_refresh_may_come_while_it_closes(make_app: Make, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the terminal can close between the two."""
    after_refresh: list[Callable[[], object]] = []
    monkeypatch.setattr(ChatScreen, "call_after_refresh", lambda screen, callback: after_refresh.append(callback))

    def refresh(line: LoadingLine) -> None:
        while after_refresh:
            after_refresh.pop()()

    monkeypatch.setattr(LoadingLine, "on_unmount", refresh, raising=False)
    app = make_app(journal=Journal(file))

    async def close(pilot: Pilot[object]) -> None:
        await wait_until(pilot, lambda: after_refresh)
        pilot.app.exit(None, 129)

    await app.run_async(headless=True, auto_pilot=close)
    assert not after_refresh
    assert app.return_code == 129


async def _close(pilot: Pilot[object]) -> None:
    pilot.app.exit(None, 129)


async def test_tokens_panel_page_and_theme_are_as_they_were_left(window: Window, tmp_path: Path) -> None:
    file = tmp_path / "window.json"
    async with window(size=(120, 40), remembered=Remembered(file)) as (app, pilot):
        assert (app.screen.transcript.show_tokens, app.screen.panel.display) == (False, True)
        await pilot.press("f2", "alt+2", "f6")
        app.theme = "spectui-light"
        await wait_until(pilot, lambda: not app.screen.panel.display)
    async with window(size=(120, 40), remembered=Remembered(file)) as (app, pilot):
        assert (app.screen.transcript.show_tokens, app.screen.panel.display) == (True, False)
        assert (app.screen.panel.page, app.theme) == ("rounds", "spectui-light")
        await pilot.press("f2")
    async with window(size=(120, 40), remembered=Remembered(file), theme="spectui-dark") as (app, _):
        assert (app.screen.transcript.show_tokens, app.theme) == (False, "spectui-dark"), "a theme that is asked for"
    assert Remembered(file).get("theme", "") == "spectui-light"


@pytest.mark.parametrize("content", [b"", b"[", b"[1]", b'{"tokens": 3, "page": "moon", "panel": "no"}', b"\xff", b"[" * 9_000])
def test_a_damaged_file_is_as_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "window.json"
    file.write_bytes(content)
    remembered = Remembered(file)
    assert (remembered.get("tokens", False), remembered.get("panel", True)) == (False, True)


async def test_a_page_that_is_none_and_a_directory_that_takes_no_file_end_nothing(make_app: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remembered = Remembered(tmp_path / "file" / "window.json")
    remembered.set(page="moon")
    app = make_app(remembered=remembered)
    async with app.run_test(size=(120, 40)):
        assert app.screen.panel.page == "now"
    assert not app.return_code
