"""What passes cost on this machine: T(n) of the target and d of the draft model, corrected by every round."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spectui.speculation.records import Candidate, DraftToken, Round

_DRIFT_WEIGHT = 0.1
"""EWMA weight of a pass in the drift. The first passes are averaged equally."""

_SIZE_WEIGHT = 0.25
"""EWMA weight of a pass in the cost of its size."""

_LEAST_ERROR, _MOST_ERROR = 0.77, 1.3
"""A pass corrects the cost of its size and of context as if it took from 0.77 to 1.3 times what was expected."""

_FIRST_SHARE = 0.5
"""Exponent: what of the first error at an unmeasured size corrects that size. The rest may be an outlier."""

_CONTEXT_WEIGHT = 0.05
"""Step of the least mean squares that fit the cost of context."""

_ROW_CONTEXT = 512.0
"""From so many tokens of context on, an error of T(n) corrects the context term more than the size term."""

_MOST_CONTEXT = 1 / 200
"""What a token of context may add to a pass at most, as a share of a pass over one row with an empty context. Measured: 1/10000
(1.5B, heads of 128) to 1/300 (135M, heads of 64, AVX512-FP16)."""

_FADE = 0.01
"""With each pass of another size, the cost of a size that was not measured at load moves by this share to the line between
its neighbours."""

_FREE = 0.97
"""A larger pass replaces a smaller one if it costs less than this share of the smaller one; a smaller gain is noise."""

_FIRST_RISE = 0.1
"""While one size is known: what each row more is assumed to add, as a share of a row's cost. So drafts are tried."""

_LEAST_RISE = 0.01
"""Beyond the largest known size each row adds at least this share of a row's cost."""

_DRAWN = 64
"""Up to so many rows the cost of every n is calculated in advance."""

_DRAFT_WEIGHT = 0.05
"""EWMA weight of a drafted token in d. The first tokens weigh twice as much as in a plain mean."""

_SETTLED = 8
"""After so many drafted tokens, one token counts as at most _OUTLIER times the mean."""

_OUTLIER = 4.0


class VerifyCost:
    """T(n, context) = drift * (t_n + (per_pass + per_row * n) * context), in seconds.

    t_n is known at the sizes that were measured at load or seen since, and lies on straight lines between them. It is never
    smoothed and need not rise with n: kernels take rows in groups, so that a pass over 4 rows may cost less than one over 2.
    `drift` is the present pass time over the measured one, the same for all sizes.
    """

    def __init__(
        self,
        table: Mapping[int, float] | None = None,
        drift: float | None = None,
        per_row: float = 0.0,
        per_pass: float = 0.0,
    ) -> None:
        """`table`: seconds of a pass over n rows with an empty context, for some n. `drift`: None lets the first pass set it.

        `per_row`, `per_pass`: seconds that each token of context adds for each row, and once.
        """
        self.table: dict[int, float] = dict(table or {})
        if 1 in self.table:
            # No pass costs less than a pass over one row. If a larger one was measured as cheaper, the machine was busy for a
            # moment. Nothing would correct that later: plain passes look dear, so every round drafts.
            self.table[1] = min(self.table.values())
        self._measured = frozenset(self.table)
        self._passes = 0 if drift is None else 1
        self.drift = _bounded(drift or 1.0)
        most = _MOST_CONTEXT * min(self.table.values(), default=0.0)
        self.per_row, self.per_pass = min(per_row, most), min(per_pass, most)
        self._refresh()

    @property
    def known(self) -> bool:
        """Whether anything has been measured."""
        return bool(self.table)

    def __call__(self, n: int, context: int) -> float:
        """Seconds of a pass over exactly n rows."""
        base = self._base[n] if n < len(self._base) else self._line(n, self._sizes)
        return self.drift * (base + (self.per_pass + self.per_row * n) * context)

    def filled(self, n: int, context: int) -> int:
        """Rows of the cheapest pass over at least n rows: n, or more where the kernels make a larger pass cheaper."""
        m = self._cheapest[n] if n < len(self._cheapest) else n
        return m if m > n and self(m, context) < _FREE * self(n, context) else n

    def least(self, n: int, context: int) -> float:
        """Seconds of the cheapest pass over at least n rows."""
        return self(self.filled(n, context), context)

    def observe(self, n: int, context: int, seconds: float) -> None:
        """Learn the seconds of a pass over n rows."""
        weight = max(_DRIFT_WEIGHT, 1 / (1 + self._passes))
        self._passes += 1
        if not self.table:
            self.table[n] = seconds
            self._passes = max(self._passes, 2)  # the drift is known too: 1
            self._refresh()
            return
        expected = self(n, context)
        if n not in self.table and self._passes > 2:
            # The first pass of this size: half of the error is taken for the size's own cost.
            base = expected / self.drift - (self.per_pass + self.per_row * n) * context
            self.table[n] = _bounded(seconds / expected) ** _FIRST_SHARE * base
            self._refresh()
            return
        self.drift *= 1 + weight * (_bounded(seconds / expected) - 1)
        expected = self(n, context)
        error = (min(max(seconds / expected, _LEAST_ERROR), _MOST_ERROR) - 1.0) * expected / self.drift
        share = context / (context + _ROW_CONTEXT)
        if n in self.table:
            self.table[n] += _SIZE_WEIGHT * (1 - share) * error
        if context:
            self._fit_context(n, _CONTEXT_WEIGHT * share * error / context)
        self._fade(n)
        self._refresh()

    def _fit_context(self, n: int, step: float) -> None:
        """One step of normalised least mean squares over the features 1 and n."""
        most = _MOST_CONTEXT * min(self.table.values())
        self.per_pass = min(max(0.0, self.per_pass + step / (1 + n * n)), most)
        self.per_row = min(max(0.0, self.per_row + step * n / (1 + n * n)), most)

    def _fade(self, seen: int) -> None:
        """Move each size that was not measured at load, but for the one seen now, to the line between its neighbours.

        Its cost may come from a moment in which the machine was busy, and would stay wrong: expensive sizes are not used.
        """
        for n in self._sizes:
            if n != seen and n != 1 and n not in self._measured:
                others = [size for size in self._sizes if size != n]
                self.table[n] += _FADE * (self._line(n, others) - self.table[n])

    def _refresh(self) -> None:
        """Draw the lines, and find the cheapest known size from each n on."""
        self._sizes = sorted(self.table)
        self._base: list[float] = []
        self._cheapest: list[int] = []
        if not self._sizes:
            return
        largest = best = self._sizes[-1]
        sizes, costs = [*self._sizes], [self.table[n] for n in self._sizes]
        if largest < _DRAWN:
            sizes.append(_DRAWN)
            costs.append(self._line(_DRAWN, self._sizes))
        self._base = [0.0, *np.interp(range(1, sizes[-1] + 1), sizes, costs).tolist()]
        self._cheapest = list(range(largest + 1))
        for n in range(largest, 0, -1):
            if n in self.table and self.table[n] <= self.table[best]:
                best = n
            self._cheapest[n] = best

    def _line(self, n: int, sizes: Sequence[int]) -> float:
        """t_n on the straight line between its neighbours in `sizes`."""
        table = self.table
        if not sizes:
            return 1e-9
        at = bisect_left(sizes, n)
        if at == 0:
            return table[sizes[0]]
        low = sizes[at - 1]
        if at < len(sizes):
            high = sizes[at]
            return table[low] + (table[high] - table[low]) * (n - low) / (high - low)
        # Beyond the largest size its slope goes on.
        rise = _FIRST_RISE * table[low] / low
        if at > 1:
            rise = (table[low] - table[sizes[at - 2]]) / (low - sizes[at - 2])
        return table[low] + max(rise, _LEAST_RISE * table[low] / low) * (n - low)


def _bounded(ratio: float) -> float:
    """The ratio, between a half and two: a single timing may not change more."""
    return min(max(ratio, 0.5), 2.0)


class DraftCost:
    """Seconds per drafted token at drift 1: the first of a draft, which evaluates the target's tokens too, and the others."""

    def __init__(self, first: float = 0.0, next: float = 0.0) -> None:
        """0 for unknown."""
        self.first, self.next = first, next
        self._seen = [0, 0]

    def observe(self, index: int, seconds: float) -> None:
        """Learn the seconds of the token at this index of a draft."""
        if index == 0:
            self.first = self._mean(0, self.first, seconds)
        else:
            self.next = self._mean(1, self.next, seconds)

    def total(self, n: int) -> float:
        """Seconds to draft n tokens."""
        return 0.0 if n <= 0 else (self.first or self.next) + (n - 1) * (self.next or self.first)

    def _mean(self, which: int, mean: float, seconds: float) -> float:
        """An EWMA whose weight shrinks with the count, so that a first bad sample is soon outweighed."""
        seen = self._seen[which]
        self._seen[which] += 1
        if not mean:
            return seconds
        if seen >= _SETTLED:
            seconds = min(seconds, _OUTLIER * mean)
        return mean + max(_DRAFT_WEIGHT, 2 / (3 + seen)) * (seconds - mean)


class CostSnapshot(NamedTuple):
    """A snapshot of a cost model, in seconds, for the disk and for a new model to start from."""

    verify: tuple[tuple[int, float], ...] = ()
    """(rows, seconds) of the sizes that were known, at drift 1 and with an empty context."""
    drift: float = 1.0
    per_row: float = 0.0
    per_pass: float = 0.0
    first: float = 0.0
    """Of a draft's first token; 0: unknown."""
    next: float = 0.0


class CostModel:
    """Both costs of a pair of models; lives as long as the pair is loaded."""

    def __init__(
        self, verify: VerifyCost | None = None, draft: DraftCost | None = None, one_device: bool = True
    ) -> None:
        """`one_device`: the draft slows down as the target does. If not, `draft` is at the drift that its own device has now:
        drafted tokens are seen often enough to follow it."""
        self.verify = verify or VerifyCost()
        self.draft = draft or DraftCost()
        self._one_device = one_device

    @property
    def _draft_drift(self) -> float:
        return self.verify.drift if self._one_device else 1.0

    @classmethod
    def of(cls, snapshot: CostSnapshot) -> CostModel:
        """A cost model that starts from a snapshot."""
        drift = snapshot.drift if snapshot.verify else None
        verify = VerifyCost(dict(snapshot.verify), drift, snapshot.per_row, snapshot.per_pass)
        return cls(verify, DraftCost(snapshot.first, snapshot.next))

    def snapshot(self) -> CostSnapshot:
        """A snapshot of this cost model."""
        verify, draft = self.verify, self.draft
        table = tuple(sorted(verify.table.items()))
        scale = self._draft_drift / verify.drift  # a snapshot has both at one drift
        return CostSnapshot(
            table, verify.drift, verify.per_row, verify.per_pass, draft.first * scale, draft.next * scale
        )

    def drafting(self, n: int) -> float:
        """Seconds for the draft model to draft n tokens."""
        return self._draft_drift * self.draft.total(n)

    def observe(self, round: Round, drafted: Sequence[Candidate]) -> None:
        """Learn from a finished round."""
        self.verify.observe(round.pass_size, round.position, round.verify_s)
        index = 0  # within a run of the model's tokens
        for candidate in drafted:
            if candidate.paid:
                self.draft.observe(index, candidate.seconds / self._draft_drift)
            index = index + 1 if candidate.source == "model" else 0


def by_model(drafted: Sequence[Candidate | DraftToken]) -> int:
    """How many of these tokens are the draft model's."""
    return sum(token.source == "model" for token in drafted)


def paid_for(drafted: Sequence[Candidate]) -> int:
    """Number of these tokens that the round waited for: tokens drafted ahead are not among them."""
    return sum(candidate.paid for candidate in drafted)
