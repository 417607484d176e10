"""Counts the thinking sections of a reply while it is written: their tokens, and what they took."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from spectui import thinking
from spectui.chat.figures.format import count, decimal
from spectui.speculation.records import Round
from spectui.thinking import TAIL, Thoughts


class _Total(NamedTuple):
    """`tokens` begin before the character with index `start`, and took `seconds`."""

    start: int
    tokens: int
    seconds: float


_NOTHING = _Total(0, 0, 0.0)


@dataclass(slots=True, eq=False)
class Section(thinking.Section):
    """A section as a transcript shows it.

    `tokens` are those of the rounds, and `seconds` what they took; both are known when it has ended.
    """

    folded: bool = False
    tokens: int = 0
    seconds: float = 0.0
    began: _Total = _NOTHING
    """At the token in which it began."""

    @property
    def heading(self) -> str:
        """`▸ thinking: 312 tokens, 4.1 s`."""
        unit = "token" if self.tokens == 1 else "tokens"
        return f"{'▸' if self.folded else '▾'} thinking: {count(self.tokens)} {unit}, {decimal(self.seconds)} s"


class Thinking(Thoughts[Section]):
    """The sections of a reply that grows by rounds."""

    __slots__ = ("_totals",)

    def __init__(self) -> None:
        super().__init__(Section)
        self._totals = [_NOTHING]  # for each token that a mark may reach back to, and the end of the text

    def add(self, round: Round) -> list[Section]:
        """The text of one more round. Returns the sections that it has closed."""
        start, tokens, seconds = self._totals[-1]
        for token in round.tokens:
            start += len(token.text)
            tokens, seconds = tokens + 1, seconds + round.seconds / len(round.tokens)
            self._totals.append(_Total(start, tokens, seconds))
        known = len(self.sections)
        closed = self.feed("".join(token.text for token in round.tokens))
        for section in self.sections[known:]:
            if section.start:
                section.began = self._totals[bisect_right(self._totals, section.start, key=itemgetter(0)) - 1]
        for section in closed:
            at = bisect_left(self._totals, section.end or 0, key=itemgetter(0))
            ended = self._totals[min(at, len(self._totals) - 1)]
            section.tokens, section.seconds = ended.tokens - section.began.tokens, ended.seconds - section.began.seconds
        del self._totals[: max(0, bisect_right(self._totals, self.length - TAIL, key=itemgetter(0)) - 1)]
        return closed
