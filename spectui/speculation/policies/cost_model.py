"""What passes cost on this machine: T(n) of the target and d of the draft model, corrected by every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spectui.speculation.records import Candidate, DraftToken, Outcome

_DRIFT_WEIGHT = 0.1
"""EWMA weight of a pass in the drift. The first passes are averaged equally."""

_SIZE_WEIGHT = 0.25
"""EWMA weight of a pass in the cost of its size."""

_MOST_CONTEXT = 1 / 200
"""What a token of context may add to a pass at most, as a share of a pass over one row with an empty context. Measured: 1/10000
(1.5B, heads of 128) to 1/300 (135M, heads of 64, AVX512-FP16)."""

_FIRST_RISE = 0.1
"""While one size is known: what each row more is assumed to add, as a share of a row's cost. So drafts are tried."""

_LEAST_RISE = 0.01
"""Beyond the largest known size each row adds at least this share of a row's cost."""

_DRAWN = 64
"""Up to at least so many rows the cost of every n is calculated in advance."""

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
        self._passes = 0 if drift is None else 1
        # The measured over the expected time of the last pass, and of the last one of each size.
        self._error, self._errors = 1.0, dict.fromkeys(self.table, 1.0)
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
        return self.drift * (self._base_s(n) + (self.per_pass + self.per_row * n) * context)

    def _base_s(self, n: int) -> float:
        """t_n: seconds at drift 1 with an empty context."""
        last = len(self._base) - 1
        return self._base[n] if n <= last else self._base[last] + self._rise * (n - last)

    def observe(self, n: int, context: int, seconds: float) -> None:
        """Learn the seconds of a pass over n rows.

        An error is drift as far as the pass before it had it too, and the size's own as far as the last pass of that size did.
        So a single slow pass teaches nothing: nothing would correct it where no pass of its size follows.
        """
        weight, first = max(_DRIFT_WEIGHT, 1 / (1 + self._passes)), not self._passes
        self._passes += 1
        if not self.table:
            self.table[n], self._passes = seconds, 2  # the drift is known too: 1
            self._refresh()
        error = _bounded(seconds / self(n, context))
        before, before_here = self._error, self._errors.get(n, error)
        self._error = self._errors[n] = error
        if n in self.table or self._passes < 3:
            self.drift *= 1 + weight * ((error if first else _agreed(before, error)) - 1)
            error = _bounded(seconds / self(n, context))
        # The rest of the error is the size's own; all of it at a size that is new, because its cost was a guess.
        self.table[n] = self._base_s(n) * (1 + _SIZE_WEIGHT * (_agreed(before_here, error) - 1))
        self._refresh()

    def _refresh(self) -> None:
        """Draw the lines."""
        sizes = sorted(self.table)
        costs = [self.table[n] for n in sizes]
        self._base, self._rise = [1e-9], 0.0
        if not sizes:
            return
        largest = sizes[-1]
        # Beyond the largest size the slope before it goes on.
        rise = (costs[-1] - costs[-2]) / (largest - sizes[-2]) if len(sizes) > 1 else _FIRST_RISE * costs[0] / largest
        self._rise = max(rise, _LEAST_RISE * costs[-1] / largest)
        last = max(_DRAWN, largest + 1)
        lines = np.interp(range(1, last + 1), [*sizes, last], [*costs, costs[-1] + self._rise * (last - largest)])
        self._base = [0.0, *lines.tolist()]


def _agreed(before: float, now: float) -> float:
    """What two ratios say alike: the one nearer to 1 if both are above or below it, else 1."""
    return sorted((before, now, 1.0))[1]


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

    def observe(self, outcome: Outcome) -> None:
        """Learn from a finished round."""
        self.verify.observe(outcome.pass_size, outcome.position, outcome.verify_s)
        index = 0  # within a run of the model's tokens
        for candidate in outcome.drafted:
            if candidate.paid:
                self.draft.observe(index, candidate.seconds / self._draft_drift)
            index = index + 1 if candidate.source == "model" else 0


def by_model(drafted: Sequence[Candidate | DraftToken]) -> int:
    """How many of these tokens are the draft model's."""
    return sum(token.source == "model" for token in drafted)


def paid_for(drafted: Sequence[Candidate]) -> int:
    """Number of these tokens that the round waited for: tokens drafted ahead are not among them."""
    return sum(candidate.paid for candidate in drafted)
