"""What passes cost on this machine: T(n) of the target, measured, and kept fresh from the rounds themselves."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Mapping

_SPEED_RATE = 0.1
"""Weight of a new observation of how fast the machine is just now; the first ones count as much as those before together."""

_RATE = 0.05
"""Weight of a new observation of a draft's cost, or of kappa, the machine's speed taken out."""

_SIZE_RATE = 0.25
"""The same of a pass: more than the speed's, so that what is true of some sizes only is not believed of all."""

_ROW_CONTEXT = 512.0
"""Context at which an error of T(n) is as likely the context's doing as the kernels'."""

_MOST_KAPPA = 1 / 200
"""Attention to this share of t_1 per token of context. Measured: 1/10000 for a 1.5B with heads of 128; about 1/300 for a 135M
with heads of 64 where llama.cpp is compiled for AVX512-FP16, whose loops over f16 take 128 at a time and leave less to a scalar
one."""


class VerifyCost:
    """T(n, context) = speed * (t_n + kappa * n * context), in seconds.

    Attention reads the whole context once per row, so its share grows with both: one kappa serves all n. The t_n are never
    smoothed over n: kernels change at certain sizes, and the steps are what the policy must know. `speed` is the machine's
    mood: when something else runs, every pass is slower, and what is not measured meanwhile must not look cheap or dear.
    """

    def __init__(
        self, table: Mapping[int, float] | None = None, speed: float | None = None, kappa: float = 0.0
    ) -> None:
        """`table`: seconds for a pass over n tokens with an empty context, for some n.

        `speed`: how much longer passes take today; None lets the first one tell.
        `kappa`: seconds more for each row and token of context.
        """
        self.table: dict[int, float] = dict(table or {})
        self.kappa = min(kappa, _MOST_KAPPA * min(self.table.values(), default=0.0))
        self.speed = _surprise(speed or 1.0)
        self._looks = 0 if speed is None else 1
        self._sizes = sorted(self.table)

    def __call__(self, n: int, context: int) -> float:
        """Seconds for a target pass over n tokens; between measured sizes on the straight line."""
        base = self.table.get(n)
        if base is None:
            base = self._between(n)
        return self.speed * (base + self.kappa * n * context)

    @property
    def known(self) -> bool:
        """Has anything been measured?"""
        return bool(self.table)

    def observe(self, n: int, context: int, seconds: float) -> None:
        """A real pass took this long. What the speed does not explain is shared between t_n and kappa."""
        rate = max(_SPEED_RATE, 1 / (1 + self._looks))
        self._looks += 1
        if not self.table:
            self._enter(n, seconds)
            return
        expected = self(n, context)
        if n not in self.table and self._looks > 1:
            # A first look at this size: it gets an entry of its own, and half of the surprise.
            self._enter(n, _surprise(seconds / expected) ** 0.5 * (expected / self.speed - self.kappa * n * context))
            return
        # The speed first: what all sizes have in common is not any one's doing.
        self.speed *= 1 + rate * (_surprise(seconds / expected) - 1)
        if n not in self.table:
            return
        expected = self(n, context)
        error = (_own(seconds / expected) - 1.0) * expected / self.speed
        share = context / (context + _ROW_CONTEXT)
        self.table[n] += _SIZE_RATE * (1 - share) * error
        if context:
            most = _MOST_KAPPA * min(self.table.values())
            self.kappa = min(max(0.0, self.kappa + _RATE * share * error / (n * context)), most)

    def _enter(self, n: int, seconds: float) -> None:
        """A size that was not known yet."""
        self.table[n] = seconds
        insort(self._sizes, n)

    def _between(self, n: int) -> float:
        """t_n of a size that is not known."""
        sizes, table = self._sizes, self.table
        if not sizes:
            return 1e-9
        place = bisect(sizes, n)
        if not place:
            return table[sizes[0]]
        low = sizes[place - 1]
        if place < len(sizes):
            return table[low] + self._rise(low, sizes[place]) * (n - low)
        # Beyond the largest size the last slope goes on. With one size known, a tenth a token: hopeful, so that it is tried.
        rise = self._rise(sizes[-2], low) if len(sizes) > 1 else 0.1 * table[low] / low
        return table[low] + max(rise, 0.01 * table[low] / low) * (n - low)

    def _rise(self, low: int, high: int) -> float:
        return (self.table[high] - self.table[low]) / (high - low)


def _own(ratio: float) -> float:
    """What of a surprise may be the kernel's doing. The rest is the machine's, which the speed tells by and by."""
    return min(max(ratio, 0.77), 1.3)


def _surprise(ratio: float) -> float:
    """What is believed of a single look: at most a factor of two."""
    return min(max(ratio, 0.5), 2.0)


class DraftCost:
    """Seconds per drafted token: the first of a round, which catches up on the target's tokens, and each further one.

    At the machine's usual speed: who asks multiplies by `VerifyCost.speed`.
    """

    def __init__(self, first: float = 0.0, next: float = 0.0) -> None:
        """0 for unknown."""
        self.first = first
        self.next = next

    def observe(self, place: int, seconds: float) -> None:
        """A token at this place of the model's draft took this long."""
        if place == 0:
            self.first = self._moved(self.first, seconds)
        else:
            self.next = self._moved(self.next, seconds)

    def total(self, n: int) -> float:
        """Seconds to draft n tokens."""
        return 0.0 if n <= 0 else (self.first or self.next) + (n - 1) * (self.next or self.first)

    @staticmethod
    def _moved(old: float, seconds: float) -> float:
        return old * (1 + _RATE * (_own(seconds / old) - 1)) if old else seconds
