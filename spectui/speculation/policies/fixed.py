"""Draft-length policies: when to stop drafting, and how much of the draft to verify."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spectui.knobs import Knobs
from spectui.speculation.policies.economics import Economics
from spectui.speculation.records import Candidate


class Policy(Protocol):
    """Told of each round as it begins, then asked for each candidate."""

    def begin(self, knobs: Knobs, context: int, limit: int) -> bool:
        """A round begins behind `context` tokens, with room for `limit` drafted ones. False: it is to have no draft."""

    def wants_more(self, drafted: Sequence[Candidate], upcoming: str) -> bool:
        """Is another candidate, of this source, worth its cost? Asked before it is paid for."""

    def takes(self, candidate: Candidate) -> bool:
        """Does the candidate go into the draft? If not, drafting stops."""

    def keep(self, drafted: Sequence[Candidate]) -> int:
        """How many of the drafted tokens the target is shown; the others are ignored."""

    def note(self, kept: Sequence[Candidate]) -> str:
        """What was done, and why, in words."""


class FixedPolicy:
    """draft-max, draft-min and p-min as llama.cpp means them.

    p-min is checked before a token is taken; a draft shorter than draft-min is ignored.
    """

    def begin(self, knobs: Knobs, context: int, limit: int) -> bool:
        self._knobs = knobs
        self._limit = limit
        self._end = ""
        return knobs.draft_min <= limit

    def wants_more(self, drafted: Sequence[Candidate], upcoming: str) -> bool:
        return len(drafted) < self._limit

    def takes(self, candidate: Candidate) -> bool:
        taken = candidate.p >= self._knobs.p_min
        if not taken:
            self._end = f": the next is at {candidate.p:.2f}, under p-min {self._knobs.p_min:.2f}"
        return taken

    def keep(self, drafted: Sequence[Candidate]) -> int:
        if len(drafted) >= self._knobs.draft_min:
            return len(drafted)
        self._end = f": {len(drafted)} is under draft-min {self._knobs.draft_min}"
        return 0

    def note(self, kept: Sequence[Candidate]) -> str:
        return (f"drafting {len(kept)} of {self._limit}" if kept else "not drafting") + self._end


class ProfilePolicy:
    """The expected-value rule of llama.cpp discussion #10466, as its author last stated it.

    All or nothing: a draft of k tokens is worth the chance that all are accepted times the target's speed at k+1 tokens.
    """

    _LOOKAHEAD = 5

    def __init__(self, economics: Economics) -> None:
        self._economics = economics

    def begin(self, knobs: Knobs, context: int, limit: int) -> bool:
        self._context, self._limit = context, limit
        self._best, self._chance = 0, 1.0
        self._best_value = self._speed(1)
        self._go_on = True
        return limit > 0

    def _speed(self, n: int) -> float:
        """The target's tokens per second in passes of n."""
        return n / self._economics.verify(n, self._context)

    def wants_more(self, drafted: Sequence[Candidate], upcoming: str) -> bool:
        if drafted:
            self._consider(len(drafted))
        return self._go_on and len(drafted) < self._limit

    def takes(self, candidate: Candidate) -> bool:
        self._chance *= candidate.p
        return True

    def keep(self, drafted: Sequence[Candidate]) -> int:
        return min(self._best + 1, len(drafted))

    def _consider(self, length: int) -> None:
        value = self._chance * self._speed(length + 1)
        if value > self._best_value:
            self._best, self._best_value = length, value
            return
        # The author's price of looking ahead: the ratio of the two models' speeds, per token.
        price = self._speed(1) * self._economics.draft.next
        ahead = range(length + 1, min(self._limit, self._best + self._LOOKAHEAD) + 1)
        self._go_on = any(self._chance * (self._speed(n + 1) - price * (n - length)) > self._best_value for n in ahead)

    def note(self, kept: Sequence[Candidate]) -> str:
        return f"drafting {len(kept)} of {self._limit}: expected value {self._best_value:.0f} t/s"
