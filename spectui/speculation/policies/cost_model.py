"""What passes cost on this machine: t(n) of the target and d of the draft model. Every round corrects them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from spectui.speculation.records import Outcome

_WEIGHT = 0.15
"""EWMA weight of a round. The first ones are averaged equally."""

_TOKENS = 3
"""The weight of a drafted token is so many times less, because a round has several."""

_MOST = 3.0
"""A pass or a drafted token counts as at most so many times what was expected: it can take too long by accident."""

_FIRST_RISE, _LEAST_RISE = 0.1, 0.01
"""What each row more is taken to add, as a share of a row's cost: while one size is known; at least, beyond the largest."""

_DRAWN = 64
"""Up to at least so many rows the lines are drawn in advance."""


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
    foresees: int | None = None
    """Most tokens that it drafts in a round; None for any number."""
    error: float = 1.0
    """What the last pass took, by what was expected."""
    rounds: int = 100
    """The number that corrected it; 0: it was measured when the machine may have been at another speed."""

    @property
    def known(self) -> bool:
        """Whether any pass has been measured."""
        return bool(self.passes)

    def verify(self, n: int, context: int = 0) -> float:
        """Seconds of a pass of the target over n rows."""
        lines = self._lines
        last = len(lines) - 1
        base = lines[n] if n <= last else lines[last] + (n - last) * (lines[last] - lines[last - 1])
        return base + (self.per_pass + self.per_row * n) * context

    def drafting(self, n: int) -> float:
        """Seconds for the draft model to draft n tokens."""
        return 0.0 if n <= 0 else (self.first or self.next) + (n - 1) * (self.next or self.first)

    @cached_property
    def _lines(self) -> list[float]:
        sizes, costs = zip(*sorted(self.passes.items()), strict=True)
        largest, last = sizes[-1], max(_DRAWN, sizes[-1] + 1)
        # Beyond the largest size the slope before it goes on.
        rise = (costs[-1] - costs[-2]) / (largest - sizes[-2]) if len(sizes) > 1 else _FIRST_RISE * costs[0] / largest
        end = costs[-1] + max(rise, _LEAST_RISE * costs[-1] / largest) * (last - largest)
        return [0.0, *np.interp(range(1, last + 1), [*sizes, last], [*costs, end]).tolist()]

    def learned(self, outcome: Outcome) -> CostModel:
        """Corrected by a round: its error counts for all sizes as far as the last pass had it too, and the rest for its size.

        At a size that is new all of it is the size's own, because its cost was a guess.
        """
        n, weight, error, speed, passes = outcome.pass_size, max(_WEIGHT, 1 / (1 + self.rounds)), 1.0, 1.0, {}
        if self.passes:
            error = min(outcome.verify_s / self.verify(n, outcome.position), _MOST)
            shared = error if not self.rounds else sorted((self.error, error, 1.0))[1] if n in self.passes else 1.0
            speed = 1 + weight * (shared - 1)
            passes = {size: speed * seconds for size, seconds in self.passes.items()}
            passes[n] = speed * self.verify(n) * (1 + weight * (error / shared - 1))
        drift = speed if self.one_device else 1.0
        means, index = [drift * self.first, drift * self.next], 0  # `index` in a run of the model's tokens
        for candidate in outcome.drafted:
            if candidate.paid:
                which = min(index, 1)
                means[which] = _mean(means[which], candidate.seconds, weight / _TOKENS)
            index = index + 1 if candidate.modelled else 0
        return replace(
            self, passes=passes or {n: outcome.verify_s}, per_row=speed * self.per_row, per_pass=speed * self.per_pass,
            first=means[0], next=means[1], rounds=self.rounds + 1 if self.passes else 1, error=error,
        )  # fmt: skip


def _mean(mean: float, seconds: float, weight: float) -> float:
    return mean + weight * (min(seconds, _MOST * mean) - mean) if mean else seconds
