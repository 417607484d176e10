"""What is drawn change by change is what would be drawn at once."""

from __future__ import annotations

from typing import Any

import pyte
import pytest
from textual._compositor import Compositor
from textual.app import App
from textual.pilot import Pilot
from textual.widget import Widget

from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.pages.rounds import RoundsPage
from spectui.ui.dashboard.panel import PAGES
from spectui.ui.textual_patches import screen
from spectui.ui.textual_patches.compositor import Changes
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, Window, ask, hold_cursor, load, wait_until, write_reply
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
            app.screen.view.show_figures()
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
    screen.view.show_figures()
    await pilot.pause()
    patch.setattr(screen, "_figures_due", figures_due)
    rendered: list[tuple[Widget, int]] = []
    for widget in (screen, *screen.walk_children()):
        before = widget.render_lines
        patch.setattr(
            widget, "render_lines", lambda crop, w=widget, b=before: rendered.append((w, crop.height)) or b(crop)
        )
    engine.emit_round(" more", bonus=" text")
    await wait_until(pilot, lambda: rendered)
    await pilot.pause()
    return rendered


async def test_a_token_has_one_row_rendered(
    make_app: Make, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_a_row_that_has_not_changed_is_the_same_strip_in_the_next_frame(
    window: Window, engine: FakeEngine
) -> None:
    async with window(size=SIZE) as (app, pilot):
        await ask(pilot, "Write add.")
        write_reply(engine)
        await wait_until(pilot, lambda: not engine.events)
        transcript = app.screen.transcript
        crop = transcript.size.with_height(4).region
        before = transcript.render_lines(crop)
        transcript.refresh()
        for old, new in zip(before, transcript.render_lines(crop), strict=True):
            assert old is new, "with the terminal's sequences, which are kept with it"


async def test_what_nobody_sees_has_nothing_arranged(
    window: Window, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    arranged: list[object] = []
    arrange = Compositor._arrange_root
    monkeypatch.setattr(Compositor, "_arrange_root", lambda *given, **how: arranged.append(1) or arrange(*given, **how))
    async with window(size=SIZE) as (app, pilot):
        page = app.screen.query_one(RoundsPage)

        def nothing_arranged() -> bool:
            """For the page, and for nothing else that had been waiting to be."""
            arranged.clear()
            page.refresh()
            app.screen._on_timer_update()
            assert page not in app.screen._dirty_widgets and app.screen.transcript.region
            return not arranged

        await wait_until(pilot, nothing_arranged)
        app.screen.panel.open_page("rounds")
        await wait_until(pilot, lambda: arranged)


async def test_a_terminal_that_takes_nothing_is_drawn_nothing(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[object] = []
    monkeypatch.setattr(App, "_display", lambda app, screen, update: drawn.append(update))
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: drawn)
        for dropped in (True, False):
            monkeypatch.setattr(app._driver, "drops_frame", lambda dropped=dropped: dropped, raising=False)
            drawn.clear()
            app._display(app.screen, None)
            assert bool(drawn) != dropped
