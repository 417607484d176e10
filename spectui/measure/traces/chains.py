"""What the draft model would write at each position of a reply: recorded tokens, or random ones where none were recorded.

A round records what was drafted behind its first token. As long as the draft is right, that also tells what is drafted at the
following positions. Where a draft ended, and in rounds without one, nobody asked the model. There a token is drawn: at random
one of the recorded ones at positions where the target was about as confident, with its confidence and whether it was right.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from spectui.measure.traces.machine import costs_at_load, refused_by_model
from spectui.measure.traces.replies import RecordedReply
from spectui.measure.traces.simulation import Chain

LONGEST = 48
"""Tokens of a chain: the longest draft there is."""

_NEAR = 24
"""Number of recorded positions to draw one from: those with the nearest confidence of the target."""

_OTHER = -1
"""A drafted token that is not the text's, whatever it was."""

_CLOSE = 0.1
"""Confidences of the draft model this far apart tell about each other."""


Row = TypeVar("Row", bound=tuple[Any, ...])


class Known(NamedTuple):
    """What a reply shows of its draft model."""

    chains: dict[int, Chain]
    """By position in the text: the tokens that the model drafted there."""
    refused: dict[int, float]
    """By position: its confidence in a token that p-min refused, which is not recorded itself."""
    refused_behind: list[float]
    """The same of tokens behind a wrong one."""


class Drawn(NamedTuple):
    """A chain for each position of a reply."""

    chains: list[Chain]
    recorded: list[int]
    """How many tokens of each chain were recorded; the others are drawn."""


def known(reply: RecordedReply) -> Known:
    """The recorded part."""
    costs = costs_at_load(reply)
    next_s = costs.draft.next * costs.verify.drift
    text = reply.tokens
    chains: dict[int, Chain] = dict(reply.drafts)
    refused: dict[int, float] = {}
    behind: list[float] = []
    for each in reply.rounds:
        position = each.position
        right = 0
        for index, draft in enumerate(each.drafted):
            if draft.source == "model":
                rest = each.drafted[index:]
                length = next((n for n, other in enumerate(rest) if other.source != "model"), len(rest))
                if length > len(chains.get(position + index, ())):
                    chains[position + index] = [(other.id, other.p) for other in rest[:length]]
            if position + index >= len(text) or draft.id != text[position + index]:
                break
            right += 1
        p = refused_by_model(each, next_s)
        if p is not None and right == len(each.drafted):
            refused[position + right] = p
        elif p is not None:
            behind.append(p)
    return Known(chains, refused, behind)


class Draws:
    """Draws values that were not recorded."""

    def __init__(self, replies: Iterable[RecordedReply]) -> None:
        """`replies`: all by the same two models."""
        # Of the positions at which the model was asked: the target's confidence, the model's, and whether it was right, which
        # is not known of a token that p-min refused. Those must be among them: otherwise only confident tokens were drawn.
        self._at: list[tuple[float, float, bool | None]] = []
        self._behind: list[float] = []  # the model's confidence behind a wrong token
        self.size = 0
        """Positions at which the model's draft was recorded."""
        for reply in replies:
            found, text, begin = known(reply), reply.tokens, len(reply.asked.tokens)
            sure = [p for each in reply.rounds for p in each.sure]
            for position, chain in found.chains.items():
                if begin <= position < len(text):
                    right = _right(chain, text, position)
                    self._at.append((sure[position - begin], chain[0][1], right > 0))
                    self._behind += [p for _, p in chain[right + 1 :]]
                    self.size += 1
            for position, p in found.refused.items():
                if begin <= position < len(text) and position not in found.chains:
                    self._at.append((sure[position - begin], p, None))
            self._behind += found.refused_behind
        self._at.sort(key=lambda each: each[:2])
        self._by_p = sorted((p, right) for _, p, right in self._at if right is not None)

    def draw(self, reply: RecordedReply, found: Known, chance: Random) -> Drawn:
        """Chains for the whole reply."""
        text, begin = reply.tokens, len(reply.asked.tokens)
        sure = [p for each in reply.rounds for p in each.sure]
        chains: list[Chain] = [[] for _ in range(len(text) - begin + 1)]
        recorded = [0] * len(chains)
        for position in reversed(range(begin, len(text))):
            index = position - begin
            chain = list(found.chains.get(position, ()))
            recorded[index] = len(chain)
            if not chain:
                p, right = self._first(sure[index], found.refused.get(position), chance)
                chain = [(text[position] if right else _OTHER, p)]
            right_tokens = _right(chain, text, position)
            if right_tokens < len(chain):
                chain += [(_OTHER, self._tail(chance)) for _ in range(LONGEST - len(chain))]
            else:
                end = index + len(chain)
                if recorded[index] and end < len(chains):
                    recorded[index] += recorded[end]
                chain += chains[end] if end < len(chains) else []
            chains[index] = chain[:LONGEST]
        return Drawn(chains[:-1], recorded[:-1])

    def _first(self, sure: float, p: float | None, chance: Random) -> tuple[float, bool]:
        """The confidence of a token that was not recorded, or of one that was refused with confidence `p`; is it right?"""
        if p is None:
            _, p, right = chance.choice(_nearest(self._at, sure, _NEAR))
            if right is not None:
                return p, right
        close = [right for other, right in _nearest(self._by_p, p, _NEAR) if abs(other - p) < _CLOSE]
        # What is known of such confidences, and as much of what both confidences promise: measured with the pairs of
        # tests/speculation/recorded, a token of confidence .3 to .75 is right as often as their mean says.
        share = (sum(close) + _NEAR / 2 * (p + sure) / 2) / (len(close) + _NEAR / 2)
        return p, chance.random() < share

    def _tail(self, chance: Random) -> float:
        """The confidence of a token behind a wrong one."""
        return chance.choice(self._behind) if self._behind else chance.choice(self._at)[1]


def _right(chain: Chain, text: Sequence[int], position: int) -> int:
    """How many tokens of the chain are the text's."""
    pairs = enumerate(chain)
    return next((n for n, (token, _) in pairs if text[position + n : position + n + 1] != [token]), len(chain))


def _nearest(rows: Sequence[Row], key: float, count: int) -> Sequence[Row]:
    """The rows whose first values are nearest to the key; all of those that have just this one, if they are more."""
    first, last = bisect_left(rows, key, key=_first_value), bisect_right(rows, key, key=_first_value)
    if last - first >= count:
        return rows[first:last]
    start = max(0, min((first + last - count) // 2, len(rows) - count))
    return rows[start : start + count]


def _first_value(row: tuple[Any, ...]) -> float:
    value: float = row[0]
    return value
