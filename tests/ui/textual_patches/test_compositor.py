"""What is drawn change by change is what would be drawn at once."""

from typing import Any

import pyte
import pytest
from textual._compositor import Compositor
from textual.pilot import Pilot
from textual.widget import Widget

from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.panel import PAGES
from spectui.ui.textual_patches import screen
from spectui.ui.textual_patches.screen import Changes
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, ask, hold_cursor, load, wait_until, write_reply
from tests.ui.screen_text import compositor

SIZE = (120, 40)


class Painted:
    """A terminal that shows what an application draws, and counts what was not the whole window."""

    def __init__(self, app: SpectuiApp) -> None:
        self._app = app
        self._screen = pyte.Screen(*SIZE)
        self.partial = 0
        app._display = self._display  # type: ignore[method-assign]

    def _display(self, screen: object, update: Any) -> None:
        if update is not None:
            self.partial += isinstance(update, Changes)
            self._feed(self._screen, update)

    def _feed(self, screen: pyte.Screen, update: Any) -> None:
        pyte.Stream(screen).feed(update.render_segments(self._app.console).replace("\n", "\r\n"))

    async def compare(self, pilot: Pilot[None]) -> None:
        """Every cell is what the whole window, drawn at once, has there."""
        await pilot.pause()
        whole = pyte.Screen(*SIZE)
        self._feed(whole, compositor(self._app).render_full_update())
        assert self._screen.display == whole.display
        assert self._screen.buffer == whole.buffer, "colours too"


async def test_what_is_drawn_change_by_change_is_the_window(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    painted = Painted(app)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        hold_cursor(app)
        await load(pilot, engine)
        await ask(pilot, "Write add.")
        app.screen.notify("\n".join(["over the text and the panel"] * 30), timeout=600)
        for page in PAGES:
            app.screen.panel.open_page(page)
            write_reply(engine)
            await wait_until(pilot, lambda: not engine.events)
            app.screen.show_figures()
            await painted.compare(pilot)
        app.clear_notifications()
        for keys in (("alt+1", "f3"), ("f4", "left"), ("escape", "ctrl+p"), ("a", "escape"), ("x", "f1"), ("f1", "f6")):
            await pilot.press(*keys)
            write_reply(engine)
            await wait_until(pilot, lambda: not engine.events)
            await painted.compare(pilot)
        assert painted.partial > 10


async def rendered_for_a_token(
    pilot: Pilot[None], engine: FakeEngine, patch: pytest.MonkeyPatch, figures_due: float = float("inf")
) -> list[tuple[Widget, int]]:
    """How many rows widgets render for a token, widget by widget."""
    screen = pilot.app.screen
    hold_cursor(pilot.app)
    await load(pilot, engine)
    await ask(pilot, "Write add.")
    write_reply(engine)
    await wait_until(pilot, lambda: not engine.events)
    screen.show_figures()
    await pilot.pause()
    patch.setattr(screen, "_figures_due", figures_due)
    rendered: list[tuple[Widget, int]] = []
    for widget in (screen, *screen.walk_children()):
        before = widget.render_lines
        patch.setattr(widget, "render_lines", lambda crop, w=widget, b=before: rendered.append((w, crop.height)) or b(crop))
    engine.emit_round(" more", bonus=" text")
    await wait_until(pilot, lambda: rendered)
    await pilot.pause()
    return rendered


async def test_a_token_has_one_row_rendered(make_app: Make, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make_app().run_test(size=SIZE) as pilot:
        rendered = await rendered_for_a_token(pilot, engine, monkeypatch)
        assert rendered == [(pilot.app.screen.transcript, 1)], "and nothing behind it"


async def test_figures_are_rendered_without_what_is_behind_them(
    make_app: Make, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_app().run_test(size=SIZE) as pilot:
        rendered = await rendered_for_a_token(pilot, engine, monkeypatch, figures_due=0.0)
        assert len(rendered) > 2
        assert [widget for widget, _ in rendered if any(each.display for each in widget.children)] == []


async def test_textual_alone_renders_whole_widgets_for_a_row(
    make_app: Make, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "ChangesCompositor", Compositor)
    async with make_app().run_test(size=SIZE) as pilot:
        rendered = await rendered_for_a_token(pilot, engine, monkeypatch)
        assert max(rows for _, rows in rendered) > 20, "or else the patch can go"
