"""What a draft is worth, in tokens: expected tokens against expected time, at the going rate.

By renewal reward the long-run speed E[tokens] / E[time] is greatest if each round maximises
`V(m) = 1 + S_1 + .. + S_m - rate * passes(m)`: S_i is the chance that the first i drafted tokens are all accepted, `passes(m)`
the round's time in plain passes, and `rate` the tokens per plain pass that were reached lately (Dinkelbach 1967).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import Candidate


class Stop(NamedTuple):
    """How much of a draft to send, its value, and the tokens that it is expected to yield."""

    length: int
    value: float
    tokens: float


class DraftValue:
    """The value of one round's draft while it grows. All times are in plain passes."""

    def __init__(self, costs: CostModel, acceptance: Acceptance, rate: float, context: int, limit: int) -> None:
        """`limit`: most tokens that may be drafted."""
        plain = costs.verify(1, context)
        self.passes = [costs.verify.least(length + 1, context) / plain for length in range(limit + 1)]
        """By draft length: the time of the target's pass."""
        first, following = costs.drafting(1) / plain, (costs.drafting(2) - costs.drafting(1)) / plain
        self.drafting = [0.0, *(first + following * n for n in range(limit))]
        """By number of the draft model's tokens: the time to draft them."""
        self.rate = rate
        self.expected = acceptance.expected()
        self._acceptance = acceptance
        self._survival = [1.0]
        self._tokens = [1.0]
        self._models = [0]

    @property
    def survival(self) -> float:
        """The chance that all that was drafted is accepted. 0..1"""
        return self._survival[-1]

    def chance(self, candidate: Candidate) -> float:
        """P(accepted | all before it were). 0..1"""
        return self._acceptance.chance(candidate)

    def follow(self, drafted: Sequence[Candidate]) -> DraftValue:
        """Take in what was drafted since the last call."""
        for candidate in drafted[len(self._survival) - 1 : len(self.passes) - 1]:
            self._survival.append(self._survival[-1] * self.chance(candidate))
            self._tokens.append(self._tokens[-1] + self._survival[-1])
            self._models.append(self._models[-1] + candidate.paid)
            if candidate.source == "suffix":
                # What is cut off a repetition can be drafted again in the next round: its own rate is the one to beat.
                self.rate = max(self.rate, self._tokens[-1] / self.time(len(self._survival) - 1))
        return self

    def after(self, more: Sequence[Candidate]) -> DraftValue:
        """The value if these were drafted too; this one stays as it is."""
        other = object.__new__(DraftValue)
        other.__dict__.update(self.__dict__)
        other._survival, other._tokens, other._models = self._survival[:], self._tokens[:], self._models[:]
        length = len(self._survival) - 1
        return other.follow([*[more[0]] * length, *more]) if more else other

    def time(self, length: int) -> float:
        """Plain passes that a round takes which sends so much of the draft."""
        return self.passes[length] + self.drafting[self._models[length]]

    def stop(self, most: int, least: int = 0) -> Stop:
        """The best length to send, at most `most`; 0 is a plain pass, else at least `least`. What was drafted is paid for."""
        best = Stop(0, 1.0 - self.rate * self.passes[0], 1.0)
        for length in range(max(1, least), min(most, len(self._survival) - 1) + 1):
            value = self._tokens[length] - self.rate * self.passes[length]
            if value > best.value:
                best = Stop(length, value, self._tokens[length])
        return best

    def extension(self, rate: float | None = None) -> float:
        """The best value that drafting on with the model is expected to reach, at this rate or the going one."""
        rate = self.rate if rate is None else rate
        begun, models = len(self._survival) - 1, self._models[-1]
        sent = max(self._tokens[length] - rate * self.passes[length] for length in range(begun + 1))
        return _extension(
            self.expected, rate, self.passes[begun:], self.drafting[models:], self._survival[-1], self._tokens[-1], sent
        )


def _extension(
    acceptance: float,
    rate: float,
    passes: Sequence[float],
    drafting: Sequence[float],
    survival: float,
    tokens: float,
    sent: float,
) -> float:
    """The best value of drafting on, behind a draft that survives with chance `survival`, yields `tokens`, and is worth `sent`.

    `passes`, `drafting`: by number of further tokens, in plain passes. Each of those is accepted with this acceptance, and the
    model's confidence is taken to tell the first one that is not: drafting ends there, and what was drafted before it is sent.
    """
    value, reached, best = 0.0, 1.0, float("-inf")
    for more in range(1, len(passes)):
        value -= reached * rate * (drafting[more] - drafting[more - 1])
        value += reached * (1.0 - acceptance) * sent
        reached *= acceptance
        tokens += survival
        sent = max(sent, tokens - rate * passes[more])
        best = max(best, value + reached * sent)
    return best


def needed_acceptance(passes: Sequence[float], drafting: Sequence[float], rate: float) -> float | None:
    """The expected acceptance above which the policy asks the draft model for a first token; None if at none.

    `passes`, `drafting`: by draft length, in plain passes. `rate`: the going rate, in tokens per plain pass.
    """
    plain = 1.0 - rate * passes[0]

    def asks(acceptance: float) -> bool:
        return _extension(acceptance, rate, passes, drafting, 1.0, 1.0, plain) > plain

    if not asks(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if asks(middle) else (middle, high)
    return high


def expected_tokens(acceptance: float, length: int) -> float:
    """Tokens that a round yields if each drafted one is accepted with this chance (Leviathan et al. 2023, eq. 1)."""
    return sum(acceptance**k for k in range(length + 1))


def break_even(times: Sequence[float], rate: float) -> float | None:
    """The acceptance from which drafts of some length are worth more than a plain pass; None if none can be.

    `times`: of a round by draft length, in plain passes. `rate`: tokens per plain pass that a round must reach.
    """
    found = (break_even_at(length, time, rate) for length, time in enumerate(times) if length)
    return min((acceptance for acceptance in found if acceptance is not None), default=None)


def break_even_at(length: int, time: float, rate: float) -> float | None:
    """The same for drafts of one length, whose rounds take `time` plain passes."""
    wanted = 1.0 + rate * (time - 1.0)
    if wanted >= length + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens(middle, length) >= wanted else (middle, high)
    return high
