"""What speculation costs and yields, estimated from the rounds themselves. An estimate is called one where it is shown; the
speed-up is only known once the same prompt was decoded plainly. And from which acceptance on drafts pay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spectui.speculation.policies.draft import Draft, RoundTimes
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics

_EVIDENCE = 4
"""Rounds that must have reached a position in the draft before its acceptance is used."""


class Payoff(NamedTuple):
    """An average round: what it costs in plain rounds (its break-even), and the tokens that it yields."""

    passes: float
    tokens: float

    @property
    def pays(self) -> float:
        """How many times faster than plain decoding: as many times as it yields tokens at most, since a round costs a pass."""
        return self.tokens / max(1.0, self.passes)


def payoff(rounds: Sequence[Round]) -> Payoff | None:
    """The average cost and yield of these rounds; None before plain passes were measured, or if no draft was judged."""
    known = [round for round in rounds if round.plain_s]
    if not any(token.fate != "ignored" for round in known for token in round.drafted):
        return None
    n = len(known)
    passes = sum(round.seconds for round in known) / n / (_plain_s(known) + _rest_s(known))
    return Payoff(passes, sum(len(round.tokens) for round in known) / n)


def speed_ups(rounds: Sequence[Round], reply: Statistics) -> list[float]:
    """The expected speed-ups by draft-max, from 0 on, from these rounds' acceptance by position and costs.

    A pass over n tokens is taken to cost `plain + slope * (n - 1)`, the slope fitted to the rounds; a drafted token costs their
    mean. Where the parts of a round's time are not known, drafting is in the slope. [] if too little was drafted to tell.
    """
    known = [round for round in rounds if round.plain_s]
    drafted = sum(len(round.drafted) for round in known)
    if not drafted:
        return []
    plain_s, rest_s = _plain_s(known), _rest_s(known)
    draft_s = sum(round.draft_s for round in known) / drafted
    more = [(round.pass_size - 1, (round.verify_s or round.seconds) - (round.plain_s or 0.0)) for round in known]
    squares = sum(size * size for size, _ in more)
    slope = max(0.0, sum(size * seconds for size, seconds in more) / squares) if squares else 0.0
    pays, tokens, survival = [1.0], 1.0, 1.0
    for rate, reached in zip(reply.per_position, reply.reached, strict=True):
        if rate is None or reached < _EVIDENCE:
            break
        survival *= rate
        tokens += survival
        length = len(pays)
        pays.append(tokens * (plain_s + rest_s) / (plain_s + rest_s + length * (slope + draft_s)))
    return pays if len(pays) > 1 else []


def _plain_s(rounds: Sequence[Round]) -> float:
    """Seconds of a plain pass: the median of what was expected in these rounds.

    What was measured at load, while the machine was busy, may be many times too much for the first ones.
    """
    return sorted(round.plain_s or 0.0 for round in rounds)[len(rounds) // 2]


def _rest_s(rounds: Sequence[Round]) -> float:
    """Seconds that a plain round takes beside its pass: choosing, and Python's. The median of those that were made, else of all
    rounds. 0 where the parts of a round's time are not known.
    """
    timed = [round for round in rounds if round.verify_s]
    plain = [round for round in timed if round.pass_size == 1]
    rest = sorted(round.choose_s + round.rest_s for round in plain or timed)
    return rest[len(rest) // 2] if rest else 0.0


def break_even(times: RoundTimes, length: int | None = None) -> float | None:
    """The acceptance from which drafts of this length, or of the best, are faster than plain decoding; None if at none."""
    return _least(lambda chance: (times.best(chance) if length is None else times.speed_up(chance, length)) > 1.0)


def needed(times: RoundTimes, rate: float) -> float | None:
    """The expected acceptance above which the model is asked for a first token at this going rate; None if it is at none."""
    nothing = Draft(times, rate)
    return _least(lambda chance: nothing.with_model(chance) > nothing.values[0])


def _least(pays: Callable[[float], bool]) -> float | None:
    """The least acceptance that pays, to 1/4096."""
    if not pays(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
