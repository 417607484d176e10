"""What a draft is worth, in tokens: expected tokens against expected time, at the going rate.

By renewal reward the long-run speed E[tokens] / E[time] is greatest if each round maximises
`V(m) = 1 + S_1 + .. + S_m - rate * passes(m)`: S_i is the chance that the first i drafted tokens are all accepted, `passes(m)`
the round's time in plain passes, and `rate` the tokens per plain pass that were reached lately (Dinkelbach 1967).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import Candidate


class Stop(NamedTuple):
    """The length of a draft to send, its value, and its expected tokens."""

    length: int
    value: float
    tokens: float


class DraftValue:
    """The value of one round's draft while it grows. All times are in plain passes."""

    def __init__(self, costs: CostModel, acceptance: Acceptance, rate: float, context: int, limit: int) -> None:
        """`limit`: most tokens that may be drafted."""
        self.rate = rate
        self.limit = limit
        self._costs, self._acceptance, self._context = costs, acceptance, context
        self._survival = [1.0]
        self._tokens = [1.0]
        self._paid = [0]

    @cached_property
    def passes(self) -> list[float]:
        """By draft length: the time of the target's pass."""
        plain = self._costs.verify(1, self._context)
        return [self._costs.verify(length + 1, self._context) / plain for length in range(self.limit + 1)]

    @cached_property
    def drafting(self) -> list[float]:
        """By number of the draft model's tokens: the time to draft them."""
        costs, plain = self._costs, self._costs.verify(1, self._context)
        first, following = costs.drafting(1) / plain, (costs.drafting(2) - costs.drafting(1)) / plain
        return [0.0, *(first + following * n for n in range(self.limit))]

    @cached_property
    def expected_ahead(self) -> float:
        """The expected acceptance of a token that the draft model has yet to draft."""
        return self._acceptance.expected_ahead()

    @cached_property
    def _stops(self) -> list[Stop]:
        """The best length to send, by the most that may be sent, at the present rate."""
        return [Stop(0, 1.0 - self.rate * self.passes[0], 1.0)]

    @property
    def survival(self) -> float:
        """The probability that the whole draft is accepted. 0..1"""
        return self._survival[-1]

    @property
    def paid(self) -> int:
        """Number of drafted tokens that the round waited for."""
        return self._paid[-1]

    def expected(self, candidate: Candidate) -> float:
        """Expected acceptance, if all tokens before it are accepted. 0..1"""
        return self._acceptance.expected(candidate)

    def follow(self, drafted: Sequence[Candidate]) -> DraftValue:
        """Add the tokens drafted since the last call."""
        return self._add(drafted[len(self._survival) - 1 :])

    def after(self, more: Sequence[Candidate]) -> DraftValue:
        """The value with these tokens added; `self` does not change."""
        other = copy(self)
        other._survival, other._tokens, other._paid = self._survival[:], self._tokens[:], self._paid[:]
        other.__dict__.pop("_stops", None)
        return other._add(more)

    def _add(self, more: Sequence[Candidate]) -> DraftValue:
        for candidate in more[: self.limit + 1 - len(self._survival)]:
            self._survival.append(self._survival[-1] * self.expected(candidate))
            self._tokens.append(self._tokens[-1] + self._survival[-1])
            self._paid.append(self._paid[-1] + candidate.paid)
        return self

    def time(self, length: int) -> float:
        """The time of a round that sends `length` drafted tokens, in plain passes."""
        return self.passes[length] + self.drafting[self._paid[length]]

    def stop(self, most: int, least: int = 0) -> Stop:
        """The best length to send: 0 (a plain pass), or from `least` to `most`. The time of drafting does not count."""
        stops, most = self._stops, min(most, len(self._survival) - 1)
        if least > 1:
            return max([stops[0], *map(self._sending, range(least, most + 1))], key=lambda stop: stop.value)
        for length in range(len(stops), most + 1):
            stops.append(max(stops[-1], self._sending(length), key=lambda stop: stop.value))
        return stops[most]

    def _sending(self, length: int) -> Stop:
        return Stop(length, self._tokens[length] - self.rate * self.passes[length], self._tokens[length])

    def extends(self, enough: float) -> bool:
        """Would more tokens of the model raise the value above `enough`?"""
        begun, models = len(self._survival) - 1, self._paid[-1]
        return extends(
            enough, self.expected_ahead, self.rate, self.passes[begun:], self.drafting[models:], self._survival[-1],
            self._tokens[-1], self.stop(begun).value,
        )  # fmt: skip


def extends(
    enough: float,
    acceptance: float,
    rate: float,
    passes: Sequence[float],
    drafting: Sequence[float],
    survival: float,
    tokens: float,
    sent: float,
) -> bool:
    """Is drafting on worth more than `enough`, behind a draft that survives with chance `survival`, yields `tokens`, and is
    worth `sent`?

    `passes`, `drafting`: by number of further tokens, in plain passes. Each of those is accepted with this acceptance, and the
    model's confidence is taken to tell the first one that is not: drafting ends there, and what was drafted before it is sent.
    """
    value, reached = 0.0, 1.0
    for more in range(1, len(passes)):
        value -= reached * rate * (drafting[more] - drafting[more - 1])
        value += reached * (1.0 - acceptance) * sent
        reached *= acceptance
        tokens += survival
        sent = max(sent, tokens - rate * passes[more])
        if value + reached * sent > enough:
            return True
    return False
