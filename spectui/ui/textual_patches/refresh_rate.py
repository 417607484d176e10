"""How often the window looks at what the engine says: what it finds is a frame, taken from the cores that decode."""

from __future__ import annotations

from collections.abc import Callable

from textual.timer import Timer

SLOW_S = 1 / 8
"""Between two looks."""

FAST_S = 1 / 30
FAST = 200
"""Tokens a second, from which on looks follow each other faster: such a reply runs, it does not jump."""


class RefreshRate:
    """Has `look` called eight times a second, and thirty while tokens come fast or a reply's first one is awaited."""

    def __init__(self, set_interval: Callable[[float, Callable[[], None]], Timer], look: Callable[[], None]) -> None:
        self._set_interval = set_interval
        self._look = look
        self._interval_s = SLOW_S
        self._timer = set_interval(SLOW_S, look)
        self._came = 0  # tokens since the last look
        self._flow = 0.0  # tokens a second, of late

    def add(self, tokens: int) -> None:
        """So many have come."""
        self._came += tokens

    def hurry(self) -> None:
        """Look often from now on: a reply was asked for."""
        self._follow(FAST_S)

    def keep(self, *, awaited: bool) -> None:
        """Look as often as what came since the last time asks for; `awaited`: the reply has not begun."""
        self._flow += 3 * (self._came - self._flow * self._interval_s)  # the mean of a third of a second
        self._came = 0
        self._follow(FAST_S if awaited or self._flow > FAST else SLOW_S)

    def _follow(self, interval_s: float) -> None:
        if interval_s != self._interval_s:
            self._timer.stop()
            self._interval_s, self._timer = interval_s, self._set_interval(interval_s, self._look)
