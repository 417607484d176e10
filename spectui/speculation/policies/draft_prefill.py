"""Whether the draft model reads a long text: reading takes time that its drafts must save.

Before a prompt of 1,000 tokens a draft of a third of the target's size delays the first token by a third. Whether that pays
depends on how long the reply becomes. The recent mean length is the estimate. If reading does not pay, the model reads once
leaving it out has cost as much as reading would (the ski-rental rule).
"""

from __future__ import annotations

from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel

_REPLY = 256.0
"""Tokens expected of the first reply."""

_WEIGHT = 0.3
"""EWMA weight of a reply's length, and of a reading pace."""

_FEW = 32
"""Fewer tokens than these are always read, and do not update the reading pace."""

_LONGEST = 16
"""Longest draft length that the estimate considers."""

_CONFIDENCE = 0.85
"""The target's usual confidence."""


class DraftPrefill:
    """Lives as long as the pair is loaded."""

    def __init__(self, costs: CostModel, acceptance: Acceptance) -> None:
        self._costs = costs
        self._acceptance = acceptance
        self.unread_s: float | None = None
        """Seconds that the draft model would need to read the text; None if it may draft."""
        self._pace = 0.0  # seconds per token that the draft model reads; 0: unknown
        self._timed = False  # else the pace is a guess
        self._reply = _REPLY
        self._written = 0
        self._missed = 0.0  # seconds that the model would have saved since it was left out

    def begin_reply(self, read: int, seconds: float) -> None:
        """A reply begins: the target has read `read` tokens of its prompt in `seconds`."""
        if self._written:
            self._reply += _WEIGHT * (self._written - self._reply)
        self._written, self.unread_s = 0, None
        costs = self._costs
        if read >= _FEW and not self._pace and costs.verify.known:
            # Until its reading was timed, assume that the draft reads as many times faster than the target as it writes, and
            # that reading a token takes no longer than writing one: if it seems to, the machine was busy with something else.
            self._pace = min(seconds / read / costs.verify(1, 0), 1.0) * costs.drafting(2) / 2

    def observe_reading(self, tokens: int, seconds: float) -> None:
        """Learn from the draft model's reading of `tokens` tokens before the reply. The first replaces the guess."""
        if tokens >= _FEW:
            self._pace += (_WEIGHT if self._timed else 1.0) * (seconds / tokens - self._pace)
            self._timed = True

    def observe_round(self, tokens: int, rows: int, context: int) -> None:
        """A pass over `rows` rows emitted `tokens` tokens."""
        self._written += tokens
        if self.unread_s is not None:
            verify = self._costs.verify
            drafted_s = tokens * (verify(1, context) - self._gain_per_token(context))
            self._missed += max(0.0, verify(rows, context) - drafted_s)

    def pays(self, lag: int, context: int, predict: int) -> bool:
        """Whether the draft model should read its `lag` unread tokens, for a reply of `predict` tokens (-1: no limit)."""
        seconds = lag * self._pace
        if lag >= _FEW and seconds and self._costs.verify.known:
            follows = max(self._reply, self._written)
            if predict >= 0:
                follows = min(follows, predict - self._written)
            waiting = self.unread_s is not None and self._missed < seconds
            if waiting or seconds > follows * self._gain_per_token(context):
                if self.unread_s is None:
                    self._missed = 0.0
                self.unread_s = seconds
                return False
        self.unread_s = None
        return True

    def _gain_per_token(self, context: int) -> float:
        """Expected seconds that drafting by the model saves per token."""
        costs, chance = self._costs, self._acceptance.expected_ahead(_CONFIDENCE)
        plain = costs.verify(1, context)
        survival = tokens = 1.0
        least = plain
        for length in range(1, _LONGEST + 1):
            survival *= chance
            tokens += survival
            least = min(least, (costs.verify(length + 1, context) + costs.drafting(length)) / tokens)
        return plain - least
