"""The whole window stands there again after it was away, or after something else was on its terminal."""

import os
import signal

import psutil
import pytest

from tests.helpers.terminal import Terminal
from tests.program.test_endings import MODEL

pytestmark = pytest.mark.usefixtures("fresh_directories")

MODES = {1049: True, 25: False, 1000: True, 1003: True, 1006: True, 2004: True, 7: False}
"""Alternate screen, no cursor, mouse, pastes in brackets, no wrapping."""


def standing(terminal: Terminal) -> tuple[str, ...]:
    """What the screen shows, without the cursor and the figures of the machine."""
    return tuple(line[:68].rstrip() for line in terminal.screen.display)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
def test_after_a_stop_and_after_an_editor_that_is_not_there(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell, or what it has started, has used the terminal meanwhile, and has reset it."""
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    shell = "tests.helpers.under_a_shell"
    with Terminal(*MODEL, columns=size[0], rows=size[1], module=shell, JOBS="1") as terminal:
        terminal.wait_for_window()
        terminal.ask("short")
        terminal.wait("the reply", lambda: "9 -" in terminal.text and "▌bonus 10" in terminal.text)
        process = terminal.program
        for way in ("suspended", "stopped", "a list lies over the chat"):
            if way.startswith("a list"):
                terminal.type("\x1bOP")
                terminal.wait("the list of keys", lambda: "Filter by key" in terminal.text)
            terminal.quiet()
            seen = standing(terminal)
            if way == "suspended":
                terminal.press("ctrl+z")
            else:
                os.kill(process.pid, signal.SIGSTOP)
            terminal.wait("the stop", lambda: process.status() == psutil.STATUS_STOPPED)
            terminal.quiet()
            terminal.screen.reset()
            terminal.raw.clear()
            os.kill(process.pid, signal.SIGCONT)
            terminal.wait(f"the whole window: {way}", lambda seen=seen: standing(terminal) == seen)
            assert terminal.modes().items() >= MODES.items()
        terminal.press("escape")
        terminal.wait("the chat", lambda: "Filter by key" not in terminal.text)
        terminal.quiet()
        terminal.type("\x1bo")
        terminal.wait("what is wrong", lambda: "/nowhere/editor" in terminal.text)
        terminal.type("typed on")
        terminal.wait("what is typed", lambda: "typed on" in terminal.text)
        assert terminal.modes().items() >= MODES.items()
        terminal.leave()
