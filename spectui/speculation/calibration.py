"""From a drafter's confidence to the chance that the target will agree, learned from what the target judged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log2, sqrt

from spectui.speculation.records import Candidate

_PRIOR = 4.0
"""Observations that the drafter's own word is worth."""

_CLAIMS = 2.0
"""Tokens that a source may promise in vain before its word counts for half."""

_DECAY = 0.99
"""Older observations fade: text changes from prose to code and back."""

_HOPE = 6.8, 8.0
"""Tokens kept and seen before any was: hopeful, because what is not tried is not learned."""

_BINS = 12


class Calibration:
    """Beta counts per kind of candidate: by source, by confidence, and for suffix matches by length."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], float] = {}
        self._seen: dict[tuple[str, int, int], float] = {}
        self.means = dict.fromkeys(("model", "suffix"), _HOPE)
        """By source: tokens kept and seen, the older ones faded."""
        self._claims: dict[str, tuple[float, float]] = {}

    def chance(self, candidate: Candidate) -> float:
        """P(the target agrees | it agreed with the draft before it). 0..1"""
        kind = _kind(candidate.source, candidate.p, candidate.match)
        kept, seen = self._kept.get(kind, 0.0), self._seen.get(kind, 0.0)
        came_true, claimed = self._claims.get(candidate.source, (0.0, 0.0))
        # A kind that was never seen is trusted as far as its source was right so far.
        word = candidate.p * min(1.0, (came_true + _CLAIMS) / (claimed + _CLAIMS))
        return (kept + _PRIOR * word) / (seen + _PRIOR)

    def mean(self, source: str) -> float:
        """The chance of a token of this source that is not drafted yet. 0..1"""
        kept, seen = self.means[source]
        return kept / seen

    def hope(self, source: str) -> float:
        """The same, half a standard error higher: what is not drafted is not learned, so doubt speaks for a try. 0..1"""
        kept, seen = self.means[source]
        return min(1.0, kept / seen + 0.5 * sqrt(kept * (seen - kept) / seen**3))

    def observe(self, drafted: Sequence[Candidate], chosen: Sequence[int]) -> None:
        """Learn from a round: what was drafted beside what the target chose, up to the first difference.

        A token that was drafted and then left out is seen too, where the target came as far: what is drafted shows what
        drafting is worth, what was kept only shows what keeping was.
        """
        for candidate, token in zip(drafted, chosen, strict=False):
            kept = float(candidate.id == token)
            kind = _kind(candidate.source, candidate.p, candidate.match)
            self._kept[kind] = self._kept.get(kind, 0.0) * _DECAY + kept
            self._seen[kind] = self._seen.get(kind, 0.0) * _DECAY + 1.0
            came_true, claimed = self._claims.get(candidate.source, (0.0, 0.0))
            self._claims[candidate.source] = came_true * _DECAY + kept, claimed * _DECAY + candidate.p
            mean = self.means[candidate.source]
            self.means[candidate.source] = mean[0] * _DECAY + kept, mean[1] * _DECAY + 1.0
            if not kept:
                return


def trust(match: int) -> float:
    """The chance that text goes on as it did after a match of this length, before anything is known of the text.

    One word in common says little, a dozen nearly everything: .08, .25, .43, .57, .68, .75 ... .92 at 12.
    """
    return match * match / (match * match + 12.0)


@lru_cache(4096)
def _kind(source: str, p: float, match: int) -> tuple[str, int, int]:
    """Source, bin of doubt, bin of match length. The bins are narrow where confidence is near 1: it matters there."""
    doubt = max(1.0 - p, 2.0**-_BINS)
    if not match:
        return source, int(-2 * log2(doubt)), 0
    # A suffix match's doubt is mostly its length, which has a bin of its own; the rest is how often the token followed.
    share = p / trust(match)
    return source, int(4 * share + 1e-9), min(12, int(2 * log2(match + 1)))
