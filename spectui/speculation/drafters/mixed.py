"""Repetitions and the draft model in one draft: each candidate comes from the drafter with the higher expected yield."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import DraftModel, to_the_end
from spectui.speculation.drafters.suffix import Cursor, SuffixDrafter
from spectui.speculation.drafters.text import DraftedText
from spectui.speculation.evaluator import Cancelled, Ends
from spectui.speculation.policies.value import DraftValue
from spectui.speculation.records import Candidate

_TAIL = 0.02
"""A repetition ends where its survival falls below this: a look at all of it takes as long as a small model's pass."""


class MixedDrafter:
    """The suffix match where its value is higher, else the draft model; each continues the other's draft."""

    def __init__(self, suffix: SuffixDrafter, model: DraftModel | None, value: DraftValue, is_end: Ends) -> None:
        """`value`: of this round's draft."""
        self._suffix, self._model, self._value, self._is_end = suffix, model, value, is_end
        self.upcoming = "suffix"

    def prepare(self, tokens: Sequence[int], cancelled: Cancelled) -> None:
        """Nothing of its own: the strategy prepares both drafters."""

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        cursor = self._suffix.cursor(tokens)
        repeated = self._repeated(cursor, ())
        # The policy reads `upcoming` before it asks for the first candidate.
        self.upcoming = self._next(repeated)
        return self._candidates(tokens, cursor, repeated, knobs)

    def _candidates(
        self, tokens: Sequence[int], cursor: Cursor, repeated: Sequence[Candidate], knobs: Knobs
    ) -> Iterator[Candidate]:
        drafted: list[Candidate] = []
        modelled: Iterator[Candidate] | None = None
        while True:
            if repeated:
                candidate, repeated, modelled = repeated[0], repeated[1:], None
            elif self._model is None:
                return
            else:
                modelled = modelled or self._model.propose(DraftedText(tokens, (each.id for each in drafted)), knobs)
                found = next(modelled, None)
                if found is None:
                    return
                candidate = found
            drafted.append(candidate)
            cursor.advance(candidate.id)
            repeated = repeated or self._repeated(cursor, drafted)
            self.upcoming = self._next(repeated)
            yield candidate

    def _next(self, repeated: Sequence[Candidate]) -> str:
        return "suffix" if repeated or self._model is None else self._model.upcoming

    def _repeated(self, cursor: Cursor, drafted: Sequence[Candidate]) -> Sequence[Candidate]:
        """The suffix lookup's next tokens, while their value is higher than the model's."""
        value = self._value.follow(drafted)
        most = value.limit
        repeated = self._likely(cursor, most - len(drafted))
        if self._model is None or not repeated:
            return repeated
        whole = value.after(repeated)
        stop = whole.stop(most)
        if stop.length <= len(drafted) or value.extends(stop.value):
            return ()
        return repeated[: stop.length - len(drafted)]

    def _likely(self, cursor: Cursor, most: int) -> Sequence[Candidate]:
        """The suffix lookup's tokens, cut where they would hardly ever be accepted, and where the reply would end."""
        likely: list[Candidate] = []
        survival = self._value.survival
        for candidate in islice(to_the_end(cursor.candidates(), self._is_end), max(0, most)):
            if survival < _TAIL:
                break
            likely.append(candidate)
            survival *= self._value.expected(candidate)
        return likely
