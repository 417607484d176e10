"""A line on standard error that says how far a measurement is. Without a terminal nothing is printed."""

from __future__ import annotations

import sys
from time import perf_counter

PERIOD_S = 0.25
"""Seconds between two lines for the window."""

MARK = "\t"
"""Begins each line for the window."""


class ProgressLine:
    """Call it with the finished share, 0..1, and the name of the present measurement. It prints at each new percent."""

    def __init__(self, most: float = float("inf"), live: bool = False) -> None:
        """`most`: seconds after which the measurement ends in any case. `live`: write lines for the window: share, seconds left
        or nothing, and name, with tabs."""
        self._most, self._live = most, live
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._last = ""
        self._begun, self._told_s = perf_counter(), -PERIOD_S

    def __call__(self, done: float, what: str) -> None:
        left_s = self._left_s(done)
        if self._live:
            if (now := perf_counter()) - self._told_s >= PERIOD_S:
                self._told_s = now
                sys.stderr.write(f"{MARK}{done:.4f}\t{'' if left_s is None else round(left_s)}\t{what}\n")
                sys.stderr.flush()
            return
        text = f"{done:4.0%} {what}"
        if not self._shown or text == self._last:
            return
        self._last = text
        sys.stderr.write(f"\r\x1b[K{text}{'' if left_s is None else f', {duration(left_s)} left'}")
        sys.stderr.flush()

    def _left_s(self, done: float) -> float | None:
        """Seconds left if the share `done` is finished; None if that is too early to tell."""
        used = perf_counter() - self._begun
        return max(0.0, min(used / done, self._most) - used) if done > 0.02 else None

    def end(self) -> None:
        """Remove the line."""
        if self._last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def duration(seconds: float) -> str:
    """ "40 s" or "2 min 5 s"."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
