"""The program in a pseudo-terminal, and a terminal emulator that says what a person would see."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pexpect
import psutil
import pyte

from spectui.engine import demo
from spectui.knobs import Setup

Style = tuple[str, bool, bool]
"""Colour, bold, underscore."""

_MODES = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
KEYS = {"enter": "\r", "escape": "\x1b", "ctrl+q": "\x11", "left": "\x1b[D", "ctrl+o": "\x0f", "ctrl+s": "\x13",
        "ctrl+z": "\x1a", "alt+5": "\x1b5", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~"}  # fmt: skip


def demo_flags() -> tuple[str, ...]:
    """Flags that name the demo pair."""
    pair = demo.pair(Setup())
    assert pair is not None
    return "-m", pair.model or "", "-md", pair.draft or ""


class Terminal:
    """`spectui` with these arguments, on a screen of `columns` x `rows`. `module` is run in its place, with these
    `variables` in its environment.

    At its end, the program and all that it has started are ended.
    Not `emulated`: what it writes is taken and counted, and the screen stays empty, since emulation takes part of a core.
    """

    def __init__(
        self,
        *arguments: str,
        columns: int = 120,
        rows: int = 40,
        module: str = "spectui",
        emulated: bool = True,
        **variables: str,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.raw = bytearray()
        """All that the program has written."""
        self._stream = pyte.ByteStream(self.screen) if emulated else None
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LINES", "COLUMNS")}
        self.child: pexpect.spawn[bytes] = pexpect.spawn(
            sys.executable, ["-m", module, *arguments], dimensions=(rows, columns), timeout=None,
            env=environment | {"TERM": "xterm-256color", "COLORTERM": "truecolor"} | variables,
        )  # fmt: skip
        self.child.delaybeforesend = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        started = psutil.Process(self.child.pid).children(recursive=True) if self.child.isalive() else []
        self.child.close(force=True)
        for each in started:  # what runs in a group of its own, or is suspended, would stay
            with suppress(psutil.NoSuchProcess):
                each.kill()

    @property
    def program(self) -> psutil.Process:
        """The program, where it is the job of a shell (`under_a_shell`)."""
        return psutil.Process(self.child.pid).children()[0]

    @property
    def text(self) -> str:
        """The screen, row by row."""
        return "\n".join(self.screen.display)

    @property
    def left(self) -> str:
        """The left part of the screen in one line, wherever it is wrapped."""
        return " ".join(" ".join(line[:68] for line in self.screen.display).split())

    def press(self, *keys: str) -> None:
        """Press keys by name."""
        for key in keys:
            self.type(KEYS[key])

    def type(self, text: str) -> None:
        """Type, or paste, text as it is."""
        self.child.send(text)

    def paste(self, text: str) -> None:
        """Paste as a terminal does it, in brackets."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def read(self, seconds: float) -> bool:
        """Take what the program writes within this time. Whether it wrote something."""
        try:
            chunk = self.child.read_nonblocking(65536, timeout=seconds)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        self.raw += chunk
        if self._stream is not None:
            self._stream.feed(chunk)
        return True

    def wait(self, what: str, seen: Callable[[], object], seconds: float = 120, pause: float = 1) -> None:
        """Read until a condition of the screen holds. `pause`: seconds without output after which it is looked at again."""
        deadline = time.monotonic() + seconds
        while not seen():
            if time.monotonic() > deadline or not (self.read(pause) or self.child.isalive()):
                raise AssertionError(f"never seen: {what}\n{self.text}")

    def end(self, seconds: float = 120) -> int | None:
        """Wait until the program has ended. Its exit code."""
        deadline = time.monotonic() + seconds
        while self.child.isalive() and time.monotonic() < deadline:
            self.read(0.5)
        while self.read(0.1):
            pass
        code: int | None = self.child.exitstatus
        return code

    def quiet(self) -> None:
        """Read until nothing is written, nor is about to be: a cursor blinks each half second only."""
        while self.read(0.3) or self._computes():
            pass

    def _computes(self) -> bool:
        """Whether the program, or one that it has started, waits for nothing but a core of a busy machine."""
        with suppress(psutil.NoSuchProcess):
            program = psutil.Process(self.child.pid)
            return any(each.status() == psutil.STATUS_RUNNING for each in (program, *program.children(recursive=True)))
        return False

    def wait_for_window(self) -> None:
        """Wait for the window."""
        self.wait("the window", lambda: "Ask something" in self.text)

    def ask(self, text: str) -> None:
        """Send a prompt."""
        self.type(text)
        self.wait("what was typed", lambda: text in self.text)
        self.press("enter")

    def leave(self) -> None:
        """Quit."""
        self.press("ctrl+q")
        assert self.end() == 0
        self.restored()

    def restored(self) -> None:
        """Fail unless the terminal is as it was, and nothing broke."""
        modes = self.modes()
        assert (modes[1049], modes[25], modes[2004]) == (False, True, False), "screen, cursor, pasting"
        assert not any(modes.get(mode) for mode in (1000, 1002, 1003, 1006, 1015)), "the mouse"
        assert b"Traceback" not in self.raw

    def modes(self) -> dict[int, bool]:
        """The terminal's private modes as the program left them: 1049 alternate screen, 25 cursor, 1000.. mouse."""
        return {int(number): switch == b"h" for numbers, switch in _MODES.findall(self.raw) for number in numbers.split(b";")}

    def styles(self, columns: int, rows: int) -> dict[Style, str]:
        """What is written in each style in the first columns and rows of the screen."""
        found: dict[Style, str] = {}
        for row in range(rows):
            for column in range(columns):
                cell = self.screen.buffer[row][column]
                if cell.data.strip():
                    style = (cell.fg, cell.bold, cell.underscore)
                    found[style] = found.get(style, "") + cell.data
        return found


def without_engine(file: Path, *arguments: str) -> Terminal:
    """`spectui` where llama-cpp-python, numpy and gguf are not installed; `file`: as in `loaded_modules`."""
    return Terminal(str(file), *arguments, module="tests.helpers.loaded_modules", BLOCKED="llama_cpp numpy gguf")
