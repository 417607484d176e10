"""Textual's terminal driver, for terminals that are closed or take nothing, and pastes that are hostile.

Textual takes all on trust. Of a closed terminal it goes on reading nothing, at full speed, while the thread that writes dies
of the first error, and the event loop then waits for it for ever; as it does while nobody takes what is written: Ctrl+S in
tmux, a dead connection. Pasted text it reads as keys from the first escape on, and Alt with a digit as a sign.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty
from typing import Any, TextIO, cast

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.drivers._writer_thread import MAX_QUEUED_WRITES
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from spectui.text import printable

HUNG_UP = 128 + signal.SIGHUP
"""The exit code of a program whose terminal has gone."""

PATIENCE_S = 1.0
"""How long the end waits for a terminal to take what it still has to get."""


class TerminalDriver(LinuxDriver):
    """Ends the app when its terminal has gone, never waits for one that takes nothing, and hands pasted text on as text."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._output = Output(cast(TextIO, self._file), self._taken)
        self._file = cast(Any, self._output)
        self._dropped = False

    def start_application_mode(self) -> None:
        """Start application mode. What is written from now on is put in a queue without end: `drops_frame` keeps it short."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._writer_thread is not None:
            self._writer_thread._queue.maxsize = 0

    def drops_frame(self) -> bool:
        """Is this frame not to be written? So it is, from too many that wait on, until the terminal has taken them all.

        The whole window is drawn then. Nothing else is dropped, so the terminal's modes need no mending.
        """
        writer = self._writer_thread
        if not self._dropped and writer is not None and writer._queue.qsize() > MAX_QUEUED_WRITES:
            self._dropped = True
            writer.write("")  # taken after this was noted, whatever the thread has done meanwhile
        return self._dropped

    def _taken(self) -> None:
        """All that was written is with the terminal. Called by the thread that writes."""
        if self._dropped:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._draw_again)

    def _draw_again(self) -> None:
        self._dropped = False
        self._app.refresh()

    def close(self) -> None:
        """End the writing. A terminal that still takes nothing is let go of, unless it is to be written to again."""
        writer = self._writer_thread
        if writer is None:
            return
        writer._queue.put(None)
        writer.join(PATIENCE_S)
        if writer.is_alive():
            with suppress(Empty):
                while True:
                    writer._queue.get_nowait()
            writer._queue.put(None)
            if not self._app.is_running:
                self._output.let_go()

    def run_input_thread(self) -> None:
        """Hand on what is typed, until the driver stops or nobody can type any more."""
        parser = InputParser(self._debug)
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


class Output:
    """A terminal to write to, and the null device in its place when it has gone: no write fails.

    Python's own buffer is left out: at the end of the process it would be waited for, whoever is just writing it.
    `taken` is called when all that was written is with the terminal.
    """

    def __init__(self, terminal: TextIO, taken: Callable[[], None]) -> None:
        self._terminal = terminal
        self._taken = taken
        self._text = ""

    def fileno(self) -> int:
        """Whichever it is now."""
        return self._terminal.fileno()

    def write(self, text: str) -> None:
        """Write it, or have it written with what comes next: a frame is begun and ended in writes of its own."""
        self._text += text
        if len(self._text) > 8192:
            self._write()

    def flush(self) -> None:
        """Write what is left."""
        self._write()
        self._taken()

    def let_go(self) -> None:
        """Write nothing there any more."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)

    def _write(self) -> None:
        data, self._text = self._text.encode(self._terminal.encoding, "backslashreplace"), ""
        while data:
            try:
                data = data[os.write(self.fileno(), data) :]
            except BlockingIOError:  # whoever shares the terminal may have asked for it
                select.select([], [self.fileno()], [])
            except OSError:
                self.let_go()


class InputParser(XTermParser):
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

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        """Alt and a digit or letter is that, and at once. Textual takes digits for signs, as one terminal means them, and loses
        the Alt of a letter that comes again soon, as from a key that is held."""
        if re.fullmatch("\x1b[0-9a-z]", sequence) and not isinstance(ANSI_SEQUENCES_KEYS.get(sequence), tuple):
            sequence, alt = sequence[1], True
        return super()._sequence_to_key_events(sequence, alt)

    def _forget(self) -> None:
        """Begin anew: behind a paste's first marker, which Textual would follow with keys, or after a fault."""
        self._gen = self.parse(self._tokens.append)
        self._awaiting = next(self._gen)
        self._timeout_time = None
