"""What speculation may lose against plain decoding, in plain passes."""

from __future__ import annotations

ALLOWANCE = 0.01
"""Share of the time that may be lost on and on."""

_STAKE = 2.5
"""Passes that may be lost before any time has passed; an advance on what is allowed."""

_FIRST = 5.0
"""As many in the first reply of a pair: nothing is known of it yet, and a long draft that fails, or bad luck with the first
few, must not end it. SmolLM2 loses three passes with a repetition of sixteen tokens that was none."""

_SHORT = 250.0
"""Passes for which a reply is allowed as much again, less what looking for repetitions takes."""

_MOST = 10.0
"""Passes that may add up: a good hour must not pay for a bad one."""


class Ledger:
    """A credit of plain passes: what drafts have gained lately, and may lose besides.

    A reply of N tokens loses no more than 2.5 passes or N / 50, whichever is more, and from 250 tokens on no more than
    2.5 + N / 100. The first one may lose 5. That is given once, when a pair is first seen: what is left outlives the
    process, so that all replies together lose no more than N / 50 either once they have 250 tokens.
    """

    def __init__(self) -> None:
        self.credit = _FIRST
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
            allowed += max(0.0, allowed - looked)
        repaid = min(allowed, self.owed)
        self.owed -= repaid
        self.credit = min(self.credit + gained + allowed - repaid, _MOST)
