"""Tables of text that fit into a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

DASH = "–"
"""In place of an unknown figure."""

_GAP = 2
"""Columns between two cells."""

_NARROWEST = 12
"""Columns that the first column keeps, however narrow the terminal is."""


def table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The lines of a table: its first column on the left, the others on the right of their width.

    Columns that do not fit follow in tables below, beside the first column again, which is cut where it is too wide.
    """
    first, *widths = (max(map(cell_len, column)) for column in zip(*rows, strict=True))
    first = min(first, max(_NARROWEST, width - _GAP - max(widths, default=0)))
    begin = 0
    while begin < len(widths):
        end, used = begin + 1, first + _GAP + widths[begin]
        while end < len(widths) and used + _GAP + widths[end] <= width:
            used += _GAP + widths[end]
            end += 1
        if begin:
            yield ""
        for head, *cells in rows:
            line = set_cell_size(head, first) if cell_len(head) <= first else set_cell_size(head, first - 1) + "…"
            for cell, wide in zip(cells[begin:end], widths[begin:end], strict=True):
                line += " " * (_GAP + wide - cell_len(cell)) + cell
            yield line.rstrip()
        begin = end
