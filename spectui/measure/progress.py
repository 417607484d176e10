"""A line on standard error that says how far a measurement is. Without a terminal nothing is printed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectui.measure.live.view import View


class ProgressLine:
    """Call it with the finished share, 0..1, and the name of the present measurement. It prints at each new percent."""

    def __init__(self, most: float = float("inf")) -> None:
        """`most`: seconds after which the measurement ends in any case."""
        self._most = most
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._last = ""
        self._begun = perf_counter()

    def __call__(self, done: float, what: str) -> None:
        text = f"{done:4.0%} {what}"
        if not self._shown or text == self._last:
            return
        self._last = text
        left_s = self.left_s(done)
        left = "" if left_s is None else f", {duration(left_s)} left"
        sys.stderr.write(f"\r\x1b[K{text}{left}")
        sys.stderr.flush()

    def left_s(self, done: float) -> float | None:
        """Seconds left if the share `done` is finished; None if that is too early to tell."""
        used = perf_counter() - self._begun
        return max(0.0, min(used / done, self._most) - used) if done > 0.02 else None

    def show(self, view: Callable[[], View]) -> None:
        """Show the table so far, where somebody sees it grow: the window does. A terminal gets the whole at the end."""

    def end(self) -> None:
        """Remove the line."""
        if self._last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def duration(seconds: float) -> str:
    """ "40 s" or "2 min 5 s"."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
