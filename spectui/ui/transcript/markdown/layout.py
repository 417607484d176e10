"""Makes text of a reply's Markdown: each line of the source becomes a line, with other signs and without its marks.

What cannot be told from text is drawn as it is written, so no letter is ever lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from spectui.chat.text.code_blocks import FORMULAS, QUOTE, Fence, fence_at
from spectui.ui.transcript.markdown.code import highlighted
from spectui.ui.transcript.markdown.inline import pieces_of
from spectui.ui.transcript.markdown.table import SUBTITLE, Table
from spectui.ui.transcript.source import FENCE, KINDS, SIGN, TEXT
from spectui.ui.transcript.wrap import NOWHERE, Line, Piece

TITLE = KINDS.index("title")
LONGEST_RULE = 40

_ITEM = re.compile(r"([-+*]|\d{1,9}[.)])( +(?=\S)|$)")
_HEADING = re.compile(r"(#{1,6})[ \t]+(?=\S)")
_END_OF_HEADING = re.compile(r"[ \t]+#+[ \t]*$|[ \t]+$")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_GOES_ON = re.compile(r"[^\s>#`~*+\-_=\d\\$|][^|]*$")
"""A line that can only go on with a paragraph."""
_CODE = 4
"""Spaces before a line of code that has no fence (CommonMark)."""


def lines_of(text: str, base: int, width: int) -> list[Line]:
    """The lines that draw a text within `width` cells. The source has it at `base`."""
    return _Layout(text, base, width).lines()


class _Layout:
    def __init__(self, text: str, base: int, width: int) -> None:
        self._text = text
        self._width = width
        self._lines = text.split("\n")
        self._places = [base]  # where the source has each line
        for line in self._lines:
            self._places.append(self._places[-1] + len(line) + 1)
        self._last = {line.strip(): number for number, line in enumerate(self._lines) if line.strip() in ("\\]", "$$")}
        self._in_list = False
        self._drawn: list[Line] = []

    def lines(self) -> list[Line]:
        number = 0
        while number < len(self._lines):
            number = self._block(number)
        return self._drawn

    def _block(self, number: int) -> int:
        """Draw the line, or the lines of what begins there. Returns the number of the next line."""
        line = self._lines[number]
        if (closing := FORMULAS.get(line.strip())) and self._last.get(closing, 0) > number:
            return self._as_written(number, self._find(closing, number + 1) + 1)
        quote = QUOTE.match(line)
        at = quote.end() if quote else 0
        indent = len(line) - at - len(line[at:].lstrip(" "))
        if _RULE.match(line, at):
            bars = "▎ " * quote[0].count(">") if quote else ""
            return self._rule(number, bars)
        if indent >= _CODE and not quote and not self._in_list:
            return self._as_written(number, number + 1)
        before = ("▎ " * quote[0].count(">") if quote else "") + " " * indent
        after, at = before, at + indent
        while item := _ITEM.match(line, at):
            mark = f"{item[1]} " if item[1][0].isdigit() else "• "
            before, after, at = before + mark, after + " " * len(mark), item.end()
        self._in_list = after != before or (self._in_list and (indent > 0 or not line.strip()))
        if len(before) + 2 > max(2, self._width // 2):
            return self._as_written(number, number + 1)
        if fence := fence_at(self._lines, number, at):
            return self._fence(number, fence, before, after)
        if not quote and at == indent and (table := Table.at(self._lines, number, self._width - indent)):
            return self._table(number, table, after)
        return self._text_line(number, at, before, after)

    def _text_line(self, number: int, at: int, before: str, after: str) -> int:
        line, place, last = self._lines[number], self._places[number], number
        under = self._lines[number + 1] if number + 1 < len(self._lines) else ""
        underline = _UNDERLINE.match(under) if at == 0 and line.strip() else None
        if heading := _HEADING.match(line, at):
            kind, end = TITLE if heading[1] == "#" else SUBTITLE, _END_OF_HEADING.search(line, heading.end())
            text = line[heading.end() : end.start() if end else len(line)]
            pieces = [*pieces_of(text, place + heading.end(), kind)]
        elif underline:
            pieces = [*pieces_of(line, place, TITLE if underline[1][0] == "=" else SUBTITLE)]
        else:
            while not before and line and self._goes_on(last + 1):
                last += 1
            pieces = [
                *pieces_of(self._text[place - self._places[0] + at : self._places[last + 1] - 1 - self._places[0]], place + at)
            ]
        self._draw(last, before, after, pieces, place)
        return self._rule(number + 1) if underline else last + 1

    def _goes_on(self, number: int) -> bool:
        """Whether this line goes on with the paragraph above it."""
        if number >= len(self._lines) or not _GOES_ON.match(self._lines[number]):
            return False
        return number + 1 == len(self._lines) or not _UNDERLINE.match(self._lines[number + 1])

    def _rule(self, number: int, before: str = "") -> int:
        rule = "─" * max(1, min(LONGEST_RULE, self._width - len(before)))
        self._draw(number, before, before, [Piece(rule, SIGN, 0, NOWHERE)])
        return number + 1

    def _fence(self, number: int, fence: Fence, before: str, after: str) -> int:
        at = self._lines[number].rfind(fence.info)
        label = Piece(fence.info, FENCE, 0, self._places[number] + at) if fence.info else Piece("─", FENCE, 0, NOWHERE)
        self._draw(number, before + ("╭ " if fence.info else "╭"), f"{after}│ ", [label])
        number, start, pieces = number + 1, 0, list[Piece]()  # of the code, where this line begins
        for begin, end, kind in highlighted(fence.code, fence.language) if number < fence.end else ():
            while begin < end:
                size = len(fence.lines[number - fence.first])
                stop = min(end, start + size)
                place = self._places[number + 1] - 1 - size + begin - start
                if begin < stop:
                    pieces.append(Piece(fence.code[begin:stop], kind, place, place))
                if stop < end:
                    self._draw(number, f"{after}│ ", f"{after}│ ", pieces)
                    number, start, pieces, stop = number + 1, start + size + 1, [], stop + 1
                begin = stop
        if number < fence.end:
            self._draw(number, f"{after}│ ", f"{after}│ ", pieces)
        if fence.end < fence.next:
            self._draw(fence.end, f"{after}╰", after, [Piece("─", SIGN, 0, NOWHERE)])
        return fence.next

    def _table(self, number: int, table: Table, before: str) -> int:
        for row, pieces in enumerate(table.rows(), number):
            place = self._places[row]
            if pieces is None:
                self._as_written(row, row + 1)
            else:
                self._draw(
                    row,
                    before,
                    before,
                    [
                        piece._replace(start=place + piece.start, at=piece.at + (place if piece.at >= 0 else 0))
                        for piece in pieces
                    ],
                )
        return number + table.height

    def _as_written(self, number: int, end: int) -> int:
        for row in range(number, end):
            place = self._places[row]
            self._draw(row, "", "", [Piece(self._lines[row], TEXT, place, place)])
        return end

    def _draw(self, number: int, before: str, after: str, pieces: Iterable[Piece], first: int | None = None) -> None:
        """Draw the lines up to this one, which begin at the place `first`: with its own signs before the first row, and others
        before the rows that continue it."""
        pieces = [piece for piece in pieces if piece.text]
        place = self._places[number] if first is None else first
        if pieces:
            pieces[0] = pieces[0]._replace(start=place)
        if number + 1 < len(self._lines):
            end = self._places[number + 1] - 1
            pieces.append(Piece("\n", pieces[-1].kind if pieces else TEXT, end if pieces else place, end))
        self._drawn.append(Line(pieces, before, after))

    def _find(self, closing: str, number: int) -> int:
        return next(at for at in range(number, len(self._lines)) if self._lines[at].strip() == closing)
