"""Automatic drafting: draft what pays, with whom it pays, for as long as it pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from time import perf_counter

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import DraftModel
from spectui.speculation.drafters.suffix import Cursor, SuffixDrafter
from spectui.speculation.evaluator import Cancelled
from spectui.speculation.policies.economics import Economics, by_model
from spectui.speculation.policies.loss_budget import ALLOWANCE, LOOK, LOOKING
from spectui.speculation.records import Candidate

_DOUBT = 0.03
"""Tokens that a drafted one must be worth beyond its cost: chances are estimates, and tails of no consequence go."""

_LIKELY = 0.6
"""Least chance at which a repetition takes over from the model in the middle of a draft."""

_PROBE = 4
"""Most tokens drafted to see whether drafting pays again."""

_PATIENCE = 32
"""Rounds without a draft before a probe."""


class AutoDrafter:
    """The suffix match where its expected value is higher, else the draft model; each goes on where the other leaves off."""

    def __init__(self, suffix: SuffixDrafter, model: DraftModel | None, economics: Economics) -> None:
        self._suffix = suffix
        self._model = model
        self._economics = economics
        self.upcoming = "suffix"

    def prepare(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        """Nothing of its own: both drafters are prepared by whoever owns them."""

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        cursor = self._suffix.cursor(tokens)
        repeated = self._repeated(cursor, (), len(tokens), knobs.draft_max)
        # Known before the first candidate is asked for, because the policy asks who would speak.
        self.upcoming = "suffix" if repeated or self._model is None else "model"
        return self._candidates(tokens, cursor, repeated, knobs)

    def _candidates(
        self, tokens: Sequence[int], cursor: Cursor, repeated: Sequence[Candidate], knobs: Knobs
    ) -> Iterator[Candidate]:
        drafted: list[Candidate] = []
        while True:
            for left, candidate in zip(range(len(repeated) - 1, -1, -1), repeated, strict=True):
                drafted.append(candidate)
                self.upcoming = "suffix" if left or self._model is None else "model"
                yield candidate
            if self._model is None:
                return
            for candidate in repeated:
                cursor.advance(candidate.id)
            repeated = ()
            for candidate in self._model.propose([*tokens, *(earlier.id for earlier in drafted)], knobs):
                drafted.append(candidate)
                cursor.advance(candidate.id)
                repeated = self._repeated(cursor, drafted, len(tokens), knobs.draft_max)
                self.upcoming = "suffix" if repeated else "model"
                yield candidate
                if repeated:
                    break
            if not repeated:
                return

    def _repeated(self, cursor: Cursor, drafted: Sequence[Candidate], context: int, most: int) -> Sequence[Candidate]:
        """What the suffix proposes next, as far as that is worth more than what the model would propose."""
        economics = self._economics
        repeated = self._promised(cursor, context, most - len(drafted))
        if self._model is None or not repeated:
            return repeated
        if drafted and economics.calibration.chance(repeated[0]) < _LIKELY:
            return ()
        whole = [*drafted, *repeated]
        stop = economics.best_stop(whole, context)
        model = economics.best_extension(drafted, context, most, economics.rate(context, whole))
        return (
            repeated[: stop.length - len(drafted)] if stop.length > len(drafted) and stop.value >= model.value else ()
        )

    def _promised(self, cursor: Cursor, context: int, most: int) -> Sequence[Candidate]:
        """What the suffix proposes, up to where the target will hardly come: one word in common is found nearly everywhere, and
        looking at all that followed it took a small model's time."""
        economics = self._economics
        least = max(_DOUBT, economics.row(most, context) / 2)
        promised: list[Candidate] = []
        survival = 1.0
        for candidate in islice(cursor.candidates(), max(0, most)):
            promised.append(candidate)
            survival *= economics.calibration.chance(candidate)
            if survival < least:
                break
        return promised


class AutoPolicy:
    """Rate-optimal stopping, within a bound on what speculation may cost.

    The ledger holds a credit of plain passes: a few to begin with, what drafts gain, and a hundredth of the time. No draft is
    longer than what the credit covers if all of it fails, so that speculation cannot lose more. While nothing is drafted, a
    few tokens are drafted now and then to see whether the text has changed: again when half of that hundredth has made up
    for what it lost.
    """

    def __init__(self, economics: Economics) -> None:
        self._economics = economics
        self._idle = 0
        self._probing = False
        self._due = 0.0
        self._before = 0.0
        self._first: float | None = None
        self._tokens = 1.0
        self._owed = 0.0
        self._looking = False

    def begin(self, knobs: Knobs, context: int, limit: int) -> bool:
        economics = self._economics
        self._knobs, self._context, self._limit = knobs, context, limit
        if self._probing:
            lost = max(0.0, self._before - economics.ledger.credit) * economics.verify(1, context)
            self._due = economics.elapsed + lost / (ALLOWANCE / 2)
        self._paused = self._looking = self._probing = False
        if not economics.verify.known or not limit:
            return False
        plain = economics.verify(1, context)
        self._owed = max(0.0, self._owed - LOOKING * plain)
        self._paused = economics.ledger.credit <= 0
        self._looking = not self._paused and not self._owed
        self._probing = self._looking and self._idle >= _PATIENCE and economics.elapsed >= self._due
        self._before = economics.ledger.credit
        self._began = perf_counter()
        return self._looking

    def wants_more(self, drafted: Sequence[Candidate], upcoming: str) -> bool:
        if len(drafted) >= self._limit:
            return False
        if upcoming == "model" and not self._covered(by_model(drafted) + 1, len(drafted) + 1):
            self._paused = not drafted
            return False
        if self._probing and not drafted:
            # What a repetition would have been worth is seen without keeping it.
            self._probing = upcoming == "model"
            if self._probing:
                most = min(self._limit, _PROBE)
                self._probe = self._economics.best_extension((), self._context, most).length
        if self._probing:
            return len(drafted) < self._probe
        if upcoming == "suffix":
            return True
        if not self._economics.draft.next:
            return len(drafted) < 2  # what a drafted token costs is not known yet
        stop = self._economics.best_stop(drafted, self._context)
        return self._economics.best_extension(drafted, self._context, self._limit).value > stop.value

    def takes(self, candidate: Candidate) -> bool:
        return True

    def keep(self, drafted: Sequence[Candidate]) -> int:
        economics = self._economics
        kept = 0
        if self._looking:
            bearable = self._bearable(drafted)
            if drafted and not bearable:
                self._paused = True
            stop = economics.best_stop(drafted[:bearable], self._context, self._knobs.draft_min, _DOUBT)
            kept = bearable if self._probing else stop.length
            self._tokens = stop.tokens
            self._first = economics.calibration.chance(drafted[0]) if drafted else None
            if not kept and all(candidate.source == "suffix" for candidate in drafted):
                self._owed = min(perf_counter() - self._began, LOOK * economics.verify(1, self._context))
        self._idle = 0 if kept else self._idle + 1
        return kept

    def _bearable(self, drafted: Sequence[Candidate]) -> int:
        """As many of these tokens as may fail."""
        models, length = by_model(drafted), len(drafted)
        while length and not self._covered(models, length):
            length -= 1
        return length

    def _covered(self, models: int, length: int) -> bool:
        """Does the credit cover a draft of this length, so many tokens of it the model's, that fails whole?"""
        economics, context = self._economics, self._context
        plain = economics.verify(1, context)
        lost = economics.drafting(models) + economics.verify(length + 1, context) - plain
        return lost <= economics.ledger.credit * plain

    def note(self, kept: Sequence[Candidate]) -> str:
        economics, context = self._economics, self._context
        if not economics.verify.known:
            return "measuring what a plain pass costs"
        plain = economics.verify(1, context)
        if self._paused and self._limit:
            return "not drafting for a while: it has lost time against plain decoding"
        if self._probing:
            return f"drafting {len(kept)} to see whether it pays again"
        if kept:
            drafting = economics.drafting(by_model(kept))
            pays = self._tokens * plain / (economics.verify(len(kept) + 1, context) + drafting)
            return f"drafting {len(kept)} of {self._limit}: pays {pays:.1f}x"
        if economics.unread_s:
            return (
                f"not drafting: the draft needs {economics.unread_s:.1f} s to read this text, more than it would save"
            )
        if self._first is not None:
            return f"not drafting: what comes next is too uncertain here, {self._first:.2f} likely to be accepted"
        dear = economics.drafting(2) / 2 / plain
        if not dear or self._knobs.drafter == "suffix":
            return "not drafting: nothing here stood before"
        limit = self._limit or self._knobs.draft_max
        needs = economics.break_even(context, limit, economics.rate(context))
        if needs is not None:
            wants = f"needs {needs:.2f} acceptance, has {economics.calibration.hope():.2f}"
        elif economics.break_even(context, limit) is not None:
            wants = "too much for the speed that was reached lately"
        else:
            wants = "cannot pay at any acceptance"
        return f"not drafting: the draft costs {dear:.2f} of a target pass, {wants}"
