"""Policies that follow a rule whatever a pass costs: draft-max, draft-min and p-min; and the rule of llama.cpp #10466."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spectui.knobs import Knobs
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.value import DraftValue
from spectui.speculation.records import Candidate, Reason


class Policy(Protocol):
    """Decides how many tokens a round drafts. `begin` starts a round; the other methods ask about candidates."""

    def begin(self, knobs: Knobs, context: int, limit: int, value: DraftValue) -> bool:
        """A round begins behind `context` tokens, with room for `limit` drafted ones. False: do not draft. `value`: the
        value of this round's draft.
        """

    def wants_more(self, drafted: Sequence[Candidate], upcoming: str) -> bool:
        """Is another candidate, of this source, worth its cost? Asked before it is paid for."""

    def takes(self, candidate: Candidate) -> bool:
        """Does the candidate go into the draft? If not, drafting stops."""

    def keep(self, drafted: Sequence[Candidate]) -> int:
        """The number of drafted tokens to send to the target; the others are ignored."""

    def reason(self) -> Reason:
        """What the policy did, and why. Call it after `keep`, or after `begin` returned False."""


class FixedPolicy:
    """draft-max, draft-min and p-min as llama.cpp means them.

    p-min is checked before a token is taken; a draft shorter than draft-min is ignored.
    """

    def begin(self, knobs: Knobs, context: int, limit: int, value: DraftValue) -> bool:
        self._knobs, self._limit = knobs, limit
        self._refused: float | None = None
        self._reason = Reason("no room", limit=limit)
        return 0 < limit >= knobs.draft_min

    def wants_more(self, drafted: Sequence[Candidate], upcoming: str) -> bool:
        return len(drafted) < self._limit

    def takes(self, candidate: Candidate) -> bool:
        taken = candidate.p >= self._knobs.p_min
        if not taken:
            self._refused = candidate.p
        return taken

    def keep(self, drafted: Sequence[Candidate]) -> int:
        length = len(drafted) if len(drafted) >= self._knobs.draft_min else 0
        if length:
            self._reason = Reason("draft", length, self._limit, confidence=self._refused)
        elif drafted:
            self._reason = Reason("draft-min", limit=self._knobs.draft_min, drafted=len(drafted))
        elif self._refused is not None:
            self._reason = Reason("p-min", limit=self._limit, confidence=self._refused)
        else:
            self._reason = Reason("no match", limit=self._limit)
        return length

    def reason(self) -> Reason:
        return self._reason


class ProfilePolicy:
    """The expected-value rule of llama.cpp discussion #10466, as its author last stated it.

    All or nothing: a draft of k tokens is worth the chance that all are accepted times the target's speed at k+1 tokens.
    """

    _LOOKAHEAD = 5

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs

    def begin(self, knobs: Knobs, context: int, limit: int, value: DraftValue) -> bool:
        self._context, self._limit = context, limit
        self._reason = Reason("no room")
        self._best, self._chance = 0, 1.0
        self._best_value = self._speed(1)
        self._go_on = True
        return limit > 0

    def _speed(self, n: int) -> float:
        """The target's tokens per second in passes of n."""
        return n / self._costs.verify(n, self._context)

    def wants_more(self, drafted: Sequence[Candidate], upcoming: str) -> bool:
        if drafted:
            self._consider(len(drafted))
        return self._go_on and len(drafted) < self._limit

    def takes(self, candidate: Candidate) -> bool:
        self._chance *= candidate.p
        return True

    def keep(self, drafted: Sequence[Candidate]) -> int:
        length = min(self._best + 1, len(drafted))
        self._reason = Reason("profile" if length else "no match", length, self._limit, self._best_value)
        return length

    def _consider(self, length: int) -> None:
        value = self._chance * self._speed(length + 1)
        if value > self._best_value:
            self._best, self._best_value = length, value
            return
        # The author's cost of a drafted token: the ratio of the two models' speeds.
        price = self._speed(1) * self._costs.draft.next
        ahead = range(length + 1, min(self._limit, self._best + self._LOOKAHEAD) + 1)
        self._go_on = any(self._chance * (self._speed(n + 1) - price * (n - length)) > self._best_value for n in ahead)

    def reason(self) -> Reason:
        return self._reason
