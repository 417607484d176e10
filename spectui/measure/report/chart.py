"""Line charts of characters, for the terminal and the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from math import ceil, floor, log10
from typing import NamedTuple

MARKS = "●▲■◆○△□◇"
"""The marks of the points, by line: the lines can be told apart without colours."""

LEVEL = "╌"

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a Braille character, from U+2800 on: four rows of two dots."""

_MARK_WIDTH = 5
"""Characters of a line for each of its marks, at least."""

_LEAST_WIDTH, _LEAST_HEIGHT = 24, 5


class ChartLine(NamedTuple):
    """Points (x, y) with y >= 0, by x. `level`: only its height means something, and it is drawn from side to side."""

    label: str
    points: tuple[tuple[float, float], ...]
    level: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines over one pair of axes. `x` and `y`: what the axes show."""

    x: str
    y: str
    lines: tuple[ChartLine, ...] = ()

    @property
    def worth_drawing(self) -> bool:
        """Some line has at least two points."""
        return any(len(line.points) > 1 and not line.level for line in self.lines)


class Piece(NamedTuple):
    """A part of a row. `line`: the number of the line that it belongs to; None: axes and words."""

    text: str
    line: int | None = None


def draw(chart: Chart, width: int, height: int) -> list[list[Piece]]:
    """The chart in rows of at most `width` cells, `height` of them and as many more as its legend takes.

    Empty where there is nothing to draw, or no room for it.
    """
    points = [point for line in chart.lines if not line.level for point in line.points]
    if not points or width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return []
    top, ticks = _y_axis(max(y for line in chart.lines for _, y in line.points), height - 3)
    margin = max(len(text) for text in ticks.values()) + 1
    plot = _Plot(width - margin - 2, height - 3, min(x for x, _ in points), max(x for x, _ in points), top)
    plot.draw(chart.lines)
    rows = [[Piece(f"{chart.y}, by {chart.x}"[:width])]]
    for row, cells in enumerate(plot.rows()):
        axis = "┤" if row in ticks else "│"
        rows.append([Piece(f"{ticks.get(row, ''):>{margin}}{axis}"), *cells])
    rows += _x_axis(chart.lines, plot, margin)
    return rows + _legend(chart.lines, width)


def marks_of(lines: Sequence[ChartLine]) -> list[str]:
    """The mark of each line."""
    marks = cycle(MARKS)
    return [LEVEL if line.level else next(marks) for line in lines]


class _Plot:
    """The part between the axes: `width` x `height` characters, each with 2 x 4 dots."""

    def __init__(self, width: int, height: int, left: float, right: float, top: float) -> None:
        self.width, self.height = width, height
        self._left, self._right, self._top = left, right, top
        self._dots: dict[tuple[int, int], int] = {}
        self._signs: dict[tuple[int, int], str] = {}
        self._owner: dict[tuple[int, int], int] = {}

    def column(self, x: float) -> int:
        """The column of an x."""
        return self._dot(x, 0)[0] // 2

    def _dot(self, x: float, y: float) -> tuple[int, int]:
        """Dots from the left, and from the top."""
        share = 0.5 if self._right == self._left else (x - self._left) / (self._right - self._left)
        return round(share * (2 * self.width - 1)), round((1 - y / self._top) * (4 * self.height - 1))

    def draw(self, lines: Sequence[ChartLine]) -> None:
        """Levels lie behind the lines, and lines behind the marks of points; of many points some have one."""
        marks = marks_of(lines)
        for number, line in enumerate(lines):
            if line.level:
                row = self._dot(self._left, line.points[0][1])[1] // 4
                for column in range(self.width):
                    self._signs[column, row], self._owner[column, row] = LEVEL, number
        for number, line in enumerate(lines):
            if not line.level:
                dots = [self._dot(*point) for point in line.points]
                for first, last in pairwise(dots):
                    self._join(first, last, number)
        for number, line in enumerate(lines):
            if not line.level:
                every = ceil(_MARK_WIDTH * len(line.points) / self.width)
                for x, y in (self._dot(*point) for point in line.points[:: max(1, every)]):
                    self._signs[x // 2, y // 4], self._owner[x // 2, y // 4] = marks[number], number

    def _join(self, first: tuple[int, int], last: tuple[int, int], number: int) -> None:
        steps = max(abs(last[0] - first[0]), abs(last[1] - first[1]), 1)
        for step in range(steps + 1):
            x = round(first[0] + (last[0] - first[0]) * step / steps)
            y = round(first[1] + (last[1] - first[1]) * step / steps)
            cell = x // 2, y // 4
            self._signs.pop(cell, None)
            self._dots[cell] = self._dots.get(cell, 0) | _DOTS[y % 4][x % 2]
            self._owner[cell] = number

    def rows(self) -> Iterator[list[Piece]]:
        """The rows from the top, neighbours of one line in one piece."""
        for row in range(self.height):
            pieces: list[Piece] = []
            for column in range(self.width):
                cell = column, row
                sign = self._signs.get(cell) or (chr(0x2800 + self._dots[cell]) if cell in self._dots else " ")
                owner = self._owner.get(cell)
                if pieces and pieces[-1].line == owner:
                    pieces[-1] = Piece(pieces[-1].text + sign, owner)
                else:
                    pieces.append(Piece(sign, owner))
            yield pieces


def _y_axis(most: float, height: int) -> tuple[float, dict[int, str]]:
    """Where the axis ends, and the figures beside its rows, 0 among them."""
    most = max(most, 1e-9)
    step = _step(most / max(1, height // 3))
    top = step * ceil(most / step - 1e-9)
    places = max(0, -floor(log10(step)))
    values = [step * number for number in range(round(top / step) + 1)]
    return top, {round((1 - value / top) * (4 * height - 1)) // 4: f"{value:.{places}f}" for value in values}


def _step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 ... (and of .1, .2 ...) that is not below this."""
    unit: float = 10 ** floor(log10(least))
    return next(unit * each for each in (1, 2, 5, 10) if unit * each >= least * (1 - 1e-9))


def _x_axis(lines: Sequence[ChartLine], plot: _Plot, margin: int) -> list[list[Piece]]:
    """The axis with a tick at each x for which there is room."""
    ticks, words = ["─"] * plot.width, [" "] * (plot.width + 1)
    free = -2
    for x in sorted({x for line in lines if not line.level for x, _ in line.points}):
        text, column = f"{x:g}", plot.column(x)
        start = min(max(0, column - len(text) // 2), len(words) - len(text))
        if start > free + 1:
            ticks[column], words[start : start + len(text)] = "┬", text
            free = start + len(text)
    return [[Piece(" " * margin + "└" + "".join(ticks))], [Piece(" " * (margin + 1) + "".join(words).rstrip())]]


def _legend(lines: Sequence[ChartLine], width: int) -> list[list[Piece]]:
    rows: list[list[Piece]] = [[]]
    used = 0
    for number, (mark, line) in enumerate(zip(marks_of(lines), lines, strict=True)):
        text = f"{mark} {line.label}"[: width - 1]
        if used and used + len(text) + 2 > width:
            rows.append([])
            used = 0
        rows[-1] += [Piece("  " if used else " "), Piece(text, number)]
        used += len(text) + (2 if used else 1)
    return rows
