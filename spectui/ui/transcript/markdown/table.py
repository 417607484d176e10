"""Lays out the rows of a table: columns as wide as they need, or with wrapped cells where the window is narrower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spectui.ui.transcript.blocks import KINDS, TEXT
from spectui.ui.transcript.markdown.inline import SIGN, Shown, shown
from spectui.ui.transcript.markdown.page import NOWHERE, Piece, cells
from spectui.ui.transcript.wrap import Flow

HEAD = KINDS.index("subtitle")
BETWEEN = " │ "
NARROWEST = 6
"""Cells of a column; where there is less for each, the table is drawn as it is written."""


class Cell(NamedTuple):
    """What is drawn of a cell, and where it begins and ends: places in the line."""

    begin: int
    end: int
    parts: list[Shown]


class Row(NamedTuple):
    """A row of the table in a line of the source."""

    line: int
    cells: list[str]
    head: bool


def cells_of(line: str, contents: Sequence[str]) -> list[Cell] | None:
    """The cells with these contents in a line; None if they are not there."""
    found: list[Cell] = []
    done = 0
    for content in contents:
        at = line.find(content, done)
        if at < 0:
            content = content.replace("|", "\\|")
            at = line.find(content, done)
        if at < 0:
            return None
        done = at + len(content)
        parts = [Shown(start + at, first + at, end + at, own) for start, first, end, own in shown(content)]
        found.append(Cell(at, done, parts))
    return found


def table(
    rows: Sequence[tuple[Row, Sequence[Cell]]], aligned: Sequence[str], lines: Sequence[str], room: int
) -> list[tuple[int, list[list[Piece]]]]:
    """For each line of the source, its lines in the page, as pieces with their places in the source's line. Empty if the
    columns have no room."""
    columns = len(aligned)
    natural = [max(_width(lines[row.line], each[at]) for row, each in rows) for at in range(columns)]
    widths = _fit(natural, room - len(BETWEEN) * (columns - 1))
    if widths is None:
        return []
    made: list[tuple[int, list[list[Piece]]]] = []
    for row, each in rows:
        if row.head:
            rule = "─┼─".join("─" * width for width in widths)
            made.append((row.line + 1, [[Piece(rule, SIGN, 0, NOWHERE)]]))
        fits = all(_width(lines[row.line], cell) <= width for cell, width in zip(each, widths, strict=True))
        lay = _one_line if fits else _wrapped
        made.append((row.line, [*lay(lines[row.line], each, widths, aligned, HEAD if row.head else TEXT)]))
    return made


def _fit(natural: Sequence[int], room: int) -> list[int] | None:
    """Widths of the columns: the broadest ones give way. None if there is no room."""
    if sum(natural) <= room:
        return [*natural]
    if sum(min(width, NARROWEST) for width in natural) > room:
        return None
    low, high = NARROWEST, room
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(min(width, middle) for width in natural) <= room else (low, middle - 1)
    return [min(width, low) for width in natural]


def _width(line: str, cell: Cell) -> int:
    return sum(cells(line[at:end]) for _, at, end, _ in cell.parts)


def _one_line(
    line: str, row: Sequence[Cell], widths: Sequence[int], aligned: Sequence[str], kind: int
) -> Iterator[list[Piece]]:
    pieces: list[Piece] = []
    done = 0
    for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
        left, right = _spaces(width - _width(line, cell), aligned[at])
        if before := (BETWEEN if at else "") + left:
            pieces.append(Piece(before, SIGN, done, NOWHERE))
            done = cell.begin
        for start, first, end, own in cell.parts:
            pieces.append(Piece(line[first:end], kind if own == TEXT else own, min(done, start), first))
            done = end
        if right and at + 1 < len(row):
            pieces.append(Piece(right, SIGN, cell.end, NOWHERE))
        done = cell.end
    yield pieces


def _wrapped(
    line: str, row: Sequence[Cell], widths: Sequence[int], aligned: Sequence[str], kind: int
) -> Iterator[list[Piece]]:
    """All of it stands for the whole line, because a selection across it has no other meaning."""
    flows = [Flow(width) for width in widths]
    for flow, cell in zip(flows, row, strict=True):
        flow.append((line[at:end], kind if own == TEXT else own) for _, at, end, own in cell.parts)
    height = max(flow.height for flow in flows)
    for index in range(height):
        pieces: list[Piece] = []
        for at, (flow, width) in enumerate(zip(flows, widths, strict=True)):
            runs = flow.runs(index) if index < flow.height else []
            left, right = _spaces(width - sum(cells(text) for text, _ in runs), aligned[at])
            runs = [((BETWEEN if at else "") + left, SIGN), *runs, (right if at + 1 < len(row) else "", SIGN)]
            pieces += [Piece(text, own, 0, NOWHERE) for text, own in runs if text]
        if index + 1 < height:
            pieces.append(Piece("\n", SIGN, 0, NOWHERE))
        yield pieces


def _spaces(free: int, aligned: str) -> tuple[str, str]:
    """What is left and right of a cell's text."""
    left = free if aligned == "right" else free // 2 if aligned == "center" else 0
    return " " * max(0, left), " " * max(0, free - left)
