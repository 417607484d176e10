"""What passes cost on this machine: t(n) of the target and d of the draft model. Every round corrects them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, log

from spectui.speculation.records import Candidate

_WEIGHT, _WEIGHT_ANEW, _TOKEN_WEIGHT = 0.2, 0.4, 0.07
"""Share of its error that a pass corrects: of a size that was seen before, and of a new or a stale one; and a drafted token,
because a round has several."""

_SHARED = 0.8
"""Share of the correction that moves the costs of all sizes. The rest moves the pass's own size.

A rise and the fall after it are divided alike, so an accident leaves nothing in any size. (The sum of all corrections in the
logarithm is in the same proportion in the sizes' own parts and in the common part: where all sizes that are seen are right
again, the common part is 0.)"""

_MOST = 3.0
"""A pass or a drafted token counts as at most so many times what was expected: it can take too long by accident."""

_LEAST_RISE = 0.1
"""What each row beyond the largest size is taken to add at least, as a share of a row's cost."""

TRUSTED = 96
"""Rounds with drafts for which a plain pass tells what plain passes cost."""

LOADED = TRUSTED + 5
"""The same after loading: five passes come before that, which tell how fast the machine is now."""


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
    max_drafted: int | None = None
    """Most tokens that the draft model drafts in a round; None for any number."""
    trusted: int = LOADED
    """Rounds with drafts until a plain pass should correct it, at 1. Above TRUSTED passes correct all sizes alike. 0: it was
    measured on a busy machine."""
    draft_apart: bool = False
    """Where the passes were measured on a busy machine, the draft was not."""

    @property
    def known(self) -> bool:
        """Whether any pass has been measured."""
        return bool(self.passes)

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
        if n in passes or n < sizes[0]:
            return passes[max(n, sizes[0])]
        place = min(bisect_left(sizes, n), len(sizes) - 1)
        low, high = sizes[max(0, place - 1)], sizes[place]
        rise = (passes[high] - passes[low]) / (high - low) if high > low else 0.0
        if n > high:
            return passes[high] + max(rise, _LEAST_RISE * passes[high] / high) * (n - high)
        return passes[low] + rise * (n - low)

    def learned(self, n: int, seconds: float, context: int, drafted: Iterable[Candidate] = ()) -> CostModel:
        """Corrected by a pass over n rows that took so long behind this context, and by what drafting these tokens took."""
        seconds = max(seconds, 1e-9)
        if not self.passes:
            costs = replace(self, passes={n: seconds}, trusted=1)
        elif not self.trusted:  # the pass tells the machine's speed
            costs = replace(self.scaled(seconds / self.verify(n, context)), trusted=1)
            if self.draft_apart:
                costs = replace(costs, first=self.first, next=self.next)
        else:
            error = min(max(log(seconds / self.verify(n, context)), -log(_MOST)), log(_MOST))
            if self.trusted > TRUSTED:  # of the first passes the fastest counts: accidents only add time
                drift = error if self.trusted == LOADED else min(error, 0.0)
                costs = replace(self.scaled(exp(drift)), trusted=self.trusted - 1)
            else:
                costs = self._corrected(n, error)
        token_s, index = [costs.first, costs.next], 0  # `index` in a run of the model's tokens
        for candidate in drafted:
            if candidate.paid:
                token_s[min(index, 1)] = _mean(token_s[min(index, 1)], candidate.seconds)
            index = index + 1 if candidate.modelled else 0
        return replace(costs, first=token_s[0], next=token_s[1])

    def _corrected(self, n: int, error: float) -> CostModel:
        """Corrected by a share of the error, the logarithm of what a pass over n rows took by what was expected."""
        guessed = n not in self.passes  # then the error is this size's own
        correction = error * (_WEIGHT_ANEW if guessed or n == 1 == self.trusted else _WEIGHT)
        shared = 0.0 if guessed else _SHARED
        costs = self.scaled(exp(shared * correction))
        passes = {**costs.passes, n: costs._without_context(n) * exp((1.0 - shared) * correction)}
        return replace(costs, passes=passes, trusted=TRUSTED if n == 1 else max(1, self.trusted - 1))

    def scaled(self, factor: float) -> CostModel:
        """The costs of a machine that is so many times as slow."""
        passes = {size: factor * cost for size, cost in self.passes.items()}
        return replace(
            self, passes=passes, per_row=factor * self.per_row, per_pass=factor * self.per_pass, first=factor * self.first,
            next=factor * self.next,
        )  # fmt: skip


def _mean(mean: float, seconds: float) -> float:
    return mean + _TOKEN_WEIGHT * (min(seconds, _MOST * mean) - mean) if mean else seconds
