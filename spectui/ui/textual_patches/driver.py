"""A terminal driver for terminals that close, or take no output.

Textual's driver reads a closed terminal in a busy loop. Its writing thread ends at the first error, and then the event loop
waits for that thread for ever; it also waits while nobody reads the output (Ctrl+S in tmux, a dead connection).
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from time import monotonic
from typing import Any, TextIO, cast

from textual.drivers._writer_thread import MAX_QUEUED_WRITES
from textual.drivers.linux_driver import LinuxDriver

from spectui.text import LOOKALIKES
from spectui.ui.textual_patches.typed import InputParser, lines_as_text

HUNG_UP = 128 + signal.SIGHUP
"""The exit code when the terminal was closed."""

PAUSE_S = 0.05
"""Text that comes sooner after a line's end or a tab, where more than one key came at once, belongs to it."""

LONGEST_BURST = 1_000_000
"""Characters."""

PATIENCE_S = 1.0
"""How long `close` waits for the terminal to take the last output."""


class Output:
    """Writes to a terminal that may lack signs, and to the null device once the terminal is closed: no write fails.

    It does not use Python's buffer, since the end of the process would wait for that. `taken` is called when the terminal has
    taken all output.
    """

    def __init__(self, terminal: TextIO, taken: Callable[[], None]) -> None:
        self._terminal = terminal
        self.encoding = codecs.lookup(terminal.encoding).name
        """The terminal's encoding."""
        self._taken = taken
        self._text = ""

    def fileno(self) -> int:
        """The terminal's file descriptor."""
        return self._terminal.fileno()

    def write(self, text: str) -> None:
        """Write the text, or buffer it for the next write: Textual begins and ends a frame in small writes."""
        self._text += text
        if len(self._text) > 8192:
            self._write()

    def flush(self) -> None:
        """Write what is buffered."""
        self._write()
        self._taken()

    def let_go(self) -> None:
        """Write to the null device from now on."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)

    def _write(self) -> None:
        data, self._text = self._text.encode(self.encoding, LOOKALIKES), ""
        while data:
            try:
                data = data[os.write(self.fileno(), data) :]
            except BlockingIOError:  # another process that shares the terminal may have made it non-blocking
                select.select([], [self.fileno()], [])
            except OSError:
                self.let_go()


def _has_shell() -> bool:
    """Whether the parent of this process group is in its session, as a shell is: it can let the group go on."""
    import psutil  # at first use, which makes the start faster

    group = os.getpgrp()
    with suppress(OSError, psutil.Error):  # some systems do not tell the group or the session of others' processes
        outside = next((each.pid for each in psutil.Process().parents() if os.getpgid(each.pid) != group), None)
        return outside is not None and os.getsid(outside) == os.getsid(0)
    return False


class TerminalDriver(LinuxDriver):
    """Ends the app when its terminal closes, never waits for a terminal that takes nothing, and delivers pastes as text."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._output = Output(cast(TextIO, self._file), self._taken)
        self._file = cast(Any, self._output)
        self._dropped = False
        self._went_on = False  # since the last SIGTSTP

    def start_application_mode(self) -> None:
        """Start application mode. The queue of output has no limit, since a full one blocks: `drops_frame` keeps it short."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._writer_thread is not None:
            self._writer_thread._queue.maxsize = 0

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not taken all output yet."""
        return self._writer_thread is not None and self._writer_thread._queue.qsize() > 0

    def drops_frame(self) -> bool:
        """Whether to drop this frame: when too many writes wait, until the terminal has taken them all.

        Then the whole window is drawn. Only frames are dropped, so the terminal's modes stay as they are.
        """
        writer = self._writer_thread
        if not self._dropped and writer is not None and writer._queue.qsize() > MAX_QUEUED_WRITES:
            self._dropped = True
            writer.write("")  # so that `_taken` is called after the flag was set
        return self._dropped

    def _taken(self) -> None:
        """The terminal has taken all output. Called by the writing thread."""
        if self._dropped:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._draw_again)

    def _draw_again(self) -> None:
        self._dropped = False
        self._app.refresh()

    def close(self) -> None:
        """End the writing thread. Give up a terminal that still takes no output, unless the app continues on it."""
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

    def disable_input(self) -> None:
        """Read no more keys. Unless the app ends, what has come since the last read stays: for the program that gets the
        terminal, or for the window when it comes back. Textual throws it away."""
        if not self._app.is_running or self._key_thread is None:
            super().disable_input()
            return
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        self._disable_mouse_support()
        self.exit_event.set()
        self._key_thread.join()
        self.exit_event.clear()

    def run_input_thread(self) -> None:
        """Read what is typed, until the driver stops or the terminal closes."""
        parser = InputParser(self._debug)
        encoding = self._output.encoding
        decode = codecs.getincrementaldecoder("utf-8" if encoding == "ascii" else encoding)("replace").decode
        held, came = "", 0.0
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], PAUSE_S if held else 0.1)[0]:
                try:
                    data = os.read(self.fileno, 4096)
                except OSError:
                    data = b""
                if not data:
                    # The kernel sends SIGHUP to the session's leader, which may not pass it on.
                    self._loop.call_soon_threadsafe(self._app.exit, None, HUNG_UP)
                    return
                held += decode(data)
                quick, came = monotonic() - came < PAUSE_S, monotonic()
                lines = not {*"\r\n\t"}.isdisjoint(held) and (len(held) > 1 or quick)
                if lines and "\x1b" not in held and not parser.in_paste and len(held) < LONGEST_BURST:
                    continue  # slow lines cut what was pasted
            for message in parser.tick():  # first: a letter that comes later than an Escape is no Alt
                self.process_message(message)
            if held:
                for message in lines_as_text(parser.feed(held)):
                    self.process_message(message)
                held = ""
        for message in lines_as_text(parser.feed(held)):
            self.process_message(message)

    def _sigtstp_application(self, *_: object) -> None:
        """Stop, unless no shell is there to let it go on: a terminal or tmux may have started spectui itself. Then the window
        keeps the terminal: what is typed while it leaves and comes back would be lost. The system does not stop for this signal
        either where no shell is there. For Textual's SIGSTOP it would, for good."""
        own = self._auto_restart
        if own and not _has_shell():
            self._app.notify("There is no shell behind this window to go to.")
            return
        if own:
            self.suspend_application_mode()
            self._must_signal_resume = True
        self._went_on = False
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        if own and not self._went_on:
            self.resume_application_mode()
            self._app.refresh()

    def _sigcont_application(self, *_: object) -> None:
        self._went_on = True
        self._loop.call_soon_threadsafe(self._go_on)  # not here: this thread may hold any lock

    def _go_on(self) -> None:
        """Use the terminal again. A SIGCONT comes with a hangup too, when there is no terminal any more."""
        if self._auto_restart and self._key_thread is not None and os.isatty(self.fileno):
            if self._key_thread.is_alive():  # a SIGSTOP cannot be caught, so the terminal was not restored
                self.suspend_application_mode()
            self.resume_application_mode()
            self._app.refresh()  # the alternate screen is empty now
