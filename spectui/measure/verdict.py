"""The one rule that says which of two things is faster: every verdict of bench and tune is one of `judge`.

Two replies to one prompt in one repetition are a pair: they were measured beside each other, so a machine that is slower for a
minute slows both. What is judged are the logarithms of the pairs' ratios of speeds, by Student's t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil, exp, pi, sqrt, tan
from statistics import median_low
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ERROR = 0.05
"""How often, at most, one of the verdicts that are spoken together may be wrong."""

_DISTURBED = 8.0
"""A pair that lies farther from its prompt's median, in standard deviations, was disturbed, and does not count. (With 6, of
simulated benches of equals 7 % had a wrong verdict, and with 8 or without this 5 %.)"""

_MUCH = 0.3
"""Nor does it count without being so far from there: a prompt may scatter more than the others."""

_FEW = 4
"""Of so many pairs of a prompt none is dropped. (In a bench of one setting with one noisy prompt three pairs would give 9 % of
wrong verdicts, four 7 %.)"""

_QUIET = 3.0
"""The others of its prompt lie within so many standard deviations."""

_FAR = 20.0
"""What scatters so many times as far as half of a table (in squares) says nothing of the others' noise."""

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

    def of(self, one: str, other: str) -> str:
        """ "auto is faster than plain by 4 to 9 %", or "auto cannot be told from plain after 12 pairs; some 30 would"."""
        if self.low is not None and self.high is not None and self.told:
            word, ends = ("faster", (self.low, self.high)) if self.faster else ("slower", (self.high, self.low))
            return f"{one} is {word} than {other} by {_range(*(abs(end - 1) for end in ends))}"
        pairs = "one pair" if self.pairs == 1 else f"{self.pairs} pairs"
        enough = f"; some {self.enough} would" if self.enough is not None else ""
        return f"{one} cannot be told from {other} after {pairs}{enough}"


class Noise(NamedTuple):
    """How much the pairs of one prompt scatter in a whole table: their variance, and its degrees of freedom."""

    variance: float
    free: float


def noise(table: Sequence[Pairs]) -> dict[str, Noise]:
    """That of each prompt, from the pairs of several things beside the same one, without those that scatter far more.

    They share its replies, so their pairs are correlated by a half, and m things have m / (1 + (m - 1) / 4) times the degrees
    of freedom of one.
    """
    scatters = [{prompt: logs - logs.mean() for prompt, logs in _undisturbed(pairs).items()} for pairs in table]
    far = [sum(float(np.sum(logs**2)) for logs in scatter.values()) for scatter in scatters]
    most = _FAR * median_low(far) if far else 0.0
    scattered: dict[str, list[NDArray[np.float64]]] = {}
    for scatter, own in zip(scatters, far, strict=True):
        if own <= most:
            for prompt, logs in scatter.items():
                scattered.setdefault(prompt, []).append(logs)
    return {
        prompt: Noise(float(np.sum(np.concatenate(logs) ** 2)) / free, free / (1 + (len(logs) - 1) / 4))
        for prompt, logs in scattered.items()
        if (free := sum(map(len, logs)) - len(logs))
    }


def judge(pairs: Pairs, among: int = 1, usual: Mapping[str, Noise] | None = None) -> Verdict:
    """The verdict on these pairs. `among`: so many verdicts are spoken together, or this one was chosen from so many. `usual`:
    the noise of their table, which has more degrees of freedom than theirs alone.

    Every prompt counts the same. That prompts differ is no noise where each has two pairs or more; else the prompts count as
    draws from all that are like them.
    """
    by_prompt = _undisturbed(pairs)
    known = list(by_prompt.values())
    count = sum(map(len, known))
    if not known:
        return Verdict(1.0)
    once = min(map(len, known)) == 1
    if once:
        known = [np.array([logs.mean() for logs in known])]
    middle = float(np.mean([logs.mean() for logs in known]))
    if len(known[0]) == 1:
        return Verdict(_exp(middle), pairs=count)
    # Welch's t with the degrees of freedom of Satterthwaite, because one prompt's replies may scatter more than another's.
    squares, own = np.array([(logs.var(ddof=1) / len(logs), len(logs) - 1) for logs in known]).T
    if usual and not once and usual.keys() >= by_prompt.keys():
        shared = np.array([usual[prompt].variance / len(logs) for prompt, logs in by_prompt.items()])
        squares, own = max(squares, shared, key=np.sum), np.array([usual[prompt].free for prompt in by_prompt])
    error = sqrt(squares.sum()) / len(known)
    free = float(squares.sum() ** 2 / (squares**2 / own).sum()) if error else 1.0
    chance = 1 - ERROR / among / 2
    reach = quantile(chance, free) * error
    told = abs(middle) > reach
    enough = None if told or not middle else _enough(error / abs(middle), chance, free, count)
    return Verdict(_exp(middle), _exp(middle - reach), _exp(middle + reach), count, enough)


def _exp(power: float) -> float:
    """e to this power; where the result is beyond what a float can be, the largest or smallest that has a reciprocal."""
    return exp(max(-700.0, min(power, 700.0)))


def _undisturbed(pairs: Pairs) -> dict[str, NDArray[np.float64]]:
    """The pairs of each prompt without one that was disturbed. Of few none is dropped, since the farthest of them is
    often far by chance; and where the prompt's others scatter too that is its noise."""
    names = [prompt for prompt, logs in pairs.items() if len(logs)]
    prompts = [np.asarray(pairs[prompt], float) for prompt in names]
    rest = [np.abs(logs - np.median(logs)) for logs in prompts]
    free = sum(map(len, prompts)) - len(prompts)
    if free < 4:
        return dict(zip(names, prompts, strict=True))
    # As many distances are 0 or nearly as there are prompts, because the medians are theirs.
    usual = float(np.median(np.sort(np.concatenate(rest))[-free:])) / 0.6745
    most = max(_DISTURBED * usual, _MUCH)
    kept = [far <= (most if np.sum(far > _QUIET * usual) == 1 else np.inf) for far in rest]
    return {name: logs[near] if len(logs) > _FEW else logs for name, logs, near in zip(names, prompts, kept, strict=True)}


def _enough(error: float, chance: float, free: float, pairs: int) -> int | None:
    """Pairs with which such a difference would be told in 80 % of cases, in round figures. `error`: as a share of it."""
    needed = float(pairs)
    for _ in range(5):  # more pairs have more degrees of freedom too
        needed = pairs * ((quantile(chance, free * max(1.0, needed / pairs)) + _POWER) * error) ** 2
    if needed > _MOST:
        return None
    unit = 10 if needed > 20 else 1
    return max(pairs + 1, unit * ceil(needed / unit))


@cache
def _angle(chance: float, free: float) -> float:
    """With t = sqrt(free) tan(angle), the angle whose density is that of cos(angle) to the power free - 1."""
    angles = np.linspace(0, pi / 2, 4001)
    density = np.cos(angles) ** (free - 1)
    share = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return float(np.interp((2 * chance - 1) * share[-1], share, angles))


def quantile(chance: float, free: float) -> float:
    """Student's t that is not exceeded with this chance, 0.5 or more, for so many degrees of freedom, 1 or more."""
    free = min(float(f"{free:.2g}"), 1e4)  # two digits suffice, and few values are calculated
    return sqrt(free) * tan(_angle(chance, free))


def _range(low: float, high: float) -> str:
    """ "4 to 9 %"; small ones have a decimal."""
    places = 0 if low >= 0.01 else 1
    ends = list(dict.fromkeys("over 900" if end > 9 else f"{100 * end:.{places}f}" for end in (low, high)))
    return f"{' to '.join(ends)} %"
