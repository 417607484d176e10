"""What a draft is worth: expected tokens against expected time, at the going rate.

By renewal reward the long-run speed E[tokens] / E[time] is greatest if each round maximises
`V(m) = 1 + S_1 + .. + S_m - rate * time(m)`: S_i is the chance that the first i drafted tokens are all accepted, `time(m)` the
round's in plain passes, and `rate` the tokens per plain pass that were reached lately (Dinkelbach 1967).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, inf
from typing import TYPE_CHECKING, NamedTuple

from spectui.speculation.records import Candidate

if TYPE_CHECKING:
    from spectui.speculation.policies.cost_model import CostModel

_LEARN, _FADE = 0.1, 0.99
"""Step of a calibration for each token that was judged; the share of it that is kept in each round, so that what failed is
tried again after a while."""

_MOST, _LIKELY = 0.999, 0.8
"""No confidence counts as more; repetitions are learned from where they are this likely: most others are words in common, which
say nothing of a copied page."""

_LATELY, _OPENING = 0.2, 0.6
"""EWMA weight of a token in the target's confidence, and that of the first tokens of a reply."""

_LOOKAHEAD = 5
"""Tokens after the best length that the expected-value rule considers."""


class Acceptance:
    """How likely the target agrees with a drafted token, if it agreed with all before it.

    The odds of a confidence, times one factor for each kind of token, which makes as many fail as are expected to. Kinds are
    the sources, and the model's tokens that are not drafted yet. Of those the target's own confidence counts: where it
    is confident, its draft mostly agrees, and that is known without drafting.
    """

    def __init__(self) -> None:
        self._logs = {"model": 0.0, "suffix": 0.0, "grammar": 0.0, "undrafted": 0.0}
        self._confidence = _OPENING

    def expected(self, candidate: Candidate) -> float:
        """Of a drafted token. 0..1"""
        return self._calibrated("model" if candidate.modelled else candidate.source, candidate.p)

    def undrafted(self, confidence: float | None = None) -> float:
        """Of a token that the model has yet to draft. 0..1 `confidence`: the target's; by default its recent one."""
        return self._calibrated("undrafted", self._confidence if confidence is None else confidence)

    def _calibrated(self, kind: str, p: float) -> float:
        odds = exp(self._logs[kind]) * min(p, _MOST)
        return odds / (1.0 - min(p, _MOST) + odds)

    def observe(self, drafted: Iterable[Candidate], emitted: Iterable[int], confidences: Iterable[float]) -> None:
        """Learn from a round: what was drafted beside what was emitted, up to the first difference.

        A token that was drafted and not sent is judged too, where the target came as far. `confidences`: the target's, of its
        likeliest token at each position.
        """
        self._logs = {kind: _FADE * factor for kind, factor in self._logs.items()}
        for candidate, token in zip(drafted, emitted, strict=False):
            accepted = candidate.id == token
            if candidate.modelled or candidate.p >= _LIKELY:
                kind = "model" if candidate.modelled else candidate.source
                self._logs[kind] += _LEARN * (accepted - self.expected(candidate))
            if candidate.modelled:
                self._logs["undrafted"] += _LEARN * (accepted - self.undrafted())
            if not accepted:
                break
        for confidence in confidences:
            self._confidence += _LATELY * (min(confidence, 1.0) - self._confidence)


class RoundTimes(NamedTuple):
    """The time of rounds, in plain passes."""

    passes: tuple[float, ...]
    """Of the target's pass, by draft length."""
    drafting: tuple[float, ...]
    """By number of tokens that the draft model drafts, up to the most that it can."""

    @classmethod
    def of(cls, costs: CostModel, context: int, longest: int) -> RoundTimes:
        """After so many tokens, with drafts of 0 to `longest` tokens."""
        plain = costs.verify(1, context)
        most = longest if costs.max_drafted is None else min(costs.max_drafted, longest)
        passes = tuple(costs.verify(length + 1, context) / plain for length in range(longest + 1))
        return cls(passes, tuple(costs.drafting(length) / plain for length in range(most + 1)))

    def losing(self, most: float) -> RoundTimes:
        """Those of drafts up to the longest that loses no more plain passes than this, if all of it fails."""
        last = len(self.drafting) - 1
        lost = [passes - 1.0 + self.drafting[min(length, last)] for length, passes in enumerate(self.passes)]
        return self._up_to(max((length for length, passes in enumerate(lost) if passes <= most), default=0))

    def within(self, most: float) -> RoundTimes:
        """Those of drafts up to the longest whose pass takes no more plain passes than this; of one token in any case."""
        return self._up_to(max(length for length, passes in enumerate(self.passes) if length < 2 or passes <= most))

    def _up_to(self, longest: int) -> RoundTimes:
        return RoundTimes(self.passes[: longest + 1], self.drafting[: longest + 1])

    def speed_up(self, acceptance: float, length: int) -> float:
        """Expected against plain decoding, if all drafts have this length and each token is accepted with this chance.

        The tokens of such a round: Leviathan et al. 2023, eq. 1.
        """
        return sum(acceptance**k for k in range(length + 1)) / (self.passes[length] + self.drafting[length])

    def best(self, acceptance: float) -> float:
        """The speed-up of the best length but 0."""
        return max((self.speed_up(acceptance, length) for length in range(1, len(self.drafting))), default=0.0)


class Draft:
    """A round's draft while it grows."""

    def __init__(self, times: RoundTimes, rate: float, plain_s: float = 1.0) -> None:
        """`plain_s`: seconds of a plain pass."""
        self.times, self.rate, self.plain_s = times, rate, plain_s
        self.limit = len(times.passes) - 1
        self.tokens: list[Candidate] = []
        self.paid = 0
        """The number of tokens that the round waited for the model to draft."""
        self.survival, self.expected = 1.0, 1.0
        """The chance that all are accepted, and the tokens that the round is expected to yield."""
        self.values = [1.0 - rate * times.passes[0]]
        """V of sending so many of its tokens. What drafting took does not count: it is spent."""

    def add(self, candidate: Candidate, acceptance: float) -> None:
        self.tokens.append(candidate)
        self.paid += candidate.paid
        self.survival *= acceptance
        self.expected += self.survival
        self.values.append(self.expected - self.rate * self.times.passes[len(self.tokens)])

    def gain(self, length: int) -> float:
        """The expected speed of a round that sends so many tokens, against plain decoding."""
        passes = self.times.passes[length]
        return (self.values[length] + self.rate * passes) / (passes + self.times.drafting[self.paid])

    def best(self, least: int = 0) -> int:
        """The best length to send: 0, or from `least` on."""
        lengths: list[int] = [0, *range(max(1, least), len(self.tokens) + 1)]
        return max(lengths, key=self.values.__getitem__)

    def with_copy(self, acceptances: Iterable[float]) -> tuple[int, float]:
        """How many of the repeated tokens that are accepted so to add for the greatest value, and that value."""
        best, value, survival, expected = 0, max(self.values), self.survival, self.expected
        for length, acceptance in enumerate(acceptances, 1):
            survival *= acceptance
            expected += survival
            if (longer := expected - self.rate * self.times.passes[len(self.tokens) + length]) > value:
                best, value = length, longer
        return best, value

    def with_model(self, acceptance: float) -> float:
        """The greatest value of drafting on with the model.

        Each further token is accepted with this chance, and the model's confidence is taken to tell the first one that is not:
        drafting ends there, and what was drafted before it is sent.
        """
        length, drafting = len(self.tokens), self.times.drafting[self.paid :]
        best, value, reached, expected, sent = -inf, 0.0, 1.0, self.expected, max(self.values)
        for more in range(1, min(self.limit - length + 1, len(drafting))):
            value -= reached * self.rate * (drafting[more] - drafting[more - 1])
            value += reached * (1.0 - acceptance) * sent
            reached *= acceptance
            expected += self.survival
            sent = max(sent, expected - self.rate * self.times.passes[length + more])
            best = max(best, value + reached * sent)
        return best


def expected_value(draft: Draft) -> tuple[int, float, bool]:
    """The expected-value rule of llama.cpp's discussion #10466, as its author last stated it: the best length, its value in
    tokens per second, and whether one more token may be better.

    All or nothing: a draft of k tokens is worth the chance that all are accepted times the target's speed at k + 1 tokens.
    """
    speeds = [n / passes / draft.plain_s for n, passes in enumerate(draft.times.passes, 1)]
    best, value, chance = 0, speeds[0], 1.0
    for length, candidate in enumerate(draft.tokens, 1):
        chance *= candidate.p
        if chance * speeds[length] > value:
            best, value = length, chance * speeds[length]
    length, drafting = len(draft.tokens), draft.times.drafting
    price = drafting[-1] - drafting[-2]  # the author's: the ratio of the two models' speeds
    longer = range(length + 1, min(draft.limit, best + _LOOKAHEAD) + 1)
    return best, value, best == length or any(chance * (speeds[n] - price * (n - length)) > value for n in longer)
