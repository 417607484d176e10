"""Reading a trace: the whole file is checked first, then its events can be gone through as often as wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spectui.engine.events import Event
from spectui.traces.format import FAULTS, SCHEMA, Decoder, Header, TraceError, read_header

_LONGEST = 64 * 1024 * 1024
"""Bytes of a line: more than any prompt takes. A damaged file without line ends cannot take more memory."""


class Trace:
    """A trace that was read. Iterating gives its events in order, decoded anew each time."""

    def __init__(self, file: Path) -> None:
        """Raises TraceError with what is wrong in which line."""
        self.file = file
        self._lines: list[bytes] = []
        self.cut_off = False
        """The last line was not written whole, and is left out."""
        try:
            if file.exists() and not file.is_file():
                raise TraceError(f"{file} is not a file, so it is no trace.")
            with file.open("rb") as opened:
                first = opened.readline(_LONGEST)
                self.header = self._header(first)
                decoder = Decoder(self.header)
                while line := opened.readline(_LONGEST):
                    try:
                        decoder.event(line)
                    except FAULTS as error:
                        if line.endswith(b"\n") or len(line) == _LONGEST:
                            raise TraceError(
                                f"The trace {file} is damaged in line {len(self._lines) + 2} "
                                f"({type(error).__name__}): cut it off before that line, and the rest can be read."
                            ) from None
                        self.cut_off = True  # the process was killed, or the disk was full
                        break
                    self._lines.append(line)
        except OSError as error:
            raise TraceError(f"The trace {file} cannot be read: {error.strerror}.") from None
        if not self._lines:
            raise TraceError(f"The trace {file} has no events: nothing was loaded or said while it was written.")

    def __iter__(self) -> Iterator[Event]:
        decoder = Decoder(self.header)
        for line in self._lines:
            if (event := decoder.event(line)) is not None:
                yield event

    def _header(self, line: bytes) -> Header:
        if not line:
            raise TraceError(f"The trace {self.file} is empty.")
        try:
            return read_header(line)
        except TraceError as error:
            raise TraceError(f"{self.file}: {error}") from None
        except FAULTS:
            raise TraceError(f"{self.file} is no trace: its first line is not that of a {SCHEMA}.") from None
