"""What a draft is worth: expected tokens against expected time, at the going rate.

By renewal reward the long-run speed E[tokens] / E[time] is greatest if each round maximises
`V(m) = 1 + S_1 + .. + S_m - rate * time(m)`: S_i is the chance that the first i drafted tokens are all accepted, `time(m)` the
round's in plain passes, and `rate` the tokens per plain pass that were reached lately (Dinkelbach 1967).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import Candidate


def expected_tokens(acceptance: float, length: int) -> float:
    """Of a round that sends so many tokens, if each is accepted with this chance (Leviathan et al. 2023, eq. 1)."""
    return sum(acceptance**k for k in range(length + 1))


class Rounds(NamedTuple):
    """The time of rounds, in plain passes."""

    passes: tuple[float, ...]
    """Of the target's pass, by draft length."""
    drafting: tuple[float, ...]
    """By number of tokens that the draft model drafts, up to the most that it can."""

    @classmethod
    def of(cls, costs: CostModel, context: int, longest: int) -> Rounds:
        """Behind so many tokens, with drafts of 0 to `longest` tokens."""
        plain, most = costs.verify(1, context), longest if costs.foresees is None else min(costs.foresees, longest)
        passes = (costs.verify(length + 1, context) / plain for length in range(longest + 1))
        return cls(tuple(passes), tuple(costs.drafting(length) / plain for length in range(most + 1)))

    def speed_up(self, acceptance: float, length: int) -> float:
        """Expected against plain decoding, if all drafts have this length."""
        return expected_tokens(acceptance, length) / (self.passes[length] + self.drafting[length])

    def best(self, acceptance: float) -> float:
        """That of the best length but 0."""
        return max((self.speed_up(acceptance, length) for length in range(1, len(self.drafting))), default=0.0)

    def break_even(self, length: int | None = None) -> float | None:
        """The acceptance from which drafts of this length, or of the best, are faster than plain decoding; None if at none."""
        return _least(lambda chance: (self.best(chance) if length is None else self.speed_up(chance, length)) > 1.0)

    def needed(self, rate: float) -> float | None:
        """The expected acceptance above which the model is asked for a first token; None if it is at none."""
        plain = 1.0 - rate * self.passes[0]
        return _least(lambda chance: self.pays(plain, chance, rate, 1.0, 1.0, plain))

    def pays(
        self, enough: float, acceptance: float, rate: float, survival: float, tokens: float, sent: float,
        drafted: int = 0, paid: int = 0,
    ) -> bool:  # fmt: skip
        """Is drafting on with the model worth more than `enough`, behind a draft that survives with chance `survival`, yields
        `tokens`, and is worth `sent`?

        Each further token is accepted with this acceptance, and the model's confidence is taken to tell the first one that is
        not: drafting ends there, and what was drafted before it is sent.
        """
        value, reached = 0.0, 1.0
        for more in range(1, min(len(self.passes) - drafted, len(self.drafting) - paid)):
            value -= reached * rate * (self.drafting[paid + more] - self.drafting[paid + more - 1])
            value += reached * (1.0 - acceptance) * sent
            reached *= acceptance
            tokens += survival
            sent = max(sent, tokens - rate * self.passes[drafted + more])
            if value + reached * sent > enough:
                return True
        return False


def _least(pays: Callable[[float], bool]) -> float | None:
    """The least acceptance that pays, to 1/4096."""
    if not pays(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


class Draft:
    """A round's draft while it grows."""

    def __init__(self, rounds: Rounds, acceptance: Acceptance, rate: float, bearable: float, plain_s: float) -> None:
        """`bearable`: plain passes that it may lose if all of it fails. `plain_s`: seconds of one."""
        self.rounds, self.acceptance, self.rate = rounds, acceptance, rate
        self.bearable, self.plain_s = bearable, plain_s
        self.limit = len(rounds.passes) - 1
        self.tokens: list[Candidate] = []
        self.paid = 0
        """The number of tokens that the round waited for the model to draft."""
        self.refused: float | None = None
        """The confidence of the token that p-min kept out."""
        self._survival = [1.0]
        self._yield = [1.0]

    def add(self, candidate: Candidate) -> None:
        self.tokens.append(candidate)
        self.paid += candidate.paid
        self._survival.append(self._survival[-1] * self.acceptance.expected(candidate))
        self._yield.append(self._yield[-1] + self._survival[-1])

    def value(self, length: int) -> float:
        """V of sending so many of its tokens. What drafting took does not count: it is spent."""
        return self._yield[length] - self.rate * self.rounds.passes[length]

    def gain(self, length: int) -> float:
        """The expected speed of the round against plain decoding."""
        return self._yield[length] / (self.rounds.passes[length] + self.rounds.drafting[self.paid])

    def best(self, least: int = 0, bearable: bool = True) -> int:
        """The best length to send: 0, or from `least` on. `bearable`: of those that may fail."""
        lengths = range(max(1, least), len(self.tokens) + 1)
        return max([0, *(n for n in lengths if not bearable or self.bears(n, self.paid))], key=self.value)

    def bears(self, length: int, paid: int) -> bool:
        """Can the balance bear that a draft of this length fails, if the model drafts `paid` of its tokens?"""
        return self.rounds.passes[length] - 1.0 + self.rounds.drafting[paid] <= self.bearable

    def asks(self, enough: float | None = None) -> bool:
        """Is another token of the model expected to be worth more than `enough`, by default than to stop here?"""
        stop = self.value(self.best(bearable=False))
        return self.rounds.pays(
            stop if enough is None else enough, self.acceptance.undrafted(), self.rate, self._survival[-1], self._yield[-1],
            stop, len(self.tokens), self.paid,
        )  # fmt: skip

    def worthy(self, repeated: Sequence[Candidate], asks: bool) -> int:
        """How many of these repeated tokens to add: up to the length of the greatest value, none if the model is expected to
        reach more. `asks`: there is a model to ask; without one the first is added to learn from."""
        whole = Draft(self.rounds, self.acceptance, self.rate, self.bearable, self.plain_s)
        for candidate in (*self.tokens, *repeated):
            whole.add(candidate)
        length, begun = whole.best(bearable=False), len(self.tokens)
        if asks:
            return 0 if length <= begun or self.asks(whole.value(length)) else length - begun
        return max(length - begun, 0 if begun else len(repeated[:1]))
