"""A row that did not change costs nothing in the next frame, a terminal that takes nothing is sent none, no timer is lost."""

import asyncio
from itertools import count

import pytest
from textual import _time
from textual.app import App

from spectui.ui.textual_patches.app import TerminalApp
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Make, Window, ask, wait_until, write_reply

SIZE = (120, 40)


async def test_a_row_that_has_not_changed_is_the_same_strip_in_the_next_frame(window: Window, engine: FakeEngine) -> None:
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


@pytest.mark.parametrize(("kind", "called"), [(App, False), (TerminalApp, True)])
async def test_a_timer_is_lost_where_the_process_waits_just_then(
    kind: type[App[None]], called: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks, calls = _time.get_time, count(), list[int]()

    def late() -> float:
        task = asyncio.current_task()
        return clock() + (task is not None and task.get_name() == "late" and next(looks) > 0)

    monkeypatch.setattr(_time, "get_time", late)
    app = kind()
    async with app.run_test() as pilot:
        app.set_timer(0.001, lambda: calls.append(1), name="late")
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "late")
        await wait_until(pilot, task.done)
        await pilot.pause()
        assert bool(calls) is called
