"""What a draft is worth: expected tokens against expected time, at the going rate.

By renewal reward the long-run speed E[tokens] / E[time] is greatest if each round maximises
`V(m) = 1 + S_1 + .. + S_m - rate * time(m)`: S_i is the chance that the first i drafted tokens are all accepted, `time(m)` the
round's in plain passes, and `rate` the tokens per plain pass that were reached lately (Dinkelbach 1967).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.records import Candidate

if TYPE_CHECKING:
    from spectui.speculation.policies.cost_model import CostModel

_LOOKAHEAD = 5
"""Tokens after the best length that the expected-value rule considers."""


class RoundTimes(NamedTuple):
    """The time of rounds, in plain passes."""

    passes: tuple[float, ...]
    """Of the target's pass, by draft length."""
    drafting: tuple[float, ...]
    """By number of tokens that the draft model drafts, up to the most that it can."""

    @classmethod
    def of(cls, costs: CostModel, context: int, longest: int) -> RoundTimes:
        """After so many tokens, with drafts of 0 to `longest` tokens."""
        plain, most = costs.verify(1, context), longest
        if costs.max_drafted is not None:
            most = min(costs.max_drafted, longest)
        passes = tuple(costs.verify(length + 1, context) / plain for length in range(longest + 1))
        return cls(passes, tuple(costs.drafting(length) / plain for length in range(most + 1)))

    def speed_up(self, acceptance: float, length: int) -> float:
        """Expected against plain decoding, if all drafts have this length and each token is accepted with this chance.

        The tokens of such a round: Leviathan et al. 2023, eq. 1.
        """
        return sum(acceptance**k for k in range(length + 1)) / (self.passes[length] + self.drafting[length])

    def best(self, acceptance: float) -> float:
        """The speed-up of the best length but 0."""
        return max((self.speed_up(acceptance, length) for length in range(1, len(self.drafting))), default=0.0)

    def outlook(
        self, acceptance: float, rate: float, survival: float = 1.0, tokens: float = 1.0, sent: float | None = None,
        drafted: int = 0, paid: int = 0,
    ) -> float:  # fmt: skip
        """The greatest value of drafting on with the model, after a draft of `drafted` tokens (`paid` of them the model's)
        that survives with chance `survival`, yields `tokens`, and is worth `sent`. By default: after no draft.

        Each further token is accepted with this acceptance, and the model's confidence is taken to tell the first one that is
        not: drafting ends there, and what was drafted before it is sent.
        """
        best, value, reached = float("-inf"), 0.0, 1.0
        if sent is None:
            sent = tokens - rate * self.passes[drafted]
        for more in range(1, min(len(self.passes) - drafted, len(self.drafting) - paid)):
            value -= reached * rate * (self.drafting[paid + more] - self.drafting[paid + more - 1])
            value += reached * (1.0 - acceptance) * sent
            reached *= acceptance
            tokens += survival
            sent = max(sent, tokens - rate * self.passes[drafted + more])
            best = max(best, value + reached * sent)
        return best


class Draft:
    """A round's draft while it grows."""

    def __init__(self, times: RoundTimes, acceptance: Acceptance, rate: float, bearable: float, plain_s: float) -> None:
        """`bearable`: plain passes that it may lose if all of it fails. `plain_s`: seconds of one."""
        self.times, self.acceptance, self.rate = times, acceptance, rate
        self.bearable, self.plain_s = bearable, plain_s
        self.limit = len(times.passes) - 1
        self.tokens: list[Candidate] = []
        self.paid = 0
        """The number of tokens that the round waited for the model to draft."""
        self.survival, self.expected = 1.0, 1.0
        """The chance that all are accepted, and the tokens that the round is expected to yield."""
        self.values = [1.0 - rate * times.passes[0]]
        """V of sending so many of its tokens. What drafting took does not count: it is spent."""

    def add(self, candidate: Candidate) -> None:
        self.tokens.append(candidate)
        self.paid += candidate.paid
        self.survival *= self.acceptance.expected(candidate)
        self.expected += self.survival
        self.values.append(self.expected - self.rate * self.times.passes[len(self.tokens)])

    def gain(self, length: int) -> float:
        """The expected speed of a round that sends so many tokens, against plain decoding."""
        passes = self.times.passes[length]
        return (self.values[length] + self.rate * passes) / (passes + self.times.drafting[self.paid])

    def bears(self, length: int, paid: int) -> bool:
        """Can the budget bear that a draft of this length fails, if the model drafts `paid` of its tokens?"""
        return self.times.passes[length] - 1.0 + self.times.drafting[paid] <= self.bearable

    def best(self, least: int = 0, bearable: bool = True) -> int:
        """The best length to send: 0, or from `least` on. `bearable`: of those that may fail."""
        lengths = range(max(1, least), len(self.tokens) + 1)
        return max([0, *(n for n in lengths if not bearable or self.bears(n, self.paid))], key=self.values.__getitem__)

    def with_copy(self, copied: Sequence[Candidate]) -> tuple[int, float]:
        """How many of these repeated tokens to add for the greatest value, and that value."""
        best, value, survival, expected = 0, max(self.values), self.survival, self.expected
        for length, candidate in enumerate(copied, 1):
            survival *= self.acceptance.expected(candidate)
            expected += survival
            longer = expected - self.rate * self.times.passes[len(self.tokens) + length]
            if longer > value:
                best, value = length, longer
        return best, value

    def with_model(self) -> float:
        """The greatest value of drafting on with the model."""
        return self.times.outlook(
            self.acceptance.undrafted(),
            self.rate,
            self.survival,
            self.expected,
            max(self.values),
            len(self.tokens),
            self.paid,
        )

    def expected_value(self) -> tuple[int, float, bool]:
        """The expected-value rule of llama.cpp's discussion #10466, as its author last stated it: the best length, its value
        in tokens per second, and whether one more token may be better.

        All or nothing: a draft of k tokens is worth the chance that all are accepted times the target's speed at k + 1 tokens.
        """
        speeds = [n / passes / self.plain_s for n, passes in enumerate(self.times.passes, 1)]
        best, value, chance = 0, speeds[0], 1.0
        for length, candidate in enumerate(self.tokens, 1):
            chance *= candidate.p
            if chance * speeds[length] > value:
                best, value = length, chance * speeds[length]
        length, drafting = len(self.tokens), self.times.drafting
        price = drafting[-1] - drafting[-2]  # the author's: the ratio of the two models' speeds
        longer = range(length + 1, min(self.limit, best + _LOOKAHEAD) + 1)
        return best, value, best == length or any(chance * (speeds[n] - price * (n - length)) > value for n in longer)
