"""A terminal that takes nothing for a while, and is not closed: Ctrl+S in tmux, a connection that has died."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle

import psutil
import pytest

from spectui.store.records import StoredMessage
from tests.helpers.terminal import Terminal
from tests.program.test_endings import MODEL, left_behind, replying
from tests.store.journal_helpers import last, until

pytestmark = pytest.mark.usefixtures("fresh_directories")


def kept() -> StoredMessage:
    """The last reply on disk."""
    return last().messages[-1]


def stop() -> str | None:
    """How it ended."""
    reply = kept().reply
    return reply.stop if reply is not None else None


def fill(side: int) -> int:
    """Write what no terminal shows, until nothing more is taken. How much was."""
    taken = 0
    with suppress(BlockingIOError):
        while True:
            taken += os.write(side, bytes(4096))
    return taken


@contextmanager
def stalled() -> Iterator[Terminal]:
    """A window whose terminal is full, in the middle of a reply, with more frames since than any queue shall hold."""
    with Terminal(*MODEL, module="tests.helpers.scripted") as terminal:
        replying(terminal)
        side = os.open(f"/proc/{terminal.child.pid}/fd/0", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        fill(side)
        words = len(kept().text.split())
        widths = cycle([110] * 10 + [120] * 10)

        def gone_on() -> bool:
            terminal.child.setwinsize(40, next(widths))  # the window is drawn anew
            return len(kept().text.split()) > words + 600

        until(gone_on)
        terminal.child.setwinsize(40, 120)
        assert fill(side) == 0
        os.close(side)
        yield terminal


def test_a_signal_ends_it_and_the_terminal_is_restored_when_it_goes_on() -> None:
    with stalled() as terminal:
        (watchdog,) = psutil.Process(terminal.child.pid).children()
        os.kill(terminal.child.pid, signal.SIGTERM)
        until(lambda: not terminal.child.isalive())
        assert terminal.child.exitstatus == 128 + signal.SIGTERM
        assert stop() == "cancelled"
        assert left_behind() == []
        while terminal.read(0.5):
            pass
        watchdog.wait(120)
        while terminal.read(0.1):
            pass
        terminal.restored()
        assert "died" not in terminal.text


def test_the_whole_window_is_drawn_when_it_goes_on() -> None:
    with stalled() as terminal:
        before = len(terminal.raw)
        terminal.press("escape")
        until(lambda: stop() == "cancelled")
        terminal.type("another, short\r")
        until(lambda: stop() == "eos")
        last_said = "0 - 1 - 2 - 3 - 4 - 5 - 6 - 7 - 8 - 9 -"
        terminal.wait(
            "what is now", lambda: last_said in terminal.text.partition("another, short")[2] and "ctx " in terminal.text
        )
        terminal.quiet()
        assert len(terminal.raw) - before < 800_000, "some thirty windows wait for the terminal, and no more"

        def chat() -> list[str]:
            return [line[:68] for line in terminal.text.splitlines()]

        seen = chat()
        assert any("0 - 1 - 2 - 3" in line for line in seen), "the reply that nobody has seen being written"
        assert terminal.modes()[1049] and terminal.modes()[1003] and terminal.modes()[2004]
        os.kill(terminal.child.pid, signal.SIGCONT)
        terminal.wait("the window anew", lambda: terminal.raw.count(b"\x1b[?1049h") == 2)
        terminal.wait("the same", lambda: chat() == seen)
        terminal.leave()
