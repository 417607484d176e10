"""The one rule that says which of two things is faster: every verdict of bench, tune and compare is one of `judge`.

Two replies to one prompt in one repetition are a pair: they were measured beside each other, so a machine that is slower for a
minute slows both. What is judged are the logarithms of the pairs' ratios of speeds, by Student's t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import atan, ceil, cos, exp, pi, sin, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

ERROR = 0.05
"""How often, at most, one of the verdicts that are spoken together may be wrong."""

_DISTURBED = 8.0
"""A pair that lies farther from its prompt's median, in standard deviations, was disturbed, and does not count. (With 6, of
simulated benches of equals 7 % had a wrong verdict, and with 8 or without this 5 %.)"""

_POWER = 0.84
"""Quantile of the normal distribution for the chance, 80 %, that as many pairs as `Verdict.enough` would be enough."""

_MOST = 1000
"""More pairs are proposed to nobody."""

Pairs = Mapping[str, Sequence[float]]
"""By prompt, ln(speed / other speed) of each pair."""


class Verdict(NamedTuple):
    """How many times as fast as the other the one is, on these prompts.

    `low`, `high`: bounds of that; None where there are too few pairs for any. `enough`: so many pairs would probably tell them
    apart; None if these do, or if it is not known.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    enough: int | None = None

    @property
    def faster(self) -> bool:
        """The one is faster: both bounds are above 1."""
        return self.low is not None and self.low > 1

    @property
    def slower(self) -> bool:
        """The one is slower: both bounds are below 1."""
        return self.high is not None and self.high < 1

    @property
    def told(self) -> bool:
        """It is known which of the two is faster."""
        return self.faster or self.slower

    def __str__(self) -> str:
        """ "faster by 4 to 9 %", or "cannot be told after 12 pairs; some 30 would"."""
        return self._worded("")

    def of(self, one: str, other: str) -> str:
        """ "auto is faster than the target alone by 4 to 9 %", or "auto cannot be told from the target alone after ..."."""
        return f"{one} {'is ' if self.told else ''}{self._worded(other)}"

    def _worded(self, other: str) -> str:
        if self.low is not None and self.high is not None and self.told:
            word, ends = ("faster", (self.low, self.high)) if self.faster else ("slower", (self.high, self.low))
            than = f" than {other}" if other else ""
            return f"{word}{than} by {_range(*(abs(end - 1) for end in ends))}"
        pairs = "one pair" if self.pairs == 1 else f"{self.pairs} pairs"
        said = f"cannot be told{f' from {other}' if other else ''} after {pairs}"
        return said if self.enough is None else f"{said}; some {self.enough} would"


def judge(pairs: Pairs, among: int = 1) -> Verdict:
    """The verdict on these pairs. `among`: so many verdicts are spoken together, or this one was chosen from so many.

    Every prompt counts the same. That prompts differ is no noise where each has two pairs or more; else the prompts count as
    draws from all that are like them.
    """
    known = _undisturbed([np.asarray(each, float) for each in pairs.values() if len(each)])
    count = sum(map(len, known))
    if not known:
        return Verdict(1.0)
    if min(map(len, known)) == 1:
        known = [np.array([each.mean() for each in known])]
    middle = float(np.mean([each.mean() for each in known]))
    size = sum(map(len, known))
    free = size - len(known)
    if free < 1:
        return Verdict(exp(middle), pairs=count)
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in known)
    error = sqrt(squares / free * sum(1 / len(each) for each in known)) / len(known)
    t = quantile(1 - ERROR / among / 2, free)
    low, high = exp(middle - t * error), exp(middle + t * error)
    return Verdict(exp(middle), low, high, count, None if low > 1 or high < 1 else _enough(middle, error, t, count))


def _undisturbed(prompts: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """The pairs of each prompt without those that were disturbed. Of two nobody knows which one was."""
    rest = [np.abs(each - np.median(each)) for each in prompts]
    free = sum(map(len, prompts)) - len(prompts)
    if free < 4:
        return list(prompts)
    # As many distances are 0 or nearly as there are prompts, because the medians are theirs.
    usual = float(np.median(np.sort(np.concatenate(rest))[-free:])) / 0.6745
    return [each[far <= _DISTURBED * usual] if len(each) > 2 else each for each, far in zip(prompts, rest, strict=True)]


def _enough(middle: float, error: float, t: float, pairs: int) -> int | None:
    """Pairs with which such a difference would be told in 80 % of cases, in round figures."""
    needed = pairs * ((t + _POWER) * error / abs(middle)) ** 2 if middle else float("inf")
    if needed > _MOST:
        return None
    unit = 10 if needed > 20 else 1
    return max(pairs + 1, unit * ceil(needed / unit))


@cache
def quantile(chance: float, free: int) -> float:
    """Student's t that is not exceeded with this chance, 0.5 or more, for so many degrees of freedom."""
    low, high = 0.0, 1.0
    while _cumulative(high, free) < chance:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _cumulative(middle, free) < chance else (low, middle)
    return (low + high) / 2


def _cumulative(t: float, free: int) -> float:
    """Chance that Student's t is at most this: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = atan(t / sqrt(free))
    odd = free % 2
    term = cos(angle) if odd else 1.0
    total = term if free > 1 else 0.0
    for number in range(2 + odd, free - 1, 2):
        term *= cos(angle) ** 2 * (number - 1) / number
        total += term
    within = 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
    return 0.5 + within / 2


def _range(low: float, high: float) -> str:
    """ "4 to 9 %"; small ones have a decimal."""
    places = 0 if low >= 0.01 else 1
    ends = list(dict.fromkeys(f"{100 * each:.{places}f}" for each in (low, high)))
    return f"{' to '.join(ends)} %"


def chosen(fixed: Verdict | None, auto: Verdict | None, over_auto: Verdict) -> Literal["fixed", "auto", "plain"]:
    """What to use of the best fixed setting, the automatic length and no draft.

    `fixed`, `auto`: against the target alone; None: not measured. `over_auto`: the fixed setting against auto. A draft is used
    if it is known to be faster than none, and a fixed setting if it is known to be faster than auto, or auto is of no use.
    """
    pays, auto_pays = (each is not None and each.faster for each in (fixed, auto))
    if pays and (not auto_pays or over_auto.faster):
        return "fixed"
    return "auto" if auto_pays else "plain"
