"""The table and the chart of a measurement so far."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from spectui.measure.live.view import View
from spectui.measure.report.chart import draw
from spectui.ui.widgets.line_widget import Line, LineWidget, cells, wrapped
from spectui.ui.widgets.title_line import shorten

BESIDE = 130
"""Columns from which a window has the chart beside the table."""

GAP = 2
_LOWEST, _HIGHEST = 9, 20
"""Rows of a chart."""

_CHART, _WIDEST = 50, 100
"""Columns of a chart beside a table: at least, and at most."""

_FIRST = 36
"""Most cells of the table's first column."""

_STYLES = ("big", "accepted", "correction", "bonus", "value", "rejected")


class ResultPane(LineWidget):
    """A chart, a table, whose last columns a narrow window has no room for, and sentences. As high as they need."""

    DEFAULT_CSS = """
    ResultPane { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.sentences: tuple[str, ...] = ()
        self.room = 24

    def show(self, view: View, sentences: Sequence[str], room: int) -> None:
        """Show these, the sentences below those of the view. `room`: rows that are seen at once."""
        self.view, self.sentences, self.room = view, tuple(sentences), room
        self.rewrite()

    def build_lines(self) -> list[Line]:
        """The chart above the table, or beside it, and the sentences."""
        width = self.size.width
        lines = _side_by_side(self.view, width, self.room) if width >= BESIDE else _stacked(self.view, width, self.room)
        for sentence in (*self.view.sentences, *self.sentences):
            lines += wrapped("", sentence, width, "label", column=0)
        self.styles.height = max(1, len(lines))
        return lines


def _stacked(view: View, width: int, room: int) -> list[Line]:
    table = table_lines(view, width)
    height = min(_HIGHEST, max(_LOWEST, room - len(table) - 2))
    parts = [part for part in (chart_lines(view, width, height), table) if part]
    return [line for part in parts for line in (*part, [])]


def _side_by_side(view: View, width: int, room: int) -> list[Line]:
    left = table_lines(view, width - 2 * GAP - _CHART)
    begins = max(map(cells, left), default=0) + 2 * GAP
    right = chart_lines(view, min(width - begins, _WIDEST), min(_HIGHEST, max(_LOWEST, room - 4)))
    if not right:
        return [*table_lines(view, width), []] if left else []
    rows = []
    for number in range(max(len(left), len(right))):
        line = list(left[number]) if number < len(left) else []
        line.append((" " * (begins - cells(line)), "label"))
        rows.append(line + (right[number] if number < len(right) else []))
    return [*rows, []]


def chart_lines(view: View, width: int, height: int) -> list[Line]:
    """The chart, if there is something to draw."""
    if view.chart is None:
        return []
    lines = view.chart.lines
    styles = ["label" if line.level else _STYLES[number % len(_STYLES)] for number, line in enumerate(lines)]
    return [
        [(text, "label" if line is None else styles[line]) for text, line in row]
        for row in draw(view.chart, width, height)
    ]


def table_lines(view: View, width: int) -> list[Line]:
    """The head and the rows; the marked ones stand out."""
    if not view.rows:
        return []
    rows = [view.heads, *view.rows]
    widths = [max(cell_len(row[number]) for row in rows) for number in range(len(view.heads))]
    widths[0] = min(widths[0], _FIRST)
    shown = len(widths)
    while shown > 1 and sum(widths[:shown]) + GAP * (shown - 1) > width:
        shown -= 1
    lines: list[Line] = []
    for number, row in enumerate(rows, -1):
        first = shorten(row[0], widths[0])
        text = first + " " * (widths[0] - cell_len(first))
        for cell, room in zip(row[1:shown], widths[1:shown], strict=True):
            text += " " * (GAP + room - cell_len(cell)) + cell
        lines.append([(text, "label" if number < 0 else "big" if number in view.marked else "value")])
    return lines
