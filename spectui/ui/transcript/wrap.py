"""Wrapping a text of coloured pieces into rows of cells. No widgets here.

A `Flow` holds one text made of pieces and where its rows start. Rows partition the text: joined they are the text again, so
no character can be lost between a token and the screen. What is drawn stands for a source, such as a reply as it was written:
each piece knows its part of the source, and the pieces are in the source's order. A mark that is not drawn, such as the `**`
around a word, belongs to the word. So what is selected is copied as it was written, and a place is found again where the same
source is drawn in another way.

The rule of wrapping is greedy and looks only at the text from a row's start on, which is why appending wraps only the last
row again. A row is broken after spaces, beside a wide (CJK) character, or, in a word longer than the row, between any two
graphemes. Spaces at a row's end hang over the edge and are not drawn.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size, split_graphemes

from spectui.text import safe

TAB = 4
"""Columns between tab stops, counted from the row's start."""

_WIDE = (
    *(0x1100, 0x1160, 0x2E80, 0xA4D0, 0xAC00, 0xD7A4, 0xF900, 0xFB00, 0xFE30, 0xFE70, 0xFF00, 0xFF61, 0xFFE0, 0xFFE7),
    *(0x20000, 0x3FFFE),
)
"""Where wide characters begin and where they end, in turn. As a regular expression it would take 7 ms of each start."""

NARROW = re.compile("[ -~¡-¬®-ÿ‐-‧─-╿]*")
"""Characters that are a cell each: Latin letters, dashes, quotes, the lines of tables. A line of them that fits is a row."""

_NOT_FIRST = frozenset("、。，．・：；！？）］｝」』】〕〉》ー々…,.:;!?)]}%’”")
_NOT_LAST = frozenset("（［｛「『【〔〈《([{‘“")

Runs = tuple[tuple[str, int], ...]
"""Texts with their kinds."""

NOWHERE, ASIDE = -1, -2
"""Places of a text that is not in the source: it was made for a part of it, such as a table's line, or is beside it, such as a
rejected token."""


class Prefix(NamedTuple):
    """What is drawn before a line, and before the rows that continue it: bullets, bars, indentation. Characters are cells."""

    first: Runs = ()
    rest: Runs = ()


class Piece(NamedTuple):
    """A drawn text. `start`: where its part of the source begins, which ends where the next piece's begins.

    `at`: where the text itself is in the source, or `NOWHERE`, or `ASIDE`.
    """

    text: str
    kind: int
    start: int = 0
    at: int = 0


class Line(NamedTuple):
    """Pieces with what is drawn before their rows. The last piece ends with a newline, unless it is the text's last."""

    prefix: Prefix
    pieces: Iterable[Piece]


class Flow:
    """Pieces of text, wrapped into rows of at most `width` cells (at least 2: a wide character must fit)."""

    __slots__ = ("_at", "_ends", "_kinds", "_prefixes", "_rows", "_starts", "_turns", "size", "text", "width")

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self.text = ""
        self.size = 0
        """Characters of the source."""
        self._ends = array("I")
        self._kinds = bytearray()
        self._starts = array("I")
        self._at = array("i")
        self._rows = array("I", [0])
        self._turns = array("I", [0])  # where another prefix begins
        self._prefixes = [Prefix()]  # one for each of `_turns`

    @property
    def height(self) -> int:
        """Number of rows: 1 for an empty text."""
        return len(self._rows)

    def append(self, pieces: Iterable[Piece]) -> int:
        """Add pieces. Returns the first row that may look different now."""
        return self.extend([Line(Prefix(), pieces)])

    def extend(self, lines: Iterable[Line]) -> int:
        """Add lines. Returns the first row that may look different now."""
        fresh: list[str] = []
        end, begins = len(self.text), not self.text or self.text.endswith("\n")
        for prefix, pieces in lines:
            if begins and prefix != self._prefixes[-1]:
                self._turns.append(end)
                self._prefixes.append(prefix)
            for text, kind, start, at in pieces:
                if not (text := safe(text)):
                    continue
                if not self._continues(kind, start, at):
                    self._kinds.append(kind)
                    self._starts.append(start)
                    self._at.append(at)
                    self._ends.append(end)
                end += len(text)
                self._ends[-1] = end
                self.size = max(self.size, start, at + len(text) if at >= 0 else 0)
                fresh.append(text)
                begins = text.endswith("\n")
        last = len(self._rows) - 1
        self.text += "".join(fresh)
        self._wrap(self._rows[last])
        return last

    def cut(self, end: int, size: int) -> None:
        """Remove what stands from an offset of the text on, behind `size` characters of the source: there a line begins."""
        self.text, self.size = self.text[:end], size
        pieces, turns = bisect_left(self._ends, end) + 1 if end else 0, max(1, bisect_left(self._turns, end))
        for of_pieces in (self._ends, self._kinds, self._starts, self._at):
            del of_pieces[pieces:]
        if pieces:
            self._ends[-1] = end
        del self._rows[bisect_right(self._rows, end) :]
        del self._turns[turns:], self._prefixes[turns:]

    def _continues(self, kind: int, start: int, at: int) -> bool:
        """Whether the next piece only goes on with the last one."""
        if not self._kinds or kind != self._kinds[-1] or start != at or self._at[-1] < 0:
            return False
        begin, end = self.span_of(len(self._ends) - 1)
        return at == self._at[-1] + end - begin

    def rewrap(self, width: int) -> None:
        """Wrap everything again, to another width in cells."""
        self.width = max(2, width)
        self._rows = array("I", [0])
        self._wrap(0)

    def span_of_row(self, row: int) -> tuple[int, int]:
        """Where a row starts and ends in the text, hanging spaces and its newline included."""
        end = self._rows[row + 1] if row + 1 < len(self._rows) else len(self.text)
        return self._rows[row], end

    def row_of(self, offset: int) -> int:
        """The row that holds the character at an offset of the text."""
        return bisect_right(self._rows, offset) - 1

    def runs(self, row: int) -> list[tuple[str, int]]:
        """A row as it is drawn: (text, kind) runs, tabs expanded, at most `width` cells in all."""
        start, end = self._drawn_span(row)
        runs, shown = [*self._prefix(start)], self.text[start:end]
        if shown.isascii() and "\t" not in shown:  # each character is a cell
            end = min(end, start + self._room(start))
            piece = bisect_right(self._ends, start)
            while start < end:
                stop = min(end, self._ends[piece])
                _extend(runs, self.text[start:stop], self._kinds[piece])
                start, piece = stop, piece + 1
        else:
            for first, shown, _ in self._cells(row):
                _extend(runs, shown, self._kinds[bisect_right(self._ends, first)])
        return runs

    def offset_at(self, row: int, index: int) -> int:
        """The text's offset of the index-th character drawn in a row; the row's drawn end if there are fewer."""
        start, drawn = self._rows[row], _cells(self._prefix(self._rows[row]))
        end = start
        for first, shown, _ in self._cells(row):
            if index < drawn + len(shown):
                # Inside a grapheme that is drawn as it is, each character has its own offset; a tab has one for all.
                return first if self.text[first] == "\t" else first + max(0, index - drawn)
            drawn += len(shown)
            end = first + (1 if self.text[first] == "\t" else max(1, len(shown)))
        return end

    def drawn_at(self, row: int, offset: int) -> int:
        """How many characters are drawn in a row before an offset of its text: the inverse of `offset_at`."""
        before = _cells(self._prefix(self._rows[row]))
        return before + sum(len(shown) for first, shown, _ in self._cells(row) if first < offset)

    def piece_of(self, offset: int) -> int:
        """The piece that holds the character at an offset of the text."""
        return bisect_right(self._ends, offset)

    def span_of(self, piece: int) -> tuple[int, int]:
        """Where a piece starts and ends in the text."""
        return self._ends[piece - 1] if piece else 0, self._ends[piece]

    def at_cell(self, row: int, cell: int) -> int | None:
        """The text's offset of the grapheme drawn at a cell of a row, or None where nothing is drawn."""
        if not 0 <= row < len(self._rows) or (cell := cell - _cells(self._prefix(self._rows[row]))) < 0:
            return None
        column = 0
        for first, _, width in self._cells(row):
            column += width
            if cell < column:
                return first
        return None

    def cell_of(self, offset: int) -> int:
        """The cell, in its row, of the character at an offset of the text."""
        row = self.row_of(offset)
        before = _cells(self._prefix(self._rows[row]))
        return before + sum(width for first, _, width in self._cells(row) if first < offset)

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
            return self.size
        begin, at = self.span_of(piece)[0], self._at[piece]
        if offset == begin or at < 0:
            return firsts[piece] if firsts[piece] >= 0 else self._starts[piece]
        return at + offset - begin

    def ends(self, offset: int) -> int:
        """Where the source ends of what is drawn before an offset of the text."""
        if not offset:
            return 0
        piece = self.piece_of(offset - 1)
        begin, end = self.span_of(piece)
        at, start = self._at[piece], self._starts[piece]
        if at == ASIDE:
            return start
        if offset < end and at >= 0:
            return at + offset - begin
        after = bisect_right(self._starts, start)
        return self._starts[after] if after < len(self._starts) else self.size

    def offset_of(self, source: int) -> int:
        """Where the text has what stands for an offset of the source; the text's end for the source's."""
        piece = bisect_right(self._starts, source) - 1
        if piece < 0 or source >= self.size:
            return len(self.text) if piece >= 0 else 0
        begin, end = self.span_of(piece)
        if self._at[piece] >= 0:
            return min(max(begin, begin + source - self._at[piece]), max(begin, end - 1))
        return self.span_of(bisect_left(self._starts, self._starts[piece]))[0]

    def is_aside(self, offset: int) -> bool:
        """Whether what is drawn at an offset of the text is beside the source."""
        return self._at[self.piece_of(offset)] == ASIDE

    def kind_at(self, offset: int) -> int:
        """The kind of the character at an offset of the text."""
        return self._kinds[self.piece_of(offset)]

    def _drawn_span(self, row: int) -> tuple[int, int]:
        """Where a row starts and ends in the text, without its newline."""
        start, end = self.span_of_row(row)
        return start, end - (end > start and self.text[end - 1] == "\n")

    def _cells(self, row: int) -> Iterator[tuple[int, str, int]]:
        """Offset, drawn text and cells of each grapheme of a row, as far as the row is wide."""
        start, end = self._drawn_span(row)
        column, room = 0, self._room(start)
        for first, stop, cells in _graphemes(self.text, start, end):
            width = min(cells if cells >= 0 else TAB - column % TAB, room - column)
            if width < cells:
                return
            # Neither a mark with nothing to stand on nor a joiner with nothing to join is drawn: it would act on a neighbour.
            shown = " " * width if cells < 0 else self.text[first:stop].rstrip("\u200d") if cells else ""
            yield first, shown, width
            column += width

    def _prefix(self, start: int) -> Runs:
        """What is drawn before the row that starts at this offset."""
        first, rest = self._prefixes[bisect_right(self._turns, start) - 1]
        runs = first if not start or self.text[start - 1] == "\n" else rest
        return runs if _cells(runs) <= self.width // 2 else ()

    def _room(self, start: int) -> int:
        """The cells that the text of the row has that starts at this offset."""
        return self.width - _cells(self._prefix(start))

    def _wrap(self, start: int) -> None:
        """Append the starts of all rows after the one that starts at `start`, which must be the last known row."""
        while (end := self.text.find("\n", start)) >= 0:
            self._wrap_line(start, end)
            start = end + 1
            self._rows.append(start)
        self._wrap_line(start, len(self.text))

    def _wrap_line(self, start: int, end: int) -> None:
        """Wrap one line of the text, row by row where rows are plain ASCII, and the rest grapheme by grapheme."""
        text = self.text
        while end - start > (width := self._room(start)):
            window = text[start : start + width + 1]
            if not window.isascii() or "\t" in window:
                break
            if window[width] == " ":
                cut = start + width
                while cut < end and text[cut] == " ":
                    cut += 1
                if cut == end:
                    return
                if text[cut] == "\t" or not text[cut].isascii():
                    break
            else:
                space = window.rfind(" ", 0, width)
                cut = start + (space + 1 if window[: max(0, space)].strip(" ") else width)
            self._rows.append(cut)
            start = cut
        else:
            if NARROW.fullmatch(text, start, end):
                return
        self._wrap_graphemes(start, end)

    def _wrap_graphemes(self, start: int, end: int) -> None:
        text, width = self.text, self._room(start)
        cells = list(_graphemes(text, start, end))
        # Indices of graphemes: the one at hand, the row's first, and the one before which the row is best broken.
        index = row = best = 0
        column = 0
        inked = False
        while index < len(cells):
            first, stop, size = cells[index]
            if text[first:stop] in (" ", "\t"):
                column += TAB - column % TAB if size < 0 else size
                index += 1
                # Not after mere indentation: that would leave an empty row.
                best = index if inked else best
                continue
            if inked and _may_break(text[cells[index - 1][0]], text[first]):
                best = index
            if column + size > width and index > row:
                row = index = best if best > row else index
                self._rows.append(cells[row][0])
                best, column, inked, width = row, 0, False, self._room(cells[row][0])
                continue
            column += size
            index += 1
            inked = True


def cells(text: str) -> int:
    """Cells of a text without tabs."""
    return len(text) if text.isascii() else cell_len(text)


def _cells(runs: Runs) -> int:
    return sum(len(text) for text, _ in runs) if runs else 0


def _graphemes(text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and cells of the graphemes of a part of the text that has no newline; a tab, whose column counts, has -1."""
    while start < end:
        tab = text.find("\t", start, end)
        stop = end if tab < 0 else tab
        # Marks with nothing to stand on stay alone: Rich would let a leading joiner swallow the next letter.
        while start < stop and not get_character_cell_size(text[start]):
            yield start, start + 1, 0
            start += 1
        for first, last, cells in split_graphemes(text[start:stop])[0]:
            yield start + first, start + last, cells
        if tab >= 0:
            yield tab, tab + 1, -1
        start = stop + 1


def _may_break(before: str, after: str) -> bool:
    """Whether a row may be broken between two graphemes without a space, given their first characters."""
    if before in _NOT_LAST or after in _NOT_FIRST:
        return False
    return _is_wide(before) or _is_wide(after)


def _is_wide(character: str) -> bool:
    return bisect_right(_WIDE, ord(character)) % 2 == 1


def _extend(runs: list[tuple[str, int]], text: str, kind: int) -> None:
    """Add text to a row's runs; neighbours of one kind become one run, since each costs a segment to draw."""
    if runs and runs[-1][1] == kind:
        runs[-1] = (runs[-1][0] + text, kind)
    elif text:
        runs.append((text, kind))
