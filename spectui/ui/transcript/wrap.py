"""Wrapping lines of coloured pieces into rows of cells. No widgets here.

The rows of a `Flow` partition its text: joined they are the text again, so no character can be lost between a token and the
screen. What is drawn stands for a source, such as a reply as it was written: each piece knows its part of the source, and the
pieces are in the source's order. A mark that is not drawn, such as the `**` around a word, belongs to the word. So what is
selected is copied as it was written, and a place is found again where the same source is drawn in another way.

The rule of wrapping is greedy and looks only at the text from a row's start on, which is why appending wraps only the last
row again. A row is broken after spaces, beside a wide (CJK) character, or, in a word longer than the row, between any two
graphemes. Spaces at a row's end hang over the edge and are not drawn.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

from rich.cells import get_character_cell_size, split_graphemes

from spectui.text import safe
from spectui.ui.transcript.source import SIGN

TAB = 4
"""Columns between tab stops, counted from the row's start."""

_ONE_CELL = "[ -~¡-¬®-ÿ‐-‧─-╿]"
NARROW = re.compile(f"{_ONE_CELL}*")
"""Characters that are a cell each: Latin letters, dashes, quotes, the lines of tables."""

_NOT_FIRST = frozenset("、。，．・：；！？）］｝」』】〕〉》ー々…,.:;!?)]}%’”")
_NOT_LAST = frozenset("（［｛「『【〔〈《([{‘“")
_WORD = re.compile(r"([^ \t]*)([ \t]*)")

NOWHERE, ASIDE = -1, -2
"""Places of a text that is not in the source: it was made for a part of it, such as a table's line, or is beside it, such as a
rejected token."""


class Piece(NamedTuple):
    """A drawn text. `start`: where its part of the source begins, which ends where the next piece's begins.

    `at`: where the text itself is in the source, or `NOWHERE`, or `ASIDE`.
    """

    text: str
    kind: int
    start: int = 0
    at: int = 0

    def part(self, first: int, end: int) -> Piece:
        """The piece that is drawn for a part of the text."""
        if not first and end >= len(self.text):
            return self
        at = self.at + first if self.at >= 0 else self.at
        return Piece(self.text[first:end], self.kind, at if first and at >= 0 else self.start, at)


class Line(NamedTuple):
    """Pieces, and what is drawn before their first row and before those that continue it: bullets, bars, indentation, whose
    characters are cells. The last piece ends with a newline, unless it is the text's last."""

    pieces: Iterable[Piece]
    before: str = ""
    after: str = ""


class Cell(NamedTuple):
    """A drawn grapheme. `start` and `at` are those of a piece; `end`: where the source ends of what it stands for."""

    text: str
    width: int
    kind: int
    start: int
    at: int
    end: int

    @property
    def place(self) -> int:
        """Where the source has what it stands for."""
        return self.at if self.at >= 0 else self.start


class Row:
    """The text of a row with its hanging spaces and its newline, and the pieces that it is made of."""

    __slots__ = ("_marks", "before", "start", "text")

    def __init__(self, before: str, start: int, pieces: Iterable[Piece] = ()) -> None:
        """`before` is drawn before it. `start`: where its part of the source begins."""
        self.before = before
        self.start = start
        self._marks = array("i")  # length, kind, start and place of each piece: a long conversation has many
        texts = []
        for piece in pieces:
            texts.append(piece.text)
            self._marks.extend((len(piece.text), *piece[1:]))
        self.text = "".join(texts)

    @property
    def pieces(self) -> Iterator[Piece]:
        """The pieces."""
        marks, end = iter(self._marks), 0
        for length, kind, start, at in zip(marks, marks, marks, marks, strict=True):
            begin, end = end, end + length
            yield Piece(self.text[begin:end], kind, start, at)

    def cells(self, width: int, after: int) -> Iterator[Cell]:
        """The graphemes that are drawn in so many cells. `after`: where the next row's part of the source begins."""
        pieces = [*self.pieces, Piece("", 0, after, after)]
        begins = [0, *accumulate(len(piece.text) for piece in pieces[:-1])]

        def at_offset(offset: int) -> Piece:
            number = bisect_right(begins, offset) - 1
            return pieces[number].part(offset - begins[number], len(self.text))

        column, room = 0, width - len(self.before)
        for first, stop, cells in _graphemes(self.text, 0, len(self.text) - self.text.endswith("\n")):
            wide = min(cells if cells >= 0 else TAB - column % TAB, room - column)
            if wide < cells:
                return
            # Neither a mark with nothing to stand on nor a joiner with nothing to join is drawn: it would act on a neighbour.
            shown = " " * wide if cells < 0 else self.text[first:stop].rstrip("\u200d") if cells else ""
            _, kind, start, at = at_offset(first)
            yield Cell(shown, wide, kind, start, at, start if at == ASIDE else at_offset(stop).start)
            column += wide


class Flow:
    """Lines, wrapped into rows of at most `width` cells (at least 2: a wide character must fit)."""

    __slots__ = ("rows", "size", "width")

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self.rows = [Row("", 0)]
        """The last one is empty where the text is, or ends with a newline."""
        self.size = 0
        """Characters of the source."""

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def last_kind(self) -> int | None:
        """The kind of what the last row ends with; None where it is empty."""
        return [*self.rows[-1].pieces][-1].kind if self.rows[-1].text else None

    def append(self, pieces: Iterable[Piece]) -> None:
        """Add pieces. Of the rows before, only the last one may look different then."""
        self.extend([Line(pieces)])

    def extend(self, lines: Iterable[Line]) -> None:
        """Add lines. Of the rows before, only the last one may look different then."""
        last = self.rows.pop()
        pieces, before, after = [*last.pieces], last.before, last.before
        for line in lines:
            if not pieces:
                before, after = (sign if len(sign) <= self.width // 2 else "" for sign in (line.before, line.after))
            for piece in line.pieces:
                if (text := safe(piece.text)) != piece.text:
                    piece = piece._replace(text=text)
                self.size = max(self.size, piece.start, piece.at + len(text) if piece.at >= 0 else 0)
                begin = 0
                while end := text.find("\n", begin) + 1:
                    self._wrap([*pieces, piece.part(begin, end)], before, after)
                    pieces, begin = [], end
                if begin < len(text):
                    pieces.append(piece.part(begin, len(text)))
        self._wrap(pieces, before, after)

    def _wrap(self, pieces: Sequence[Piece], before: str, after: str) -> None:
        """Add the rows of a line."""
        text = "".join(piece.text for piece in pieces)
        begin = number = done = 0  # where the row begins; the piece at hand, and how much of it stands in rows
        for end in _ends_of_rows(text, self.width - len(before), self.width - len(after)):
            row = []
            while begin < end:
                taken = min(end - begin, len(pieces[number].text) - done)
                row.append(pieces[number].part(done, done + taken))
                begin, done = begin + taken, done + taken
                if done == len(pieces[number].text):
                    number, done = number + 1, 0
            self.rows.append(Row(before, row[0].start if row else self.size, row))
            before = after

    def cut(self, row: int, size: int) -> None:
        """Remove the rows from this one on. What stays stands for `size` characters of the source."""
        self.rows[row:] = [Row("", size)]
        self.size = size

    # What is drawn

    def runs(self, row: int) -> list[tuple[str, int]]:
        """A row as it is drawn: (text, kind) runs, tabs expanded, at most `width` cells in all."""
        of, runs = self.rows[row], list[tuple[str, int]]()
        if of.text.isascii() and "\t" not in of.text:  # each character is a cell
            left = self.width - len(of.before)
            for text, kind, *_ in of.pieces:
                runs.append((text.rstrip("\n")[:left], kind))
                left = max(0, left - len(text))
        else:
            runs = [(cell.text, cell.kind) for cell in self.cells(row)]
        # Neighbours of one kind become one run, since each costs a segment to draw.
        same = groupby([(of.before, SIGN), *runs], key=itemgetter(1))
        return [(text, kind) for kind, parts in same if (text := "".join(part for part, _ in parts))]

    def cells(self, row: int) -> Iterator[Cell]:
        """The graphemes of a row, after what is drawn before it."""
        return self.rows[row].cells(self.width, self.part(row).stop)

    def at_cell(self, row: int, cell: int) -> Cell | None:
        """The grapheme that is drawn at a cell of a row; None where there is none."""
        if not 0 <= row < self.height or (cell := cell - len(self.rows[row].before)) < 0:
            return None
        stops = accumulate(each.width for each in self.cells(row))
        return next((each for each, stop in zip(self.cells(row), stops, strict=True) if cell < stop), None)

    # What of the source stands where

    def part(self, row: int) -> range:
        """The part of the source that a row stands for."""
        return range(self.rows[row].start, self.rows[row + 1].start if row + 1 < self.height else self.size)

    def begins(self, row: int, index: int) -> int:
        """Where the source begins of what is drawn from the index-th character of a row on, with the marks before it."""
        drawn = len(self.rows[row].before)
        if index <= drawn:
            return self.rows[row].start
        for cell in self.cells(row):
            drawn += len(cell.text)
            if index < drawn:
                return cell.start
        return self.ends(row, index)

    def ends(self, row: int, index: int) -> int:
        """Where the source ends of what is drawn before the index-th character of a row, with the marks after it."""
        drawn, end = len(self.rows[row].before), self.rows[row].start
        for cell in self.cells(row):
            if drawn >= index:
                break
            drawn, end = drawn + len(cell.text), cell.end
        return end

    def row_of(self, place: int) -> int:
        """The row in which a place of the source is drawn, or the first row of what is drawn in its stead."""
        row = max(0, bisect_right(self.rows, place, key=_start) - 1)
        if any(piece.at >= 0 and piece.start <= place for piece in self.rows[row].pieces):
            return row
        return bisect_left(self.rows, self.rows[row].start, key=_start)

    def marked(self, row: int, start: int, end: int) -> tuple[int, int]:
        """Which characters of a row stand for the source between two places: the first, and the one after the last."""
        first = last = len(self.rows[row].before)
        for cell in self.cells(row):
            first += len(cell.text) if cell.end <= start else 0
            last += len(cell.text) if cell.place < end else 0
        return first, max(first, last)

    def column_of(self, row: int, place: int) -> int:
        """The cell of a row at which what stands for a place of the source is drawn."""
        return len(self.rows[row].before) + sum(cell.width for cell in self.cells(row) if cell.end <= place)


_start = attrgetter("start")


def _ends_of_rows(text: str, room: int, rest: int) -> Iterator[int]:
    """Where the rows of a line end. The first row has `room` for so many cells, each other one for `rest`."""
    begin, end = 0, len(text) - text.endswith("\n")
    if end <= room and NARROW.fullmatch(text, 0, end):
        yield len(text)
        return
    while begin < end and (row := _narrow_row(room).match(text, begin, end)):
        begin, room = row.end(), rest
        if begin < end:
            yield begin
    column, inked = 0, False  # a row is not broken after mere indentation: that would leave an empty one
    for word in _WORD.finditer(text, begin, end):
        for first, stop, size in _units(text, *word.span(1)):
            if inked and column + size > room:
                yield first
                begin, column, room = first, 0, rest
            if column + size > room:
                for at, _, cells in _graphemes(text, first, stop):
                    if column + cells > room and at > begin:
                        yield at
                        begin, column, room = at, 0, rest
                    column += cells
            else:
                column += size
            inked = True
        for space in word[2]:
            column += 1 if space == " " else TAB - column % TAB
    yield len(text)


@lru_cache(64)
def _narrow_row(room: int) -> re.Pattern[str]:
    """Finds a row where it and what follows are characters of a cell each, as most text is: words and the spaces behind them,
    or else a part of a word."""
    words, part = f"{_ONE_CELL}{{1,{room}}}(?<! )(?:[ \\t]+|$)", f"(?! {{{room}}}){_ONE_CELL}{{{room}}}"
    return re.compile(f"(?={_ONE_CELL}{{{room + 1}}}|{_ONE_CELL}*$)(?:{words}|{part})")


def _units(text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and cells of the parts of a word between which a row may be broken: beside its wide characters."""
    if NARROW.fullmatch(text, start, end):
        if start < end:
            yield start, end, end - start
        return
    begin, before, size = start, start, 0
    for first, _, cells in _graphemes(text, start, end):
        if first > begin and _may_break(text[before], text[first]):
            yield begin, first, size
            begin, size = first, 0
        before, size = first, size + cells
    yield begin, end, size


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
    return get_character_cell_size(before) > 1 or get_character_cell_size(after) > 1
