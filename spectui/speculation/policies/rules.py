"""`--policy`: whether a draft goes on, and how much of it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spectui.knobs import Knobs
from spectui.speculation.policies.plan import Draft
from spectui.speculation.records import Reason, ReasonKind

_LOOKAHEAD = 5
"""Tokens behind the best length that the expected-value rule considers."""


class Rule(NamedTuple):
    """`goes_on`: is one more token worth its time? `waits`: it is the model's, and not drafted yet. `sends`: how many tokens
    are sent, and why. `asked`: there was no more to ask; else the model was not asked."""

    goes_on: Callable[[Draft, bool], bool]
    sends: Callable[[Draft, Knobs, bool], tuple[int, Reason]]


def _auto_goes_on(draft: Draft, waits: bool) -> bool:
    n = len(draft.tokens)
    if not waits:
        return True
    if not draft.rounds.drafting[-1]:
        return n < 2  # the second token shows what a drafted token costs
    return draft.paid + 1 < len(draft.rounds.drafting) and draft.bears(n + 1, draft.paid + 1) and draft.asks()


def _auto_sends(draft: Draft, knobs: Knobs, asked: bool) -> tuple[int, Reason]:
    if not draft.tokens:
        if asked:
            return 0, Reason("no match", limit=draft.limit)
        if not draft.bears(1, 1):
            return 0, Reason("budget")
        return 0, Reason("unlikely", 0, draft.limit, None, draft.acceptance.undrafted(), draft.rate, *draft.rounds)
    if length := draft.best(knobs.draft_min):
        return length, Reason("draft", length, draft.limit, draft.gain(length))
    if draft.best(knobs.draft_min, bearable=False):
        return 0, Reason("budget")
    return 0, Reason("uncertain", expected_acceptance=draft.acceptance.expected(draft.tokens[0]))


def _fixed_sends(draft: Draft, knobs: Knobs, asked: bool) -> tuple[int, Reason]:
    length = len(draft.tokens)
    if length and length < knobs.draft_min:
        return 0, Reason("draft-min", limit=knobs.draft_min, drafted=length)
    kind: ReasonKind = "draft" if length else "no match" if draft.refused is None else "p-min"
    return length, Reason(kind, length, draft.limit, confidence=draft.refused)


def _expected(draft: Draft) -> tuple[int, float, float, list[float]]:
    """The best length, its value, the chance of the whole draft, and the target's tokens per second by draft length.

    All or nothing: a draft of k tokens is worth the chance that all are accepted times the target's speed at k + 1 tokens.
    """
    speeds = [n / passes / draft.plain_s for n, passes in enumerate(draft.rounds.passes, 1)]
    best, value, chance = 0, speeds[0], 1.0
    for length, candidate in enumerate(draft.tokens, 1):
        chance *= candidate.p
        if chance * speeds[length] > value:
            best, value = length, chance * speeds[length]
    return best, value, chance, speeds


def _expected_goes_on(draft: Draft, waits: bool) -> bool:
    best, value, chance, speeds = _expected(draft)
    length, drafting = len(draft.tokens), draft.rounds.drafting
    price = drafting[-1] - drafting[-2]  # the author's: the ratio of the two models' speeds
    longer = range(length + 1, min(draft.limit, best + _LOOKAHEAD) + 1)
    return best == length or any(chance * (speeds[n] - price * (n - length)) > value for n in longer)


def _expected_sends(draft: Draft, knobs: Knobs, asked: bool) -> tuple[int, Reason]:
    best, value, _, _ = _expected(draft)
    length = min(best + 1, len(draft.tokens))
    return length, Reason("expected" if length else "no match", length, draft.limit, value)


RULES = {
    "auto": Rule(_auto_goes_on, _auto_sends),
    "fixed": Rule(lambda draft, waits: True, _fixed_sends),
    "expected": Rule(_expected_goes_on, _expected_sends),
}
"""auto: the length of the greatest value. fixed: draft-max, draft-min and p-min as llama.cpp means them. expected: the
expected-value rule of llama.cpp's discussion #10466, as its author last stated it."""
