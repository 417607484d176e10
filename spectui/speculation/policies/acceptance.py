"""How likely the target agrees with a drafted token, if it agreed with all before it."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp

from spectui.speculation.records import Candidate

_LEARN = 0.1
"""Step of a calibration for each token that was judged."""

_FADE = 0.99
"""What is kept of the calibrations in each round: text changes, and what failed is tried again after a while."""

_MOST = 0.999
"""No confidence counts as more: even a draft model that is always sure may be wrong."""

_LIKELY = 0.8
"""Repetitions are learned from where they are this likely: most are words in common, which say nothing of a copied page."""

_LATELY, _OPENING = 0.2, 0.6
"""EWMA weight of a token in the target's confidence, and that of the first tokens of a reply."""


class Acceptance:
    """The odds of a confidence, times one factor for each kind of token, which makes as many fail as are expected to.

    Kinds are the two sources, and the model's tokens that are not drafted yet. Of those the target's own confidence
    counts: where it is confident, its draft mostly agrees, and that is known without drafting.
    """

    def __init__(self) -> None:
        self._logs = {"model": 0.0, "suffix": 0.0, "undrafted": 0.0}
        self._confidence = _OPENING

    def expected(self, candidate: Candidate) -> float:
        """Of a drafted token. 0..1"""
        return self._calibrated("model" if candidate.modelled else "suffix", candidate.p)

    def undrafted(self, confidence: float | None = None) -> float:
        """Of a token that the model has yet to draft. 0..1 `confidence`: the target's; by default its recent one."""
        return self._calibrated("undrafted", self._confidence if confidence is None else confidence)

    def _calibrated(self, kind: str, p: float) -> float:
        odds = exp(self._logs[kind]) * min(p, _MOST)
        return odds / (1.0 - min(p, _MOST) + odds)

    def observe(self, drafted: Iterable[Candidate], emitted: Iterable[int], confidences: Iterable[float]) -> None:
        """Learn from a round: what was drafted beside what was emitted, up to the first difference.

        A token that was drafted and not sent is judged too, where the target came as far. `confidences`: the target's, of
        its likeliest token at each position.
        """
        self._logs = {kind: _FADE * factor for kind, factor in self._logs.items()}
        for candidate, token in zip(drafted, emitted, strict=False):
            accepted = candidate.id == token
            if candidate.modelled:
                self._logs["model"] += _LEARN * (accepted - self.expected(candidate))
                self._logs["undrafted"] += _LEARN * (accepted - self.undrafted())
            elif candidate.p >= _LIKELY:
                self._logs["suffix"] += _LEARN * (accepted - self.expected(candidate))
            if not accepted:
                break
        for confidence in confidences:
            self._confidence += _LATELY * (min(confidence, 1.0) - self._confidence)
