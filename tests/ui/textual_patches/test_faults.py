"""Textual alone still has the faults that spectui works around: where one of these fails, what works around it can go."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from itertools import count

import pytest
from textual import _time, events
from textual._xterm_parser import XTermParser
from textual.app import App, ComposeResult
from textual.css.stylesheet import Stylesheet
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread
from textual.screen import ModalScreen
from textual.widgets import OptionList, TextArea

from spectui.ui.textual_patches.app import TerminalApp
from tests.ui.pilot_helpers import burst, wait_until


def keys(text: str) -> list[str]:
    return [event.key for event in XTermParser().feed(text) if isinstance(event, events.Key)]


def test_a_paste_presses_keys() -> None:
    assert keys("\x1b[200~a\x1b[Ab\x1b[201~")


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


def test_alt_with_a_digit_is_a_sign() -> None:
    assert keys("\x1b1") != ["alt+1"]


def test_a_terminal_that_takes_nothing_stops_who_writes() -> None:
    writer = WriterThread(io.StringIO())  # type: ignore[arg-type]
    for _ in range(MAX_QUEUED_WRITES):
        writer.write("a")
    one_more = threading.Thread(target=writer.write, args=("b",))
    one_more.start()
    one_more.join(0.1)
    assert one_more.is_alive()
    writer.start()
    one_more.join()
    writer.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="another driver")
def test_a_closed_terminal_is_read_again_and_again() -> None:
    from textual.drivers.linux_driver import LinuxDriver

    class Looks:
        """An event that is set after a thousand looks."""

        number = 0

        def is_set(self) -> bool:
            self.number += 1
            return self.number > 1000

    class Closed(LinuxDriver):
        _debug = False

        def __init__(self, terminal: int) -> None:
            self.fileno, self.exit_event = terminal, looks  # type: ignore[assignment]

    looks = Looks()
    terminal, other = os.pipe()
    os.close(other)
    try:
        Closed(terminal).run_input_thread()
    finally:
        os.close(terminal)
    assert looks.number > 1000


@pytest.mark.skipif(sys.platform == "win32", reason="another driver")
def test_it_stops_without_a_shell_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from textual.drivers.linux_driver import LinuxDriver

    class Suspending(LinuxDriver):
        def __init__(self) -> None:
            self._auto_restart = False

    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append(number))
    Suspending()._sigtstp_application()
    assert sent == [signal.SIGSTOP]


@pytest.mark.skipif(sys.platform == "win32", reason="another driver")
def test_an_exported_width_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from textual.drivers.linux_driver import LinuxDriver

    monkeypatch.setenv("COLUMNS", "123")
    assert LinuxDriver._get_terminal_size(object())[0] == 123  # type: ignore[arg-type]


def test_texts_take_escapes_to_the_terminal() -> None:
    """In a process of its own: in this one they are mended."""
    code = "from textual.content import Content; print('\\x1b' in Content('a\\x1bb').plain)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_a_style_sheet_takes_a_style_that_cannot_be_drawn() -> None:
    sheet = Stylesheet()
    sheet.add_source("Label { text-style: not; }")
    sheet.parse()


async def ended_by(app: App[None], *presses: str) -> BaseException | None:
    """What ends the app when these are pressed."""
    try:
        async with app.run_test(size=(20, 6)) as pilot:
            await pilot.press(*presses)
    except (LookupError, ValueError) as error:
        return error
    return None


async def test_page_down_in_a_list_without_lines_ends_the_app() -> None:
    class Empty(App[None]):
        CSS = "OptionList { height: 0; border: none; padding: 0; }"

        def compose(self) -> ComposeResult:
            yield OptionList("a", "b")

    assert isinstance(await ended_by(Empty(), "down", "pagedown"), KeyError)


async def test_letters_overtake_the_keys_of_a_box() -> None:
    class Box(App[None]):
        def compose(self) -> ComposeResult:
            yield TextArea()

    async with Box().run_test() as pilot:
        burst(pilot.app, *"ab", "backspace", "c")
        await wait_until(pilot, lambda: pilot.app.query_one(TextArea).text == "ab")


async def test_undo_that_takes_the_scrollbar_away_ends_the_app() -> None:
    class Box(App[None]):
        CSS = "TextArea { height: auto; max-height: 4; border: none; }"

        def compose(self) -> ComposeResult:
            yield TextArea()

        def on_mount(self) -> None:
            self.query_one(TextArea).insert("\n".join("abcdefgh"))

    assert isinstance(await ended_by(Box(), "ctrl+z"), ValueError)


async def test_a_screen_that_is_dismissed_twice_takes_the_one_behind_it_away() -> None:
    async with App[None]().run_test() as pilot:
        behind, front = ModalScreen[None](), ModalScreen[None]()
        await pilot.app.push_screen(behind)
        await pilot.app.push_screen(front)
        front.dismiss()
        front.dismiss()
        await wait_until(pilot, lambda: front not in pilot.app.screen_stack)
        await wait_until(pilot, lambda: behind not in pilot.app.screen_stack)
