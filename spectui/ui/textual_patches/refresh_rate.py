"""How often the window takes events from the engine: each time costs a frame, on the cores that decode."""

from __future__ import annotations

from collections.abc import Callable

from textual.timer import Timer

SLOW_S = 1 / 8
"""Seconds between two calls."""

FAST_S = 1 / 30
FAST = 200
"""Tokens per second from which on calls come every `FAST_S` seconds, so that fast text flows instead of jumping."""


class RefreshRate:
    """Calls `tick` 8 times a second, and 30 times while tokens come fast or the first token is awaited."""

    def __init__(self, set_interval: Callable[[float, Callable[[], None]], Timer], tick: Callable[[], None]) -> None:
        self._set_interval = set_interval
        self._tick = tick
        self._interval_s = SLOW_S
        self._timer = set_interval(SLOW_S, tick)
        self._came = 0  # tokens since the last call
        self._flow = 0.0  # tokens per second, lately

    def add(self, tokens: int) -> None:
        """Count tokens that have come."""
        self._came += tokens

    def hurry(self) -> None:
        """Call often from now on: a reply was asked for."""
        self._follow(FAST_S)

    def adjust(self, *, awaited: bool) -> None:
        """Choose the interval by the tokens since the last call. `awaited`: the reply has not begun."""
        self._flow += 3 * (self._came - self._flow * self._interval_s)  # an average over a third of a second
        self._came = 0
        self._follow(FAST_S if awaited or self._flow > FAST else SLOW_S)

    def _follow(self, interval_s: float) -> None:
        if interval_s != self._interval_s:
            self._timer.stop()
            self._interval_s, self._timer = interval_s, self._set_interval(interval_s, self._tick)
