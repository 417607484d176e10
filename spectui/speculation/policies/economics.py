"""What a draft is worth: expected tokens against expected seconds, in the currency of this machine.

By renewal reward the long-run speed E[tokens] / E[seconds] is greatest if each round maximises
`V(m) = 1 + sum_{i<=m} S_i - rate * seconds(m)`, where S_i is the chance that the first i drafted tokens are all accepted and
`rate` the best speed reached so far, in tokens per second (Dinkelbach 1967).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from statistics import median

from spectui.speculation.policies.acceptance import Calibration
from spectui.speculation.policies.cost_model import DraftCost, VerifyCost
from spectui.speculation.policies.loss_budget import LOOK, Ledger
from spectui.speculation.records import Candidate, DraftToken, Round

_RATE = 0.05

_LONGEST = 16
"""Tokens of the longest draft of the model's that is looked at beforehand."""


@dataclass(frozen=True)
class Stop:
    """The best place to stop drafting, its value in tokens, and the tokens that it is expected to yield."""

    length: int
    value: float
    tokens: float


class Economics:
    """Costs, chances and the going rate of one pair of models; lives as long as the pair is loaded."""

    def __init__(self, verify: VerifyCost | None = None, draft: DraftCost | None = None) -> None:
        self.verify = verify or VerifyCost()
        self.draft = draft or DraftCost()
        self.calibration = Calibration()
        self.ledger = Ledger()
        self.unread_s = 0.0
        """Seconds that the draft model would have to read before it can draft; 0 where it may draft."""
        self.charged_s = 0.0
        """Seconds that it may read on the ledger's account."""
        self.elapsed = 0.0
        self._tokens = 0.0
        self._seconds = 0.0
        self._caught_up = False  # the draft model drafted in the last round: its next token has little to catch up on

    def rate(self, context: int, drafted: Sequence[Candidate] = (), survivals: Sequence[float] = ()) -> float:
        """Tokens per second that a second is worth: the best of plain decoding, of what was reached lately, and of what
        a repeated passage reaches: what is cut off it is not lost, because the next round can draft it again.
        """
        rate = 1.0 / self.verify(1, context)
        if self._seconds:
            rate = max(rate, self._tokens / self._seconds)
        drafting = self.drafting(by_model(drafted))
        tokens = 1.0
        for length, (candidate, survival) in enumerate(
            zip(drafted, survivals or self.survivals(drafted), strict=True), 1
        ):
            tokens += survival
            if candidate.source == "suffix":
                rate = max(rate, tokens / (self.verify(length + 1, context) + drafting))
        return rate

    def survivals(self, drafted: Sequence[Candidate]) -> list[float]:
        """S_1, S_2 ..: the chance that all drafted tokens up to each are accepted."""
        return list(accumulate(map(self.calibration.chance, drafted), mul))

    def drafting(self, n: int) -> float:
        """Seconds for the draft model to draft n tokens, at the machine's present speed."""
        return self.verify.speed * self.draft.total(n)

    def row(self, n: int, context: int) -> float:
        """What each row that joins a pass costs on average where n of them do, in plain passes."""
        return (self.verify(1 + n, context) / self.verify(1, context) - 1) / n if n > 0 else 0.0

    def best_stop(self, drafted: Sequence[Candidate], context: int, least: int = 0, doubt: float = 0.0) -> Stop:
        """Where to cut this draft, which is already paid for. Length 0 is a plain round; else at least `least`.

        `doubt`: tokens that each further one must be worth beyond its cost.
        """
        survivals = self.survivals(drafted)
        rate = self.rate(context, drafted, survivals)
        tokens = 1.0
        best = Stop(0, 1.0 - rate * self.verify(1, context), 1.0)
        for length, survival in enumerate(survivals, 1):
            tokens += survival
            value = tokens - rate * self.verify(length + 1, context) - doubt * length
            if value > best.value and length >= least:
                best = Stop(length, value, tokens)
        return best

    def best_extension(self, drafted: Sequence[Candidate], context: int, limit: int, rate: float = 0.0) -> Stop:
        """The best that drafting on with the model is expected to reach, its cost paid from here.

        `rate`: what a second is worth, if something other than this draft says so.
        """
        rate, chance = rate or self.rate(context, drafted), self.calibration.hope()
        survivals = [1.0, *self.survivals(drafted)]
        tokens, survival = sum(survivals), survivals[-1]
        begun = by_model(drafted)
        paid = self.drafting(begun)
        best = Stop(0, float("-inf"), 0.0)
        for length in range(len(drafted) + 1, limit + 1):
            survival *= chance
            tokens += survival
            drafting = self.drafting(begun + length - len(drafted)) - paid
            value = tokens - rate * (self.verify(length + 1, context) + drafting)
            if value > best.value:
                best = Stop(length, value, tokens)
            elif survival < 0.01:
                break
        return best

    def observe(self, round: Round, drafted: Sequence[Candidate]) -> None:
        """Learn from a finished round."""
        context = round.position
        self.verify.observe(round.pass_size, context, round.verify_s)
        place = 0  # in a run of the model's: its first token catches up on what others added
        moods = []
        for candidate in drafted:
            if candidate.source == "model":
                seconds = candidate.seconds / self.verify.speed
                self.draft.observe(place, seconds)
                if seconds and (place or self._caught_up):
                    moods.append(seconds / (self.draft.total(place + 1) - self.draft.total(place)))
            place = place + 1 if candidate.source == "model" else 0
        self._caught_up = any(candidate.source == "model" for candidate in drafted)
        self.calibration.observe(drafted, [token.id for token in round.tokens])
        for sure in round.sure:
            self.calibration.wrote(sure)
        n = len(round.tokens)
        if not self._seconds:  # a lucky first round must not set the standard
            self._tokens, self._seconds = 1.0, self.verify(1, context)
        self._tokens += _RATE * (n - self._tokens)
        self._seconds += _RATE * (round.seconds - self._seconds)
        self.elapsed += round.seconds
        if round.knobs.policy == "auto":  # what a fixed length loses is a person's wish
            gained = self._gained(round, n, context, median(moods) if moods else 1.0) if drafted else 0.0
            plain = self.verify(1, context)
            looked = 0.0 if by_model(drafted) else min(LOOK, round.draft_s / plain)
            self.ledger.add(gained / plain, round.seconds / plain, looked)

    def _gained(self, round: Round, emitted: int, context: int, mood: float) -> float:
        """Seconds that a round with a draft gained against plain decoding; below 0 it lost.

        A pass that took longer than usual is the machine's doing: plain ones would have. So were drafted tokens that took
        `mood` times as long as usual, and what is left of a hiccup counts at most as the round's own cost once more. What
        looking for repetitions takes is not in it.
        """
        verify, models = self.verify(round.pass_size, context), by_model(round.drafted)
        most = verify + 2 * self.drafting(models) + self.charged_s
        drafting = min(round.draft_s / mood, most) if models else 0.0
        return emitted * self.verify(1, context) - verify - drafting

    def passes(self, length: int, context: int) -> float:
        """What a round with a draft of the model's costs, in plain passes."""
        return (self.verify(length + 1, context) + self.drafting(length)) / self.verify(1, context)

    def saves(self, context: int) -> float:
        """Seconds by which a token is expected to come sooner where the model drafts than where nothing does."""
        hope = self.calibration.hope(self.calibration.usual)
        passes = min(self.passes(length, context) / expected_tokens(hope, length) for length in range(1, _LONGEST + 1))
        return max(0.0, 1.0 - passes) * self.verify(1, context)

    def needed(self, length: int, context: int, rate: float = 0.0) -> float | None:
        """The acceptance from which drafts of this length pay; None if they cannot.

        `rate`: tokens per second that a second is worth, where that is more than plain decoding's.
        """
        worth = max(1.0, rate * self.verify(1, context))
        passes = 1.0 + worth * (self.passes(length, context) - 1.0)
        if passes >= length + 1:
            return None
        left, right = 0.0, 1.0
        for _ in range(12):
            middle = (left + right) / 2
            left, right = (left, middle) if expected_tokens(middle, length) >= passes else (middle, right)
        return right

    def break_even(self, context: int, limit: int, rate: float = 0.0) -> float | None:
        """The acceptance from which drafting with the model pays at some length; None if it never does."""
        needed = (self.needed(length, context, rate) for length in range(1, min(limit, _LONGEST) + 1))
        return min((acceptance for acceptance in needed if acceptance is not None), default=None)


def expected_tokens(acceptance: float, length: int) -> float:
    """Tokens that a round yields if each drafted one is accepted with this chance (Leviathan et al. 2023, eq. 1)."""
    return sum(acceptance**k for k in range(length + 1))


def by_model(drafted: Sequence[Candidate | DraftToken]) -> int:
    """How many of these tokens the draft model has drafted."""
    return sum(token.source == "model" for token in drafted)
