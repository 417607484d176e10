"""The measuring process's end: lines of JSON go out by standard output until standard input ends."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import TextIO

from spectui.measure.live.view import Progress, View, line
from spectui.measure.progress import ProgressLine

PERIOD_S = 0.25
"""Seconds between two lines of a kind: to make them takes time from what is measured."""


class LiveProgress(ProgressLine):
    """Writes progress and views as lines. What comes too soon after the last line waits for the next, or for `end`."""

    def __init__(self, out: TextIO, most: float = float("inf")) -> None:
        super().__init__(most)
        self._out = out
        self._lock = threading.Lock()  # the engine's thread and the main thread write
        self._written_s = self._shown_s = -PERIOD_S
        self._waiting: Callable[[], View] | None = None

    def __call__(self, done: float, what: str) -> None:
        if (now := perf_counter()) - self._written_s >= PERIOD_S:
            self._written_s = now
            self._write(Progress(done, what, self.left_s(done)))

    def show(self, view: Callable[[], View]) -> None:
        """Show what `view` makes now or, if that was shown just now, later."""
        now = perf_counter()
        if now - self._shown_s < PERIOD_S:
            self._waiting = view
            return
        self._shown_s, self._waiting = now, None
        self._write(view())

    def end(self) -> None:
        """Show what waits."""
        if (waiting := self._waiting) is not None:
            self._waiting = None
            self._write(waiting())

    def _write(self, message: Progress | View) -> None:
        with self._lock:
            self._out.write(line(message) + "\n")
            self._out.flush()


def stop_with_stdin() -> None:
    """Do what Ctrl+C does as soon as standard input ends: the window closes it, or has died."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored in a background process
    stdin = sys.stdin

    def watch() -> None:
        while stdin.buffer.read(4096):
            pass
        _thread.interrupt_main()

    if stdin is not None:
        threading.Thread(target=watch, name="spectui-stdin", daemon=True).start()
