"""What the driver writes to: a terminal that may close, take no output, or lack signs."""

from __future__ import annotations

import codecs
import os
import select
from collections.abc import Callable
from typing import TextIO

from spectui.text import LOOKALIKES


class Output:
    """Writes to a terminal, and to the null device once the terminal is closed: no write fails.

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
