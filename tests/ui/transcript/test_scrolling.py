"""Where the transcript scrolls: it follows the end, unless a person reads further up."""

import pytest

from spectui.store.rounds.packed import PackedRounds
from spectui.ui.transcript.transcript import Transcript
from tests.fake_engine import FakeEngine
from tests.ui.pilot_helpers import Window, ask, wait_until
from tests.ui.screen.test_editing import exchange
from tests.ui.screen_text import compositor
from tests.ui.transcript.test_transcript import TranscriptApp, a_round, append, opened, rows


def scrollbar_drawn(app: TranscriptApp) -> bool:
    return app.query_one(Transcript).vertical_scrollbar in compositor(app).visible_widgets


def write_lines(transcript: Transcript, numbers: range) -> None:
    for number in numbers:
        append(transcript, [a_round(last=(f"line {number}\n", "plain"))])


async def test_it_follows_the_end_until_the_user_scrolls_up_and_again_when_back() -> None:
    async with opened((40, 10), replying=True) as (app, pilot, transcript):
        write_lines(transcript, range(30))
        assert any("line 29" in row for row in rows(transcript))
        await wait_until(pilot, lambda: not scrollbar_drawn(app))
        transcript.scroll_up(animate=False)
        await wait_until(pilot, lambda: scrollbar_drawn(app))
        stands = rows(transcript)
        write_lines(transcript, range(30, 40))
        await pilot.pause()
        assert rows(transcript) == stands
        transcript.scroll_end(animate=False)
        await wait_until(pilot, lambda: any("line 39" in row for row in rows(transcript)))
        append(transcript, [a_round(last=("line 40\n", "plain"))])
        assert any("line 40" in row for row in rows(transcript))
        await pilot.resize_terminal(40, 6)
        await wait_until(pilot, lambda: transcript.size.height == 6 and any("line 40" in row for row in rows(transcript)))


async def test_a_scrollbar_that_comes_up_stands_where_the_view_is() -> None:
    """While the view follows the end nothing is told the bar, which is hidden there."""
    async with opened((40, 10), replying=True) as (app, pilot, transcript):
        write_lines(transcript, range(50))
        await wait_until(pilot, lambda: not scrollbar_drawn(app))
        write_lines(transcript, range(50, 100))
        bar = transcript.vertical_scrollbar
        transcript.scroll_to(y=30, animate=False)
        await wait_until(pilot, lambda: scrollbar_drawn(app))
        assert (bar.position, bar.window_size) == (30, 10)
        assert bar.window_virtual_size == transcript.virtual_size.height > 100
        append(transcript, [a_round(last=("and\none\nmore", "plain"))])
        assert (bar.position, bar.window_virtual_size) == (30, transcript.virtual_size.height)


async def test_a_row_at_the_end_costs_no_turn_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened((40, 10), replying=True) as (app, pilot, transcript):
        append(transcript, [a_round(last=("line\n" * 30, "plain"))])
        await wait_until(pilot, lambda: not scrollbar_drawn(app))
        posted: list[object] = []
        with monkeypatch.context() as patch:
            for widget in (transcript, transcript.vertical_scrollbar):
                patch.setattr(widget, "post_message", lambda message: posted.append(message) or True)
            append(transcript, [a_round(last=("line\n", "plain"))])
        assert transcript.scroll_y == transcript.max_scroll_y
        assert not posted


async def test_page_down_at_the_end_does_not_lose_the_end() -> None:
    async with opened((40, 10)) as (_, pilot, transcript):
        transcript.focus()
        transcript.start_reply("qwen", 0, PackedRounds())
        for number in range(60):
            append(transcript, [a_round(last=(f"line {number}\n", "plain"))])
            if number in (3, 30):
                await pilot.press("pagedown", "up" if number == 3 else "down")
        assert any("line 59" in row for row in rows(transcript))


async def test_the_view_follows_what_a_person_sends(window: Window, engine: FakeEngine) -> None:
    async with window() as (app, pilot):
        transcript = app.screen.transcript
        await exchange(pilot, engine, "one", "line\n" * 60)
        await pilot.press("pageup")
        await wait_until(pilot, lambda: transcript.scroll_y < transcript.max_scroll_y)
        await ask(pilot, "where am I?")
        await wait_until(pilot, lambda: engine.replying and transcript.scroll_y == transcript.max_scroll_y)
        engine.emit_round(plain="line\n" * 60)
        await wait_until(pilot, lambda: not engine.events)
        await pilot.press("pageup")
        await ask(pilot, "sent by itself, later")
        above = transcript.scroll_target_y
        engine.finish()
        await wait_until(pilot, lambda: len(engine.generates) == 3)
        engine.emit_round(plain="line\n" * 60)
        engine.finish()
        await wait_until(pilot, lambda: not engine.events)
        assert transcript.scroll_target_y == above < transcript.max_scroll_y, "a person reads there"
        await pilot.press("pageup", "ctrl+r")
        await wait_until(pilot, lambda: engine.replying and transcript.scroll_y == transcript.max_scroll_y)
