"""What is drawn change by change is what would be drawn at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyte
import pytest
from textual._compositor import ChopsUpdate
from textual.pilot import Pilot

from spectui.engine.fake import FakeEngine
from spectui.ui.app import SpectuiApp
from spectui.ui.panel import PAGES
from spectui.ui.prompt_input import PromptInput
from tests.ui.driving import ask, load, wait_until, write_reply

Make = Callable[..., SpectuiApp]
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
            self.partial += isinstance(update, ChopsUpdate)
            self._feed(self._screen, update)

    def _feed(self, screen: pyte.Screen, update: Any) -> None:
        pyte.Stream(screen).feed(update.render_segments(self._app.console).replace("\n", "\r\n"))

    async def compare(self, pilot: Pilot[None]) -> None:
        """Every cell is what the whole window, drawn at once, has there."""
        await pilot.pause()
        whole = pyte.Screen(*SIZE)
        self._feed(whole, self._app.screen._compositor.render_full_update())
        assert self._screen.display == whole.display
        assert self._screen.buffer == whole.buffer, "colours too"


async def test_what_is_drawn_change_by_change_is_the_window(make_app: Make, engine: FakeEngine) -> None:
    app = make_app()
    painted = Painted(app)
    async with app.run_test(size=SIZE) as pilot:
        app.screen.query_one(PromptInput).cursor_blink = False
        await load(pilot, engine)
        await ask(pilot, "Write add.")
        for page in PAGES:
            app.screen.show_page(page)
            write_reply(engine)
            await wait_until(pilot, lambda: not engine.events)
            app.screen._show_figures()
            await painted.compare(pilot)
        for keys in (("alt+1", "f3"), ("f4", "left"), ("escape", "ctrl+p"), ("a", "escape"), ("x", "f1"), ("f1", "f6")):
            await pilot.press(*keys)
            write_reply(engine)
            await wait_until(pilot, lambda: not engine.events)
            await painted.compare(pilot)
        assert painted.partial > 20


async def test_a_token_asks_nobody_but_the_transcript(
    make_app: Make, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        app.screen.query_one(PromptInput).cursor_blink = False
        await load(pilot, engine)
        await ask(pilot, "Write add.")
        write_reply(engine)
        await wait_until(pilot, lambda: not engine.events)
        app.screen._show_figures()
        await pilot.pause()
        monkeypatch.setattr(app.screen, "_figures_due", float("inf"))
        asked: list[object] = []
        for widget in app.screen.walk_children():
            before = widget.render_lines
            monkeypatch.setattr(
                widget, "render_lines", lambda crop, w=widget, b=before: asked.append((w.id, crop.height)) or b(crop)
            )
        engine.emit_round(" more", bonus=" text")
        await wait_until(pilot, lambda: asked)
        await pilot.pause()
        assert asked == [("transcript", 1)], "a row of it: the round went into the last one"
