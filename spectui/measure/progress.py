"""A line on standard error that says how far a measurement is. Without a terminal nothing is printed."""

from __future__ import annotations

import sys
from time import perf_counter


class ProgressLine:
    """Call it with the finished share, 0..1, and the name of the present measurement. It prints at each new percent."""

    def __init__(self, most: float = float("inf")) -> None:
        """`most`: seconds after which the measurement ends in any case."""
        self._most = most
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._last = ""
        self._begun = perf_counter()

    def __call__(self, done: float, what: str) -> None:
        now, text = perf_counter(), f"{done:4.0%} {what}"
        if not self._shown or text == self._last:
            return
        self._last = text
        used = now - self._begun
        # Earlier it is too early to tell.
        left = f", {duration(min(used / done, self._most) - used)} left" if done > 0.02 else ""
        sys.stderr.write(f"\r\x1b[K{text}{left}")
        sys.stderr.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def duration(seconds: float) -> str:
    """ "40 s" or "2 min 5 s"."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
