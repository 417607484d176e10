"""Draws a reply, as its tokens or as text: a function of what was written and of a view. No widgets.

Any thread may draw what is written, while another lets the reply grow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from spectui.chat.figures.format import count, decimal
from spectui.chat.text.thinking import Section
from spectui.ui.transcript.source import FOLD, REJECTED, TEXT, THOUGHT, Source
from spectui.ui.transcript.wrap import ASIDE, Flow, Piece


class View(NamedTuple):
    """How a reply is drawn. `turned`: numbers of the sections of thinking that are folded where `unfolds`, else unfolded.
    `closed`: how many sections have ended; only those have a heading."""

    width: int
    as_text: bool = False
    rejected: bool = False
    unfolds: bool = False
    turned: frozenset[int] = frozenset()
    closed: int = 0

    def of(self, source: Source) -> View:
        """The view without what makes no difference to this reply."""
        return self._replace(
            rejected=self.rejected and bool(source.rejected),
            unfolds=self.unfolds and bool(source.sections),
            closed=source.closed,
        )

    def folds(self, number: int) -> bool:
        """Whether a section is folded."""
        return number < self.closed and self.unfolds == (number in self.turned)


class Drawing:
    """A reply in a view, as far as it was written when it was drawn; as tokens it grows with the reply."""

    def __init__(self, source: Source, view: View) -> None:
        self.source = source
        self.view = view.of(source)
        self.flow = Flow(view.width)
        self.hidden: list[tuple[int, int]] = []
        """Where what is folded starts and ends in the source."""
        self._rejected = 0  # how many rejected tokens were drawn
        self._under_heading = False
        self.grow()

    def grow(self) -> int:
        """Draw what was written since. Returns the first row that may look different now."""
        text, start = self.source.text, self.flow.size
        row = self.flow.height - 1
        for begin, end, number in self._parts(start, len(text)):
            folded = number is not None and self.view.folds(number)
            if number is not None and number < self.view.closed and begin == self.source.sections[number].start:
                self._head(self.source.sections[number], begin, folded)
            if folded:
                self.hidden.append((begin, end))
                self._strike(end - 1)
            else:
                self._draw(text, begin, end, thought=number is not None)
        self.flow.append(self._strike(len(text)))
        self.flow.size = len(text)
        return row

    def copied(self, start: int, end: int) -> str:
        """A part of the source, without what is folded."""
        parts = []
        for begin, stop in [*self.hidden, (end, end)]:
            parts.append(self.source.text[start : max(start, min(begin, end))])
            start = max(start, min(stop, end))
        return "".join(parts)

    def hides(self, token: int) -> bool:
        """Whether a token is folded."""
        start, end = self.source.span(token)
        return any(first <= start and max(end, start + 1) <= last for first, last in self.hidden)

    def section_at(self, offset: int) -> int | None:
        """The number of the section whose heading is at an offset of the flow."""
        if self.flow.kind_at(offset) != FOLD:
            return None
        start = self.flow.begins(offset)
        return next((number for number, each in enumerate(self.source.sections) if each.start == start), None)

    def _parts(self, start: int, end: int) -> Iterator[tuple[int, int, int | None]]:
        """The parts of the source between two places, each with the number of its section of thinking; None: the answer."""
        for number, section in enumerate(self.source.sections):
            stop = end if section.end is None or number >= self.view.closed else min(section.end, end)
            if section.start < end and stop > start:
                if start < section.start:
                    yield start, section.start, None
                yield max(start, section.start), stop, number
                start = stop
        if start < end:
            yield start, end, None

    def _head(self, section: Section, start: int, folded: bool) -> None:
        """Draw `▸ thinking: 312 tokens, 4.1 s`."""
        unit = "token" if section.tokens == 1 else "tokens"
        heading = f"{'▸' if folded else '▾'} thinking: {count(section.tokens)} {unit}, {decimal(section.seconds)} s"
        self.flow.append([Piece(heading if folded else f"{heading}\n", FOLD, start, ASIDE)])
        self._under_heading = folded

    def _draw(self, text: str, start: int, end: int, *, thought: bool) -> None:
        if self._under_heading:
            self._under_heading = False
            if text[start] != "\n":
                self.flow.append([Piece("\n", FOLD, start, ASIDE)])
        if not self.view.as_text:
            self.flow.append(self._tokens(text, start, end, THOUGHT if thought else 0))
        elif thought:
            self.flow.append([Piece(text[start:end], TEXT | THOUGHT, start, start)])
        else:
            # Its libraries take a twentieth of the window's start.
            from spectui.ui.transcript.markdown.layout import lines_of

            self.flow.extend(lines_of(text[start:end], start, self.flow.width))

    def _tokens(self, text: str, start: int, end: int, shade: int) -> Iterator[Piece]:
        """The pieces of the tokens, each rejected draft before the correction."""
        token = bisect_right(self.source.ends, start)
        while start < end:
            yield from self._strike(start)
            stop = min(self.source.ends[token], end)
            yield Piece(text[start:stop], self.source.kinds[token] | shade, start, start)
            start, token = stop, token + 1

    def _strike(self, until: int) -> list[Piece]:
        """The rejected tokens up to this place of the source."""
        first, self._rejected = self._rejected, bisect_right(self.source.rejected_at, until)
        if not self.view.rejected:
            return []
        return [
            Piece(self.source.rejected[each], REJECTED, self.source.rejected_at[each], ASIDE)
            for each in range(first, self._rejected)
        ]


def drawn(source: Source, view: View) -> Drawing:
    """A reply in this view. One that was not read yet is read."""
    if not source.text:
        source.grow()
    return Drawing(source, view)
