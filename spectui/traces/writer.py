"""Writing a trace while a chat goes on: the engine's thread hands events over, and a thread of its own writes them.

Handing an event over takes less than a microsecond. The disk is touched by the writing thread alone.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from pathlib import Path

from spectui.engine.events import Event, Notice
from spectui.engine.protocol import Engine, also
from spectui.errors import ExistsError
from spectui.traces.format import FAULTS, SCHEMA, Encoder, TraceError, read_header

COLLECT_S = 0.5
"""Seconds that events wait for others to be written with: what a killed process can lose."""


class TraceWriter:
    """Writes a worker's events from now on. Reports a failure once, as a notice among the worker's events."""

    def __init__(self, file: Path, worker: Engine) -> None:
        """Replaces an older trace of this name.

        Raises ExistsError where the file is something else, and TraceError where it cannot be written.
        """
        self._file = file
        self._worker = worker
        self._encoder = Encoder(worker.knobs)
        self._events: deque[Event] = deque()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._failure = ""
        self._reported = False
        try:
            self._descriptor = _open(file)
        except OSError as error:
            raise TraceError(f"The trace {file} cannot be written: {error.strerror}.") from None
        self._write(self._encoder.header())
        # A daemon, because a disk that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="spectui-trace", daemon=True)
        self._thread.start()
        worker.listen = also(worker.listen, self._take)

    def _take(self, event: Event) -> None:
        """In the engine's thread."""
        self._events.append(event)
        if not self._wake.is_set():
            self._wake.set()

    def close(self, timeout: float = 2.0) -> str:
        """Write what is left, waiting at most `timeout` seconds for the disk. Call it when the worker is closed.

        Returns a sentence for the person if something is missing in the trace and no notice could say so, else "".
        """
        self._ended.set()
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            return f"The disk does not answer: the end of the trace {self._file} may be missing."
        return "" if self._reported else self._failure

    def _run(self) -> None:
        ended = False
        while not ended:
            self._wake.wait()
            self._ended.wait(COLLECT_S)
            ended = self._ended.is_set()
            self._wake.clear()
            lines = [self._encoder.line(self._events.popleft()) for _ in range(len(self._events))]
            self._write(b"".join(line for line in lines if line is not None))
            if self._failure and not self._reported and not ended:
                self._reported = True
                self._worker.events.append(Notice(f"{self._failure} The chat goes on."))
        os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        if self._failure:
            return
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._failure = f"The trace {self._file} is not complete: {error.strerror}."


def _open(file: Path) -> int:
    """Raises OSError, and where the file is no trace ExistsError or TraceError."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600)  # without the flag a pipe would block
    try:
        kind = os.fstat(descriptor)
        if stat.S_ISREG(kind.st_mode) and kind.st_size:
            first = os.read(descriptor, 1 << 16).partition(b"\n")[0]
            try:
                read_header(first)
            except TraceError:
                pass  # of another version, but a trace
            except FAULTS:
                raise ExistsError(f"{file} exists already and is no trace ({SCHEMA}): name another.") from None
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
        elif not stat.S_ISREG(kind.st_mode) and not stat.S_ISCHR(kind.st_mode):
            raise TraceError(f"{file} is not a file: choose another name for the trace.")
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
