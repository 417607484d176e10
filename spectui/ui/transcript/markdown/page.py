"""A reply's text as it is read: a flow that knows which part of the source each of its pieces stands for.

The source is the text of the reply's tokens. The pieces stand for all of it, in order: a mark that is not drawn, such as the
`**` around a word, belongs to the word. So what is selected on a page is copied as it was written, and a line of the page is
found again among the tokens.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len

from spectui.ui.transcript.wrap import Flow

Runs = tuple[tuple[str, int], ...]
"""Texts with their kinds."""

NOWHERE = -1


class Prefix(NamedTuple):
    """What is drawn before a line, and before the rows that continue it: bullets, bars, indentation. Characters are cells."""

    first: Runs = ()
    rest: Runs = ()


class Piece(NamedTuple):
    """A drawn text. `start`: where what it stands for begins in the source, which goes on to the next piece's `start`.

    `at`: where the text itself is in the source; `NOWHERE` if it was made, such as a table's line. Pieces with one `start` are
    one thing: a row of a table whose cells are wrapped.
    """

    text: str
    kind: int
    start: int
    at: int

    def moved(self, by: int) -> Piece:
        """The same further on in the source."""
        return self._replace(start=self.start + by, at=self.at + by if self.at != NOWHERE else NOWHERE)


class Line(NamedTuple):
    """A line of a page, without its end."""

    prefix: Prefix
    pieces: list[Piece]


class Page(Flow):
    """Lines, wrapped to `width` cells with what is drawn before each row."""

    __slots__ = ("_at", "_broad", "_fitted", "_prefixes", "_size", "_starts", "_turns", "is_old")

    def __init__(self, width: int, size: int) -> None:
        """`size`: characters of the source."""
        super().__init__(width)
        self._size = size
        self._starts = array("I")
        self._at = array("i")
        self._turns = array("I", [0])  # where another prefix begins
        self._prefixes = [Prefix()]  # one for each of `_turns`
        self._broad = 0  # the broadest prefix
        self._fitted = False
        self.is_old = False
        """It was laid out for another width."""

    def fill(self, lines: Iterable[Line], *, fitted: bool) -> None:
        """Append these lines, which have their ends. `fitted`: some are made for this width."""
        self._fitted = fitted
        texts: list[str] = []
        length, begins = 0, True
        for prefix, pieces in lines:
            if begins and prefix != self._prefixes[-1]:
                self._turns.append(length)
                self._prefixes.append(prefix)
                self._broad = max(self._broad, *(_cells(runs) for runs in prefix))
            for text, kind, start, at in pieces:
                length += len(text)
                if not self._joins(kind, start, at):
                    self._ends.append(length)
                    self._kinds.append(kind)
                    self._starts.append(start)
                    self._at.append(at)
                self._ends[-1] = length
                texts.append(text)
                begins = text.endswith("\n")
        self.text = "".join(texts)
        self._wrap(0)

    def _joins(self, kind: int, start: int, at: int) -> bool:
        """Whether the next piece only continues the last one."""
        if not self._ends or kind != self._kinds[-1] or not start == at == self._at[-1] + self._length(-1):
            return False
        return self._at[-1] != NOWHERE

    def _length(self, piece: int) -> int:
        begin, end = self.span_of(piece % len(self._ends))
        return end - begin

    def rewrap(self, width: int) -> None:
        """Wrap everything again, to another width; what has to be laid out anew for it stays as it is until then."""
        if width != self.width and (self._fitted or self._broad > width // 2):
            self.is_old = True
        else:
            super().rewrap(width)

    def stands_for(self, flow: Flow) -> bool:
        """Whether this is a page of all that the flow has now."""
        return self._size == len(flow.text)

    # Where the source is

    def begins(self, offset: int) -> int:
        """Where the source begins of what is drawn from an offset of the text on, with the marks around a piece's first
        character."""
        return self._in_source(offset, self._starts)

    def at(self, offset: int) -> int:
        """Where the source has the character that is drawn at an offset of the text."""
        return self._in_source(offset, self._at)

    def _in_source(self, offset: int, firsts: array[int]) -> int:
        piece = self.piece_of(offset)
        if piece == len(self._ends):
            return self._size
        begin, at = self.span_of(piece)[0], self._at[piece]
        if offset == begin or at == NOWHERE:
            return firsts[piece] if firsts[piece] != NOWHERE else self._starts[piece]
        return at + offset - begin

    def ends(self, offset: int) -> int:
        """Where the source ends of what is drawn before an offset of the text."""
        if not offset:
            return 0
        piece = self.piece_of(offset - 1)
        begin, end = self.span_of(piece)
        if offset < end and self._at[piece] != NOWHERE:
            return self._at[piece] + offset - begin
        behind = bisect_right(self._starts, self._starts[piece])
        return self._starts[behind] if behind < len(self._starts) else self._size

    def offset_of(self, source: int) -> int:
        """Where the text has what stands for an offset of the source."""
        piece = bisect_right(self._starts, source) - 1
        if piece < 0:
            return 0
        begin, end = self.span_of(piece)
        if self._at[piece] != NOWHERE:
            return min(max(begin, begin + source - self._at[piece]), max(begin, end - 1))
        return self.span_of(bisect_left(self._starts, self._starts[piece]))[0]

    # Rows, with what is drawn before them

    def runs(self, row: int) -> list[tuple[str, int]]:
        """A row as it is drawn."""
        return [*self._prefix(self._rows[row]), *super().runs(row)]

    def offset_at(self, row: int, index: int) -> int:
        """The text's offset of the index-th character drawn in a row."""
        return super().offset_at(row, index - _cells(self._prefix(self._rows[row])))

    def drawn_at(self, row: int, offset: int) -> int:
        """How many characters are drawn in a row before an offset of its text."""
        return super().drawn_at(row, offset) + _cells(self._prefix(self._rows[row]))

    def at_cell(self, row: int, cell: int) -> int | None:
        """The text's offset of the grapheme drawn at a cell of a row, or None beside the text."""
        if not 0 <= row < len(self._rows):
            return None
        return super().at_cell(row, cell - _cells(self._prefix(self._rows[row])))

    def _prefix(self, start: int) -> Runs:
        """What is drawn before the row that starts at an offset."""
        first, rest = self._prefixes[bisect_right(self._turns, start) - 1]
        runs = first if not start or self.text[start - 1] == "\n" else rest
        return runs if _cells(runs) <= self.width // 2 else ()

    def _room(self, start: int) -> int:
        return self.width - _cells(self._prefix(start))


def _cells(runs: Runs) -> int:
    return sum(len(text) for text, _ in runs)


def cells(text: str) -> int:
    """Cells of a text without tabs."""
    return len(text) if text.isascii() else cell_len(text)
