"""Finds the thinking sections (`<think>…</think>`) of a reply while it is written."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from spectui.chat.figures.format import count, decimal
from spectui.speculation.records import Round

MARK = re.compile(r"<(/?)think(?:ing)?>")
_TAIL = 32
"""Last characters of the text that are searched again: a mark may span several tokens, and must begin its line."""


@dataclass(slots=True, eq=False)
class Section:
    """A stretch of a reply's text with the marks around it. `end` is None while it lasts.

    `tokens` are those of the rounds, and `seconds` what they took; both are known when it has ended.
    """

    start: int
    end: int | None = None
    folded: bool = False
    tokens: int = 0
    seconds: float = 0.0

    @property
    def heading(self) -> str:
        """`▸ thinking: 312 tokens, 4.1 s`."""
        unit = "token" if self.tokens == 1 else "tokens"
        return f"{'▸' if self.folded else '▾'} thinking: {count(self.tokens)} {unit}, {decimal(self.seconds)} s"


class _Total(NamedTuple):
    """`tokens` begin before the character with index `start`, and took `seconds`."""

    start: int
    tokens: int
    seconds: float


class Thinking:
    """The sections of a text that grows.

    An opening mark at the start of a line begins a section, and the next closing mark ends it. A closing mark at the start of
    a line without an opening one ends a section that began before the text: some templates open it in the prompt. Marks
    elsewhere are ordinary text about thinking.
    """

    __slots__ = ("_began", "_length", "_tail", "_totals", "sections")

    def __init__(self, text: str = "") -> None:
        self.sections: list[Section] = []
        self._length = 0
        self._tail = ""
        self._totals = [_Total(0, 0, 0.0)]  # for each token that a mark may reach back to, and the end of the text
        self._began = self._totals[0]  # of the token in which the open section began
        self.feed(text)

    @property
    def open(self) -> Section | None:
        """The section that is not closed yet."""
        return self.sections[-1] if self.sections and self.sections[-1].end is None else None

    def begin(self) -> None:
        """The prompt ended with an opening mark. Nothing happens if there is text already."""
        if not self._length and not self.sections:
            self.sections.append(Section(0))

    def add(self, round: Round) -> list[Section]:
        """The text of one more round. Returns the sections that it has closed."""
        start, tokens, seconds = self._totals[-1]
        for token in round.tokens:
            start += len(token.text)
            tokens, seconds = tokens + 1, seconds + round.seconds / len(round.tokens)
            self._totals.append(_Total(start, tokens, seconds))
        closed = self.feed("".join(token.text for token in round.tokens))
        del self._totals[: max(0, bisect_right(self._totals, self._length - _TAIL, key=itemgetter(0)) - 1)]
        return closed

    def feed(self, text: str) -> list[Section]:
        """More of the text. Returns the sections that it has closed."""
        window, seen = self._tail + text, len(self._tail)
        before = self._length - seen
        self._length += len(text)
        self._tail = window[-_TAIL:]
        closed = []
        for mark in MARK.finditer(window) if "think" in window else ():
            if mark.end() > seen:
                begins_line = not window[: mark.start()].rpartition("\n")[2].strip()
                section = self._pass(mark[1] == "/", before + mark.start(), before + mark.end(), begins_line)
                closed += [section] if section else []
        return closed

    def at(self, start: int, end: int) -> Section | None:
        """The section that contains the text from `start` to `end`, or a part of it."""
        number = bisect_left(self.sections, max(end, start + 1), key=lambda section: section.start)
        section = self.sections[number - 1] if number else None
        return section if section is not None and (section.end is None or section.end > start) else None

    def _pass(self, closes: bool, start: int, end: int, begins_line: bool) -> Section | None:
        section = self.open
        if closes and section is None and begins_line and not self.sections:
            section = Section(0)
            self.sections.append(section)
        elif not closes and section is None and begins_line:
            self.sections.append(Section(start))
            self._began = self._totals[bisect_right(self._totals, start, key=itemgetter(0)) - 1]
        if not closes or section is None:
            return None
        section.end = end
        ended = self._totals[min(bisect_left(self._totals, end, key=itemgetter(0)), len(self._totals) - 1)]
        section.tokens, section.seconds = ended.tokens - self._began.tokens, ended.seconds - self._began.seconds
        return section
