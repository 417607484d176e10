"""Where a reply thinks (`<think>…</think>`), found while it is written."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from spectui.chat.figures import count, decimal
from spectui.speculation.records import Round

MARK = re.compile(r"<(/?)think(?:ing)?>")
_TAIL = 32
"""Characters kept to know a mark that comes in several tokens, and whether it begins its line."""


@dataclass(slots=True, eq=False)
class Section:
    """A stretch of a reply's text with the marks around it. `end` is None while it lasts."""

    start: int
    end: int | None = None
    folded: bool = False
    tokens: int = 0
    seconds: float = 0.0

    def measure(self, rounds: Iterable[Round]) -> None:
        """Count the tokens in it, and the seconds that they took, of the rounds that made the reply."""
        at, self.tokens, self.seconds = 0, 0, 0.0
        for round in rounds:
            inside = 0
            for token in round.tokens:
                inside += at + len(token.text) > self.start and (self.end is None or at < self.end)
                at += len(token.text)
            self.tokens += inside
            self.seconds += round.seconds * inside / max(1, len(round.tokens))

    @property
    def heading(self) -> str:
        """`▸ thinking: 312 tokens, 4.1 s`."""
        unit = "token" if self.tokens == 1 else "tokens"
        return f"{'▸' if self.folded else '▾'} thinking: {count(self.tokens)} {unit}, {decimal(self.seconds)} s"


class Thinking:
    """The sections of a text that grows. One opens with a mark at the start of a line and lasts until it is closed; one that
    is only closed, at the start of a line too, began before the text, as in templates that open it for the model. Marks
    elsewhere are what somebody writes about thinking."""

    __slots__ = ("_length", "_tail", "sections")

    def __init__(self, text: str = "") -> None:
        self.sections: list[Section] = []
        self._length = 0
        self._tail = ""
        self.feed(text)

    @property
    def open(self) -> Section | None:
        """The section that lasts."""
        return self.sections[-1] if self.sections and self.sections[-1].end is None else None

    def begin(self) -> None:
        """The prompt ended with an opening mark. Nothing happens if there is text already."""
        if not self._length and not self.sections:
            self.sections.append(Section(0))

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
        """The section that the text from one offset to another is in, or some of it."""
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
        if not closes or section is None:
            return None
        section.end = end
        return section
