"""What a pair has taught that the next process should know: what it may still lose, and what its drafts were worth."""

from __future__ import annotations

from typing import NamedTuple

from spectui.speculation.policies.acceptance import HOPED
from spectui.speculation.policies.draft_prefill import Joining
from spectui.speculation.policies.economics import Economics

_WEIGHT = 16.0
"""Tokens that another process's acceptance counts for."""


class Experience(NamedTuple):
    """Few numbers, and nothing of what was said."""

    credit: float
    """Plain passes that speculation may lose."""
    owed: float
    """Passes of the allowance that were given beforehand."""
    kept: float
    """Tokens of the draft model's that the target agreed with."""
    promised: float
    """As many as should have been kept if it were right as often as the target is sure."""
    doubt: float
    """The target's, usually. 0..1"""
    pace: float
    """Seconds in which the draft model reads a token; 0 for unknown."""
    reply: float
    """Tokens that a reply is expected to have."""

    @property
    def plausible(self) -> bool:
        """Could these numbers have been seen?"""
        return (
            (self.kept >= 0 and self.promised >= 0 and 0 <= self.doubt <= 1)
            and (self.owed >= 0 and self.pace >= 0 and self.reply > 0)
        )  # fmt: skip

    @classmethod
    def of(cls, economics: Economics, joining: Joining) -> Experience:
        """As it stands now."""
        ledger, calibration = economics.ledger, economics.calibration
        kept, promised = calibration.claims.get(HOPED, (0.0, 0.0))
        return cls(ledger.credit, ledger.owed, kept, promised, calibration.usual, joining.pace, joining.reply)

    def restore(self, economics: Economics, joining: Joining) -> None:
        """Go on from here."""
        economics.ledger.resume(self.credit, self.owed)
        # As what was seen of few tokens: the next text may be another.
        weight = min(1.0, _WEIGHT / max(self.promised, 1.0))
        economics.calibration.claims[HOPED] = weight * self.kept, weight * self.promised
        economics.calibration.usual = self.doubt
        joining.pace, joining.reply = self.pace, self.reply
