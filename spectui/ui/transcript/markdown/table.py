"""Lays out the rows of a table in columns as wide as they need. One that is wider than the window stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from spectui.ui.transcript.markdown.inline import pieces_of
from spectui.ui.transcript.source import KINDS, SIGN, TEXT
from spectui.ui.transcript.wrap import NOWHERE, Piece

SUBTITLE = KINDS.index("subtitle")
BETWEEN = " │ "

_DELIMITER = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?")
_PIPE = re.compile(r"\\.|\|")

_Cell = list[Piece]


class Table:
    """The head, the line under it and the rows of a table. Places are those in its lines."""

    def __init__(self, lines: Sequence[str], aligned: Sequence[str]) -> None:
        self.height = len(lines)
        self._aligned = aligned
        self._rows: list[list[_Cell] | None] = []  # None: the line under the head, or a row with too many cells
        for number, line in enumerate(lines):
            spans = _spans(line)
            kind = TEXT if number else SUBTITLE
            cells_of_row = [[*pieces_of(line[start:end], start, kind)] for start, end in spans]
            cells_of_row += [[]] * (len(aligned) - len(spans))
            self._rows.append(None if number == 1 or len(spans) > len(aligned) else cells_of_row)
        known = [row for row in self._rows if row is not None]
        self._widths = [max(_width(row[column]) for row in known) for column in range(len(aligned))]

    @classmethod
    def at(cls, lines: Sequence[str], number: int, room: int) -> Table | None:
        """The table that begins at a line; None if none does, or its columns are wider than `room`."""
        if "|" not in lines[number] or number + 1 == len(lines) or not _DELIMITER.fullmatch(lines[number + 1].strip()):
            return None
        aligned = [lines[number + 1][start:end] for start, end in _spans(lines[number + 1])]
        if len(aligned) != len(_spans(lines[number])):
            return None
        end = number + 2
        while end < len(lines) and "|" in lines[end]:
            end += 1
        table = cls(lines[number:end], aligned)
        return table if sum(table._widths) + len(BETWEEN) * (len(aligned) - 1) <= room else None

    def rows(self) -> Iterator[list[Piece] | None]:
        """The pieces that draw each line; None for one that is drawn as it is written."""
        for number, row in enumerate(self._rows):
            if number == 1:
                yield [Piece("─┼─".join("─" * width for width in self._widths), SIGN, 0, NOWHERE)]
            else:
                yield None if row is None else [*self._row(row)]

    def _row(self, row: Sequence[_Cell]) -> Iterator[Piece]:
        done = 0
        for column, (cell, width) in enumerate(zip(row, self._widths, strict=True)):
            left, right = _spaces(width - _width(cell), self._aligned[column])
            if before := (BETWEEN if column else "") + left:
                yield Piece(before, SIGN, done, NOWHERE)
            yield from cell
            done = cell[-1].at + len(cell[-1].text) if cell else done
            if right and column + 1 < len(row):
                yield Piece(right, SIGN, done, NOWHERE)


def _spans(line: str) -> list[tuple[int, int]]:
    """Where the cells of a line start and end, without the spaces around their text."""
    pipes = [found.start() for found in _PIPE.finditer(line) if found[0] == "|"]
    starts, ends = [0, *(pipe + 1 for pipe in pipes)], [*pipes, len(line)]
    spans = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        text = line[start:end]
        if text.strip() or 0 < number < len(pipes):
            start += len(text) - len(text.lstrip())
            spans.append((start, start + len(text.strip())))
    return spans


def _width(cell: _Cell) -> int:
    return sum(cell_len(piece.text) for piece in cell)


def _spaces(free: int, aligned: str) -> tuple[str, str]:
    """What is left and right of a cell's text."""
    right = aligned.endswith(":")
    left = free // 2 if right and aligned.startswith(":") else free if right else 0
    return " " * left, " " * (free - left)
