"""The chance that the target will agree: with a drafted token by the drafter's confidence, and with one that is not drafted
yet by how sure the target itself was lately. Both are learned from what the target judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log2, sqrt

from spectui.speculation.records import Candidate

_PRIOR, _CLAIMS = 4.0, 2.0
"""Observations that the drafter's own word is worth, and tokens that it may promise in vain before its word counts for half."""

_HOPE_PRIOR = 8.0
"""Both for the model's tokens before they are drafted."""

_DECAY = 0.99
"""Older observations fade: text changes from prose to code and back."""

_USUAL, _OPENING = 0.15, 0.4
"""The target's doubt before anything was written: of a whole text, and of a reply's first words, which might often be others.
Drafts that fail there cost what the certain text behind them would have paid back."""

_LATELY, _USUALLY = 0.2, 0.01
"""Weights of a token in the two averages of its doubt."""

HOPED = "hoped"
"""The source of the model's tokens before they are drafted: the target's own confidence is the word that is given for them."""

_BINS = 12


class Calibration:
    """Beta counts per kind of candidate: by source, by confidence, and for suffix matches by length."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], float] = {}
        self._seen: dict[tuple[str, int, int], float] = {}
        self.claims: dict[str, tuple[float, float]] = {}
        """By source: tokens that came true, and how many should have by its own word; the older ones faded."""
        self.doubt, self.usual = _OPENING, _USUAL
        """The probability that the target left to others than the likeliest token, lately and in all. 0..1"""

    def chance(self, candidate: Candidate) -> float:
        """P(the target agrees | it agreed with the draft before it). 0..1"""
        return self._estimate(candidate.source, candidate.p, candidate.match)[0]

    def hope(self, doubt: float | None = None) -> float:
        """The chance of a token that the draft model has yet to draft, where the target doubts so much, or as it does now. 0..1

        Where the target is sure, so is any model that was taught alike: a 0.5B failed to foresee its 1.5B about as often as
        that doubted, over prose, code and copied text. And the doubt is known without drafting. It is half a standard error
        higher than seen: what is not drafted is not learned.
        """
        word = 1.0 - (self.doubt if doubt is None else doubt)
        chance, seen = self._estimate(HOPED, word, 0, _HOPE_PRIOR, _HOPE_PRIOR)
        return min(1.0, chance + 0.5 * sqrt(chance * (1.0 - chance) / seen))

    def _estimate(
        self, source: str, word: float, match: int, prior: float = _PRIOR, vain: float = _CLAIMS
    ) -> tuple[float, float]:
        """The chance of such a token, and how many observations that is worth."""
        kind = _kind(source, word, match)
        kept, seen = self._kept.get(kind, 0.0), self._seen.get(kind, 0.0)
        came_true, claimed = self.claims.get(source, (0.0, 0.0))
        # A kind that was never seen is trusted as far as its source was right so far.
        word *= min(1.0, (came_true + vain) / (claimed + vain))
        return (kept + prior * word) / (seen + prior), seen + prior

    def begin(self) -> None:
        """Another reply begins."""
        self.doubt = _OPENING

    def wrote(self, sure: float) -> None:
        """The target wrote a token, at a place where it gave this probability to the likeliest."""
        doubt = max(0.0, 1.0 - sure)  # a float32's 1 may be a little more
        self.doubt += _LATELY * (doubt - self.doubt)
        self.usual += _USUALLY * (doubt - self.usual)

    def observe(self, drafted: Sequence[Candidate], chosen: Sequence[int]) -> None:
        """Learn from a round: what was drafted beside what the target chose, up to the first difference.

        A token that was drafted and then left out is seen too, where the target came as far: what is drafted shows what
        drafting is worth, what was kept only shows what keeping was.
        """
        for candidate, token in zip(drafted, chosen, strict=False):
            kept = float(candidate.id == token)
            self._saw(candidate.source, candidate.p, candidate.match, kept)
            if candidate.source == "model":
                self._saw(HOPED, 1.0 - self.doubt, 0, kept)
            if not kept:
                return

    def _saw(self, source: str, p: float, match: int, kept: float) -> None:
        """A token of which the source's word was p was judged."""
        kind = _kind(source, p, match)
        self._kept[kind] = self._kept.get(kind, 0.0) * _DECAY + kept
        self._seen[kind] = self._seen.get(kind, 0.0) * _DECAY + 1.0
        came_true, claimed = self.claims.get(source, (0.0, 0.0))
        self.claims[source] = came_true * _DECAY + kept, claimed * _DECAY + p


def match_prior(match: int) -> float:
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
    share = p / match_prior(match)
    return source, int(4 * share + 1e-9), min(12, int(2 * log2(match + 1)))
