"""What passes cost on this machine: t(n) of the target and d of the draft model. Every round corrects them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, log

from spectui.speculation.records import Candidate

_WEIGHT, _STALE_WEIGHT = 0.2, 0.5
"""Share of its error that a pass corrects: usually; where the size 1 is stale. The first passes count equally."""

_SHARED = 0.8
"""Share of a correction that moves the costs of all sizes. The rest moves the pass's own size.

A rise and the fall after it are divided alike, so an accident leaves nothing in any size. (The sum of all corrections in the
logarithm is in the same proportion in the sizes' own parts and in the common part: where all sizes that are seen are right
again, the common part is 0.)"""

_TOKENS = 3
"""The weight of a drafted token is so many times less, because a round has several."""

_MOST = 3.0
"""A pass or a drafted token counts as at most so many times what was expected: it can take too long by accident."""

_FIRST_RISE, _LEAST_RISE = 0.1, 0.01
"""What each row more is taken to add, as a share of a row's cost: while one size is known; at least, beyond the largest."""

_STALE = 96
"""Rounds without a plain pass after which its cost counts as stale."""

TRUSTED = 100
"""`rounds` of costs that were measured at load on a quiet machine."""


@dataclass(frozen=True)
class CostModel:
    """In seconds, as they are now: a pass over n rows takes t(n) + (per_pass + per_row * n) * context."""

    passes: Mapping[int, float] = field(default_factory=dict)
    """Rows -> t(n), at sizes that were measured at load or seen since; lines are drawn between them. It need not rise: kernels
    take rows in groups, so that a pass over 4 rows may cost less than one over 2."""
    per_row: float = 0.0
    per_pass: float = 0.0
    first: float = 0.0
    """Of a draft's first token, for which the draft model evaluates the target's tokens too; 0: unknown."""
    next: float = 0.0
    one_device: bool = True
    """Whether the draft model slows down as the target does."""
    max_drafted: int | None = None
    """Most tokens that it drafts in a round; None for any number."""
    rounds: int = TRUSTED
    """The number that corrected it; 0: it was measured when the machine may have been at another speed."""
    since_plain: int = 0
    """Rounds since the last plain pass."""

    @property
    def known(self) -> bool:
        """Whether any pass has been measured."""
        return bool(self.passes)

    @property
    def stale(self) -> bool:
        """Whether no plain pass was made for long: what it costs, and so what drafts gain, may be wrong by now."""
        return self.since_plain >= _STALE

    def verify(self, n: int, context: int = 0) -> float:
        """Seconds of a pass of the target over n rows."""
        return self._without_context(n) + (self.per_pass + self.per_row * n) * context

    def drafting(self, n: int) -> float:
        """Seconds for the draft model to draft n tokens."""
        return 0.0 if n <= 0 else (self.first or self.next) + (n - 1) * (self.next or self.first)

    @cached_property
    def _sizes(self) -> list[int]:
        return sorted(self.passes)

    def _without_context(self, n: int) -> float:
        """t(n): on a line between the measured sizes, and beyond the largest one on the last line, if that rises."""
        sizes, passes = self._sizes, self.passes
        place = bisect_left(sizes, n)
        if place < len(sizes):
            high = sizes[place]
            if high == n or not place:
                return passes[high]
            low = sizes[place - 1]
            return passes[low] + (passes[high] - passes[low]) * (n - low) / (high - low)
        last = sizes[-1]
        rise = _FIRST_RISE * passes[last] / last
        if len(sizes) > 1:
            rise = (passes[last] - passes[sizes[-2]]) / (last - sizes[-2])
        return passes[last] + max(rise, _LEAST_RISE * passes[last] / last) * (n - last)

    def learned(self, n: int, seconds: float, context: int, drafted: Iterable[Candidate] = ()) -> CostModel:
        """Corrected by a pass over n rows that took so long behind this context, and by what drafting these tokens took."""
        weight = max(_WEIGHT, 1 / (1 + self.rounds))
        common, passes = 1.0, {n: seconds}
        if self.passes:
            # The first pass after a measurement that is not trusted tells the machine's speed: it counts whole, at all sizes.
            # At a size that is new the error is the size's own, because its cost was a guess.
            shared = _SHARED if n in self.passes else 0.0
            error = log(max(seconds, 1e-9) / self.verify(n, context))
            if self.rounds:
                error = min(max(error, -log(_MOST)), log(_MOST))
            else:
                shared = 1.0
            if n == 1 and self.stale:
                weight = max(weight, _STALE_WEIGHT)
            common = exp(shared * weight * error)
            passes = {size: common * cost for size, cost in self.passes.items()}
            passes[n] = common * self._without_context(n) * exp((1.0 - shared) * weight * error)
        drift = common if self.one_device else 1.0
        costs, index = [drift * self.first, drift * self.next], 0  # `index` in a run of the model's tokens
        for candidate in drafted:
            if candidate.paid:
                costs[min(index, 1)] = _mean(costs[min(index, 1)], candidate.seconds, weight / _TOKENS)
            index = index + 1 if candidate.modelled else 0
        return replace(
            self, passes=passes, per_row=common * self.per_row, per_pass=common * self.per_pass, first=costs[0],
            next=costs[1], rounds=self.rounds + 1 if self.passes else 1, since_plain=0 if n == 1 else self.since_plain + 1,
        )  # fmt: skip


def _mean(mean: float, seconds: float, weight: float) -> float:
    return mean + weight * (min(seconds, _MOST * mean) - mean) if mean else seconds
