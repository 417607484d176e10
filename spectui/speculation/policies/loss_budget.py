"""What speculation may lose against plain decoding, in plain passes."""

from __future__ import annotations

ALLOWANCE = 0.01
"""Share of the time that may be lost on and on."""

LOOKING = 0.01
"""Share of the time that looking for repetitions may take where it finds none: a small model's passes are that short."""

LOOK = 4 * LOOKING
"""Passes that one look counts at most: what it takes more is a hiccup, which says nothing of the next."""

_STAKE = 2.5
"""Passes that may be lost before any time has passed; an advance on what is allowed."""

_SHORT = 250.0
"""Passes for which a reply is allowed as much again."""

_MOST = 10.0
"""Passes that may add up: a good hour must not pay for a bad one."""


class Ledger:
    """A credit of plain passes: what drafts have gained lately, and may lose besides.

    A reply that takes the time of N passes loses no more than 2.5 of them or N / 50, whichever is more, the looking for
    repetitions included; from N = 250 on no more than 2.5 + N / 100, and what looking takes from there. The 2.5 are given once,
    when a pair is first seen: what is left outlives the process, so that all replies together lose no more than N / 50 either.
    """

    def __init__(self) -> None:
        self.credit = _STAKE
        """Plain passes that may be lost now."""
        self.owed = self.credit
        """Passes of the allowance that were given beforehand."""
        self._passes = 0.0

    def resume(self, credit: float, owed: float) -> None:
        """Go on from what another process has left."""
        self.credit, self.owed = min(credit, _STAKE), max(owed, min(credit, _STAKE))

    def begin(self) -> None:
        """A reply begins: what others have gained must not let it lose more than any may."""
        if self._passes:
            self.resume(self.credit, self.owed)
        self._passes = 0.0

    def add(self, gained: float, passes: float, looked: float = 0.0) -> None:
        """A round gained so many passes, or lost them, in the time of so many; looking for a draft took `looked` of that."""
        self._passes += passes
        allowed = ALLOWANCE * passes
        if self._passes <= _SHORT:
            allowed, gained = 2 * allowed, gained - looked
        repaid = min(allowed, self.owed)
        self.owed -= repaid
        self.credit = min(self.credit + gained + allowed - repaid, _MOST)
