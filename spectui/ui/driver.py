"""Textual's terminal driver, for terminals that are closed and pastes that are hostile.

Textual takes both on trust. Of a closed terminal it goes on reading nothing, at full speed, while the thread that writes dies
of the first error, and the event loop then waits for it for ever. Pasted text it reads as keys from the first escape on.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
from collections.abc import Iterator
from typing import Any, TextIO, cast

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from spectui.ui.figures import printable

HUNG_UP = 128 + signal.SIGHUP
"""The exit code of a program whose terminal has gone."""


class TerminalDriver(LinuxDriver):
    """Ends the app when its terminal has gone, and hands pasted text on as text."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = cast(Any, Screen(cast(TextIO, self._file)))

    def run_input_thread(self) -> None:
        """Hand on what is typed, until the driver stops or nobody can type any more."""
        parser = PasteParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], 0.1)[0]:
                try:
                    data = os.read(self.fileno, 4096)
                except OSError:
                    data = b""
                if not data:
                    # The kernel's hangup goes to the session's leader, and who that is may keep it for himself.
                    self._loop.call_soon_threadsafe(self._app.exit, None, HUNG_UP)
                    return
                for message in parser.feed(decode(data)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)

    def _sigcont_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._go_on)  # and not here, where this thread may hold any lock

    def _go_on(self) -> None:
        """Take the terminal back. A hangup comes with a SIGCONT as well, and then there is none."""
        if self._auto_restart and self._key_thread is not None and os.isatty(self.fileno):
            if self._key_thread.is_alive():  # a SIGSTOP, which cannot be caught: the window was left as it was
                self.suspend_application_mode()
            self.resume_application_mode()


class Screen:
    """A terminal to write to, and the null device in its place when it has gone: no write fails."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def fileno(self) -> int:
        """Whichever it is now."""
        return self._terminal.fileno()

    def write(self, text: str) -> None:
        """Write, or drop it."""
        try:
            self._terminal.write(text)
        except OSError:
            self._let_go()

    def flush(self) -> None:
        """Let go of what is in the buffer."""
        try:
            self._terminal.flush()
        except OSError:
            self._let_go()

    def _let_go(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())  # and what is in the buffer has a way out, or Python fails at its end
        os.close(null)


class PasteParser(XTermParser):
    """Makes one event of all that stands between a paste's two markers, however they are cut. Nothing in it is a key.

    What cannot be known is whether a second marker is the terminal's or was pasted; terminals take it out.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._before = ""
        self._pasted: str | None = None

    def feed(self, data: str) -> Iterator[Message]:
        """Give the events of these characters, which may be none."""
        while data:
            if self._pasted is None:
                character, data = data[0], data[1:]
                try:
                    yield from super().feed(character)
                except (ValueError, ArithmeticError):  # a character or a size that there is not
                    self._forget()
                self._before = (self._before + character)[-len(BRACKETED_PASTE_START) :]
                if self._before == BRACKETED_PASTE_START:
                    self._pasted = ""
                    self._forget()
            else:
                seen = max(0, len(self._pasted) - len(BRACKETED_PASTE_END) + 1)
                self._pasted += data
                data = ""
                if (end := self._pasted.find(BRACKETED_PASTE_END, seen)) >= 0:
                    pasted, data = self._pasted[:end], self._pasted[end + len(BRACKETED_PASTE_END) :]
                    self._pasted, self._before = None, ""
                    yield events.Paste(printable(pasted))

    def _forget(self) -> None:
        """Begin anew: behind a paste's first marker, which Textual would follow with keys, or after a fault."""
        self._gen = self.parse(self._tokens.append)
        self._awaiting = next(self._gen)
        self._timeout_time = None
