"""From which acceptance on drafts pay."""

from __future__ import annotations

from collections.abc import Callable

from spectui.speculation.policies.draft import Draft, RoundTimes


def break_even(times: RoundTimes, length: int | None = None) -> float | None:
    """The acceptance from which drafts of this length, or of the best, are faster than plain decoding; None if at none."""
    return _least(lambda chance: (times.best(chance) if length is None else times.speed_up(chance, length)) > 1.0)


def needed(times: RoundTimes, rate: float) -> float | None:
    """The expected acceptance above which the model is asked for a first token at this going rate; None if it is at none."""
    nothing = Draft(times, rate)
    return _least(lambda chance: nothing.with_model(chance) > nothing.values[0])


def _least(pays: Callable[[float], bool]) -> float | None:
    """The least acceptance that pays, to 1/4096."""
    if not pays(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
