"""Wrapping a stream of coloured pieces into rows of cells. No widgets here.

A `Flow` holds one text made of pieces (tokens) and where its rows start. Rows partition the text: joined they are the
text again, so no character can be lost between a token and the screen. What is kept per piece is an end (4 bytes), a kind
(1 byte) and its characters.

The rule is greedy and looks only at the text from a row's start on, which is why appending wraps only the last row again.
A row is broken after spaces, beside a wide (CJK) character, or, in a word longer than the row, between any two graphemes.
Spaces at a row's end hang over the edge and are not drawn.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set

from rich.cells import get_character_cell_size, split_graphemes

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

Grapheme = tuple[int, int, int]
"""Start and end in the text, and width in cells; a tab's width depends on its column and is given as -1."""


class Flow:
    """Pieces of text, wrapped into rows of at most `width` cells (at least 2: a wide character must fit)."""

    __slots__ = ("_ends", "_kinds", "_rows", "text", "width")

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self.text = ""
        self._ends = array("I")
        self._kinds = bytearray()
        self._rows = array("I", [0])

    @property
    def height(self) -> int:
        """Number of rows: 1 for an empty text."""
        return len(self._rows)

    @property
    def pieces(self) -> int:
        """Number of pieces appended so far, empty ones too."""
        return len(self._ends)

    def append(self, pieces: Iterable[tuple[str, int]]) -> int:
        """Add pieces of (text, kind), kind in 0..255. Returns the first row that may look different now."""
        fresh: list[str] = []
        end = len(self.text)
        for text, kind in pieces:
            text = safe(text)
            fresh.append(text)
            end += len(text)
            self._ends.append(end)
            self._kinds.append(kind)
        last = len(self._rows) - 1
        self.text += "".join(fresh)
        self._wrap(self._rows[last])
        return last

    def rewrap(self, width: int) -> None:
        """Wrap everything again, to another width in cells."""
        self.width = max(2, width)
        self._rows = array("I", [0])
        self._wrap(0)

    def stretches(self) -> Iterator[tuple[int, int, int]]:
        """Start, end and kind of each piece there is now. Another thread may append meanwhile."""
        start = 0
        for end, kind in zip(self._ends[:], bytes(self._kinds), strict=False):
            yield start, end, kind
            start = end

    def source(self, row: int) -> tuple[int, int]:
        """Where a row starts and ends in the text, hanging spaces and its newline included."""
        end = self._rows[row + 1] if row + 1 < len(self._rows) else len(self.text)
        return self._rows[row], end

    def row_of(self, offset: int) -> int:
        """The row that holds the character at an offset of the text."""
        return bisect_right(self._rows, offset) - 1

    def runs(self, row: int) -> list[tuple[str, int]]:
        """A row as it is drawn: (text, kind) runs, tabs expanded, at most `width` cells in all."""
        runs: list[tuple[str, int]] = []
        start, end, simple = self._visible(row)
        if simple:
            piece = bisect_right(self._ends, start)
            while start < end:
                stop = min(end, self._ends[piece])
                _extend(runs, self.text[start:stop], self._kinds[piece])
                start, piece = stop, piece + 1
        else:
            for first, shown, _ in self._cells(start, end):
                _extend(runs, shown, self._kinds[bisect_right(self._ends, first)])
        return runs

    def offset_at(self, row: int, index: int) -> int:
        """The text's offset of the index-th character drawn in a row; the row's drawn end if there are fewer."""
        index = max(0, index)
        start, end, simple = self._visible(row)
        if simple:
            return min(start + index, end)
        drawn = 0
        for first, shown, _ in self._cells(start, end):
            drawn += len(shown)
            if index < drawn:
                # Inside a grapheme that is drawn as it is, each character has its own offset; a tab has one for all.
                return first if self.text[first] == "\t" else first + index - (drawn - len(shown))
        return end

    def drawn_at(self, row: int, offset: int) -> int:
        """How many characters are drawn in a row before an offset of its text: the inverse of `offset_at`."""
        start, end, simple = self._visible(row)
        if simple:
            return max(0, min(offset, end) - start)
        return sum(len(shown) for first, shown, _ in self._cells(start, end) if first < offset)

    def piece_of(self, offset: int) -> int:
        """The piece that holds the character at an offset of the text."""
        return bisect_right(self._ends, offset)

    def span_of(self, piece: int) -> tuple[int, int]:
        """Where a piece starts and ends in the text."""
        return self._ends[piece - 1] if piece else 0, self._ends[piece]

    def at_cell(self, row: int, cell: int) -> int | None:
        """The text's offset of the grapheme drawn at a cell of a row, or None where nothing is drawn."""
        if not 0 <= row < len(self._rows) or cell < 0:
            return None
        start, end, simple = self._visible(row)
        if simple:
            return start + cell if start + cell < end else None
        column = 0
        for first, _, width in self._cells(start, end):
            column += width
            if cell < column:
                return first
        return None

    def cell_of(self, piece: int) -> tuple[int, int]:
        """Row and cell at which a piece begins. Raises IndexError for a piece that was never appended."""
        if not 0 <= piece < len(self._ends):
            raise IndexError(f"There are {len(self._ends)} pieces, and none of number {piece}.")
        offset = self._ends[piece - 1] if piece else 0
        row = self.row_of(offset)
        start, end, simple = self._visible(row)
        if simple:
            return row, min(offset, end) - start
        return row, sum(width for first, _, width in self._cells(start, end) if first < offset)

    def extract(self, start: int = 0, end: int | None = None, *, skip: Set[int] = frozenset()) -> str:
        """The text from one offset to another, without the pieces of the kinds in `skip`."""
        end = len(self.text) if end is None else min(end, len(self.text))
        if not any(kind in self._kinds for kind in skip):
            return self.text[start:end]
        parts = []
        piece = bisect_right(self._ends, start)
        while start < end:
            stop = min(end, self._ends[piece])
            if self._kinds[piece] not in skip:
                parts.append(self.text[start:stop])
            start, piece = stop, piece + 1
        return "".join(parts)

    def _visible(self, row: int) -> tuple[int, int, bool]:
        """Start and end of what a row draws, and whether each of its characters is one cell (ASCII without tabs)."""
        start, end = self.source(row)
        if end > start and self.text[end - 1] == "\n":
            end -= 1
        shown = self.text[start:end]
        simple = shown.isascii() and "\t" not in shown
        return start, min(end, start + self._room(start)) if simple else end, simple

    def _cells(self, start: int, end: int) -> Iterator[tuple[int, str, int]]:
        """Offset, drawn text and cells of each grapheme of a row, as far as the row is wide."""
        column, room = 0, self._room(start)
        for first, stop, cells in _graphemes(self.text, start, end):
            width = min(cells if cells >= 0 else TAB - column % TAB, room - column)
            if width < cells:
                return
            # Neither a mark with nothing to stand on nor a joiner with nothing to join is drawn: it would act on a neighbour.
            shown = " " * width if cells < 0 else self.text[first:stop].rstrip("\u200d") if cells else ""
            yield first, shown, width
            column += width

    def _room(self, start: int) -> int:
        """The cells that the text of the row has that starts at this offset."""
        return self.width

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


def _graphemes(text: str, start: int, end: int) -> Iterator[Grapheme]:
    """The graphemes of a part of the text that has no newline."""
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
