"""The automatic draft length: draft one more token while it is expected to be worth its time at the going rate."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.knobs import Knobs
from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel, paid_for
from spectui.speculation.policies.loss_budget import LossBudget
from spectui.speculation.policies.value import DraftValue
from spectui.speculation.records import Candidate, Outcome, Reason

_RATE_WEIGHT = 0.05
"""EWMA weight of a round in the going rate."""

_MOST_DRAFTING = 2.0
"""A round's drafting counts as at most so many times what the cost model expects: an outlier is not the draft's cost."""

_MOST_LOOK = 0.05
"""A look for repetitions counts as at most this share of a plain pass, for the same reason."""


class AutoPolicy:
    """Lives as long as the pair is loaded. Drafts cannot change the text, so a wrong decision costs only time."""

    def __init__(self, costs: CostModel) -> None:
        self.costs = costs
        self.acceptance = Acceptance()
        self.budget = LossBudget()
        self._tokens = self._passes = 1.0

    @property
    def rate(self) -> float:
        """The recent tokens per plain pass; at least 1, which is plain decoding's."""
        return max(1.0, self._tokens / self._passes)

    def value(self, context: int, limit: int) -> DraftValue:
        """For a draft of at most `limit` tokens behind `context` tokens."""
        return DraftValue(self.costs, self.acceptance, self.rate, context, limit)

    def begin(self, knobs: Knobs, context: int, limit: int, value: DraftValue) -> bool:
        self._value, self._limit, self._least = value, limit, knobs.draft_min
        self._reason = Reason("no room")
        if not self.costs.verify.known:
            self._reason = Reason("measuring")
            return False
        if not limit:
            return False
        plain = self.costs.verify(1, context)
        self._left = self.budget.left(plain) / plain
        self._over_budget = self._asked = False
        if self._left <= 0:
            self._reason = Reason("budget")
            return False
        return True

    def wants_more(self, drafted: Sequence[Candidate], upcoming: str) -> bool:
        if len(drafted) >= self._limit:
            return False
        if upcoming != "model":
            self._asked = True
            return True  # its tokens cost nothing before they are sent
        value = self._value.follow(drafted)
        if not self._allows(len(drafted) + 1, value.paid + 1):
            self._over_budget = not drafted
            return False
        if not self.costs.draft.next:
            self._asked = len(drafted) < 2  # the second token shows what a drafted token costs
        else:
            self._asked = value.extends(value.stop(len(drafted)).value)
        return self._asked

    def takes(self, candidate: Candidate) -> bool:
        return True

    def keep(self, drafted: Sequence[Candidate]) -> int:
        if not drafted:
            self._reason = self._why_nothing()
            return 0
        most, models = len(drafted), paid_for(drafted)
        while most and not self._allows(most, models):
            most -= 1
        value = self._value.follow(drafted)
        stop = value.stop(most, self._least)
        self._reason = self._why(drafted, most, stop.length, stop.tokens)
        return stop.length

    def _allows(self, length: int, models: int) -> bool:
        """Does the budget allow a draft of this length to fail completely?"""
        return self._value.passes[length] - 1.0 + self._value.drafting[models] <= self._left

    def _why(self, drafted: Sequence[Candidate], most: int, kept: int, tokens: float) -> Reason:
        value = self._value
        if kept:
            return Reason("draft", kept, self._limit, tokens / value.time(kept))
        if len(drafted) > most and value.stop(len(drafted), self._least).length:
            return Reason("budget")
        return Reason("uncertain", expected_acceptance=self.acceptance.expected(drafted[0]))

    def _why_nothing(self) -> Reason:
        if self._over_budget:
            return Reason("budget")
        if self._asked:
            return Reason("no match", limit=self._limit)
        value = self._value
        passes, drafting = tuple(value.passes), tuple(value.drafting)
        return Reason("unlikely", 0, self._limit, None, value.expected_ahead, value.rate, passes, drafting)

    def reason(self) -> Reason:
        return self._reason

    def learn(self, outcome: Outcome) -> None:
        """Learn from a finished round, whatever its policy."""
        self.acceptance.observe(outcome.drafted, outcome.tokens, outcome.sure)
        verify, context, emitted = self.costs.verify, outcome.position, len(outcome.tokens)
        plain_s = verify(1, context)
        models = paid_for(outcome.drafted)
        most_s = _MOST_DRAFTING * self.costs.drafting(models) if models else _MOST_LOOK * plain_s
        seconds = verify(outcome.pass_size, context) + min(outcome.draft_s, most_s)
        self._tokens += _RATE_WEIGHT * (emitted - self._tokens)
        self._passes += _RATE_WEIGHT * (seconds / plain_s - self._passes)
        if outcome.knobs.policy == "auto":  # a person who fixes the length accepts its losses
            self.budget.add(emitted * plain_s, seconds - emitted * plain_s)
