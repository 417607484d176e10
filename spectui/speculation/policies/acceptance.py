"""The expected acceptance of a drafted token: Beta estimates, learned from accepted and rejected tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log2

from spectui.speculation.records import Candidate

_PRIOR = 10.0
"""Prior strength of a confidence, in observations."""

_DECAY = 0.99
"""Decay of all observations in each round: text changes between prose and code. So what failed is tried again after a while."""

_BINS = 12
"""Confidences above 1 - 2**-12 share a bin."""

_LONG_MATCH = 0.96
"""Expected acceptance after a long match: in the recorded replies, copied text changes once in 25 tokens."""

_HALF_MATCH = 12.0
"""Square of the match length at which the expected acceptance is half of that."""

_AHEAD = "ahead"
"""The source of model tokens that are not drafted yet. Their confidence is the target's recent one."""

_LATELY = 0.2
"""EWMA weight of an emitted token in the target's confidence."""

_OPENING = 0.6
"""The same before anything was written: the target's in the first tokens of a reply."""

Kind = tuple[str, int, int]


class Acceptance:
    """Beta counts per source, confidence bin and match length."""

    def __init__(self) -> None:
        self._accepted: dict[Kind, float] = {}
        self._judged: dict[Kind, float] = {}
        self._confidence = _OPENING

    def expected(self, candidate: Candidate) -> float:
        """Expected acceptance of a drafted token, if those before it are accepted. 0..1"""
        return self._mean(_kind(candidate.source, candidate.p, candidate.match), candidate.p)

    def expected_ahead(self, confidence: float | None = None) -> float:
        """Expected acceptance of a token that the draft model has not drafted yet. 0..1

        `confidence`: the target's, by default its recent one. Where it is high its draft mostly agrees, and it is known without
        drafting.
        """
        confidence = self._confidence if confidence is None else confidence
        return self._mean(_kind(_AHEAD, confidence, 0), confidence)

    def _mean(self, kind: Kind, prior: float) -> float:
        accepted, judged = self._accepted.get(kind, 0.0), self._judged.get(kind, 0.0)
        return (accepted + _PRIOR * prior) / (judged + _PRIOR)

    def observe(self, drafted: Sequence[Candidate], emitted: Sequence[int], confidences: Sequence[float]) -> None:
        """Learn from a round: what was drafted beside what was emitted, up to the first difference.

        A token that was drafted and not sent is judged too, where the target came as far. `confidences`: the target's, of
        its likeliest token at each position.
        """
        self._accepted = {kind: _DECAY * count for kind, count in self._accepted.items()}
        self._judged = {kind: _DECAY * count for kind, count in self._judged.items()}
        for candidate, token in zip(drafted, emitted, strict=False):
            accepted = candidate.id == token
            self._count(_kind(candidate.source, candidate.p, candidate.match), accepted)
            if candidate.source == "model":
                self._count(_kind(_AHEAD, self._confidence, 0), accepted)
            if not accepted:
                break
        for confidence in confidences:
            self._confidence += _LATELY * (min(confidence, 1.0) - self._confidence)

    def _count(self, kind: Kind, accepted: bool) -> None:
        self._accepted[kind] = self._accepted.get(kind, 0.0) + accepted
        self._judged[kind] = self._judged.get(kind, 0.0) + 1.0


def match_prior(match: int) -> float:
    """The chance that text goes on as it did after a match of this length, before anything is known of the text.

    One word in common says little, a dozen nearly everything: .07, .24, .41, .55, .65, .72 ... .89 at 12.
    """
    return _LONG_MATCH * match * match / (match * match + _HALF_MATCH)


@lru_cache(4096)
def _kind(source: str, p: float, match: int) -> Kind:
    """Source, confidence bin, match-length bin. Confidence bins are narrow near 1, where drafts are long."""
    if match:
        # A match's confidence is mostly its length, which has a bin of its own; the rest is how often the token followed.
        return source, int(4 * p / match_prior(match) + 1e-9), min(12, int(2 * log2(match + 1)))
    return source, int(-2 * log2(max(1.0 - p, 2.0**-_BINS))), 0
