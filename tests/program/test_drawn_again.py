"""The whole window stands there again after it was away, or after something else was on its terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.helpers.terminal import Terminal
from tests.program.test_chat_in_a_terminal import ask, open_window
from tests.program.test_endings import MODEL, restored

pytestmark = pytest.mark.usefixtures("fresh_directories")

MODES = {1049: True, 25: False, 1000: True, 1003: True, 1006: True, 2004: True, 7: False}
"""Alternate screen, no cursor, mouse, pastes in brackets, no wrapping."""


@contextmanager
def answered(size: tuple[int, int]) -> Iterator[Terminal]:
    """A window that has answered and does nothing."""
    shell = "tests.helpers.under_a_shell"
    with Terminal(*MODEL, columns=size[0], rows=size[1], module=shell, JOBS="1") as terminal:
        open_window(terminal)
        ask(terminal, "short")
        terminal.wait("the reply", lambda: "9 -" in terminal.text and "▌bonus 10" in terminal.text)
        quiet(terminal)
        yield terminal
        terminal.press("ctrl+q")
        assert terminal.end() == 0
        restored(terminal)


def quiet(terminal: Terminal) -> None:
    while terminal.read(0.3):  # a cursor blinks each half second only
        pass


def standing(terminal: Terminal) -> tuple[str, ...]:
    """What the screen shows, without the cursor and the figures of the machine."""
    return tuple(line[:68].rstrip() for line in terminal.screen.display)


def suspended(terminal: Terminal) -> None:
    terminal.press("ctrl+z")


def stopped(terminal: Terminal) -> None:
    os.kill(terminal.program.pid, signal.SIGSTOP)


def told(terminal: Terminal) -> None:
    """The list of keys lies over the chat."""
    terminal.type("\x1bOP")
    terminal.wait("the list of keys", lambda: "Filter by key" in terminal.text)
    quiet(terminal)
    stopped(terminal)


@pytest.mark.parametrize(("stop", "size"), [(suspended, (120, 40)), (stopped, (80, 24)), (told, (80, 24))])
def test_after_a_stop(stop: Callable[[Terminal], None], size: tuple[int, int]) -> None:
    """The shell and what it has started have used the terminal meanwhile, and have reset it."""
    with answered(size) as terminal:
        process = terminal.program
        seen = standing(terminal)
        stop(terminal)
        if stop is told:
            seen = standing(terminal)
        terminal.wait("the stop", lambda: process.status() == psutil.STATUS_STOPPED)
        quiet(terminal)
        terminal.screen.reset()
        terminal.raw.clear()
        os.kill(process.pid, signal.SIGCONT)
        terminal.wait("the whole window", lambda: standing(terminal) == seen)
        assert terminal.modes().items() >= MODES.items()


def test_when_it_gets_the_focus() -> None:
    """A message to all users was written over it, or the terminal was reset."""
    with answered((120, 40)) as terminal:
        seen = standing(terminal)
        terminal.type("\x1b[O")
        quiet(terminal)
        terminal.screen.reset()
        terminal.raw.clear()
        terminal.type("\x1b[I")
        terminal.wait("the whole window", lambda: standing(terminal) == seen)
        assert terminal.modes().items() >= MODES.items()
        assert 1004 not in terminal.modes(), "tmux answers that with the focus once more"


def test_after_an_editor_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    with answered((120, 40)) as terminal:
        terminal.type("\x1bo")
        terminal.wait("what is wrong", lambda: "cannot be used" in terminal.text)
        terminal.type("typed on")
        terminal.wait("what is typed", lambda: "typed on" in terminal.text)
        assert terminal.modes().items() >= MODES.items()
