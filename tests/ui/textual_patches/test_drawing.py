"""A row that did not change costs nothing in the next frame, and a terminal that takes nothing is sent none."""

from __future__ import annotations

import pytest
from textual.app import App

from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, Window, ask, wait_until, write_reply

SIZE = (120, 40)


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
