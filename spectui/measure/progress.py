"""A line on standard error that says how far something is. Without a terminal nothing is printed."""

from __future__ import annotations

import sys
from time import perf_counter


class ProgressLine:
    """Call it with the finished share, 0..1, and the name of the present measurement: it adds the time left."""

    def __init__(self, most: float = float("inf")) -> None:
        """`most`: seconds after which the measurement ends in any case."""
        self._most = most
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._last = ""
        self._begun = perf_counter()

    def __call__(self, done: float, what: str) -> None:
        used = perf_counter() - self._begun
        # Earlier it is too early to tell.
        left = f", {duration(min(used / done, self._most) - used)} left" if done > 0.02 else ""
        self.show(f"{done:4.0%} {what}{left}")

    def show(self, text: str) -> None:
        """Put this text in the place of the last one; "" removes the line."""
        if self._shown and text != self._last:
            self._last = text
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def duration(seconds: float) -> str:
    """ "40 s" or "2 min 5 s"."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
