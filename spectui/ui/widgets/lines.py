"""Lines of figures, and bars, steps and columns of blocks, which every terminal's font has. One widget draws several lines: one
small widget for each figure would cost a tenth of the engine's speed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from math import floor, log10
from textwrap import wrap
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.geometry import Region
from textual.renderables.digits import Digits
from textual.strip import Strip
from textual.widget import Widget

from spectui.chat.figures.records import Figures
from spectui.text import printable, safe

MUTED = "$foreground 60%"
"""For names of figures. Textual's `$text-muted` is an automatic colour, which `Content` does not draw."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STEPS = "▁▂▃▄▅▆▇█"
_COLUMN = f" {_STEPS}"
_BOLD, _POINT = Style(bold=True), str.maketrans("•", ".")


Line = list[tuple[str, str]]
"""Pieces of a line: (text, component class without its prefix)."""

LABEL = 12
"""Width of a line's name, in cells."""

_WITHIN = re.compile(r"(?<=\d) (?=\d{3}\b|[MG]B\b)")
"""The spaces in 4 096 and in 0.1 GB."""

STYLES = ("label", "value", "big", "mark", "bar", "track", "accepted", "correction", "bonus", "plain", "rejected", "chosen")


class LineWidget(Widget):
    """Lines of pieces, each in one of a few styles. A subclass gives them in `build_lines`."""

    ALLOW_SELECT: ClassVar[bool] = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"lines--{style}" for style in STYLES}
    DEFAULT_CSS = """
    LineWidget {
        & > .lines--label { color: $foreground 60%; }
        & > .lines--value { color: $foreground; }
        & > .lines--big { color: $accent; text-style: bold; }
        & > .lines--mark { color: $accent; }
        & > .lines--bar { color: $accent; background: $foreground 12%; }
        & > .lines--track { color: $foreground 45%; background: $foreground 12%; }
        & > .lines--accepted { color: $origin-accepted; }
        & > .lines--correction { color: $origin-correction; text-style: bold underline; }
        & > .lines--bonus { color: $origin-bonus; text-style: bold; }
        & > .lines--plain { color: $origin-plain; text-style: italic; }
        & > .lines--rejected { color: $origin-rejected; }
        & > .lines--chosen { color: $foreground; text-style: bold reverse; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: list[Line] = []
        """The lines as they are drawn."""
        self._strips: dict[int, Strip] = {}

    def build_lines(self) -> list[Line]:
        """The lines for the present figures and `self.size`."""
        raise NotImplementedError

    def rewrite(self) -> None:
        """Build the lines again, and draw those that changed. No layout is done."""
        before, self.lines = self.lines, self.build_lines() if self.size.width else []
        changed = [
            Region(0, y, self.size.width, 1) for y, (old, new) in enumerate(zip_longest(before, self.lines)) if old != new
        ]
        for region in changed:
            self._strips.pop(region.y, None)
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """Render one of the lines that were built last."""
        if (strip := self._strips.get(y)) is None:
            line = self.lines[y] if y < len(self.lines) else []
            segments = [Segment(safe(text), self.get_component_rich_style(f"lines--{name}")) for text, name in line]
            self._strips[y] = strip = Strip(segments).adjust_cell_length(self.size.width, self.rich_style)
        return strip

    def notify_style_update(self) -> None:
        """Called by Textual when styles have changed."""
        super().notify_style_update()
        self._strips.clear()

    def on_resize(self) -> None:
        """Build the lines for the new size."""
        self.lines = self.build_lines()
        self._strips.clear()
        self.refresh()


class FigureLines(LineWidget):
    """Keeps the latest figures, and draws them while it is seen. Call `update_figures` about once a second."""

    figures = Figures()

    def update_figures(self, figures: Figures) -> None:
        """Keep these figures, and draw them if they are seen."""
        self.figures = figures
        self.redraw()

    def redraw(self) -> None:
        """Draw what has changed, if it is seen."""
        if self.display:
            self.rewrite()

    def on_show(self) -> None:
        """Draw the figures that came while it was hidden."""
        self.rewrite()


# Pieces and lines


def cells(line: Line) -> int:
    """Width of a line, in cells."""
    return sum(cell_len(text) for text, _ in line)


def merged(line: Line) -> Line:
    """The line with adjacent pieces of one style merged, since each piece costs a segment."""
    out: Line = []
    for text, style in line:
        if out and out[-1][1] == style:
            out[-1] = (out[-1][0] + text, style)
        else:
            out.append((text, style))
    return out


def labelled(name: str, *pieces: tuple[str, str], column: int = LABEL) -> Line:
    """A line that begins with its name, `column` cells wide."""
    return [(f"{name:<{column}}", "label"), *pieces]


def wrapped(name: str, text: str, width: int, style: str = "value", column: int = LABEL) -> list[Line]:
    """A text wrapped between words, but not within a number or before its unit. The first line begins with the name."""
    parts = wrap(_WITHIN.sub("\N{NO-BREAK SPACE}", printable(text)), max(8, width - column))
    lines = [part.replace("\N{NO-BREAK SPACE}", " ") for part in parts]
    return [labelled("" if at else name, (part, style), column=column) for at, part in enumerate(lines)]


def flowed(items: Iterable[Line], width: int) -> list[Line]:
    """Place items side by side, on as many lines as needed. An item wider than a line gets its own."""
    lines: list[Line] = [[]]
    for item in items:
        if lines[-1] and cells(lines[-1]) + 2 + cells(item) > width:
            lines.append([])
        lines[-1] += [("  ", "label"), *item] if lines[-1] else item
    return lines


def bar_of(part: float | None, width: int) -> Line:
    """A bar that is `part` in 0..1 full."""
    filled, empty = bar(part, max(1, width))
    return [(filled, "bar"), (empty, "track")]


def gauge(part: float | None, width: int) -> Content:
    """A bar that is `part` in 0..1 full, as `Content`."""
    filled, empty = bar(part, width)
    return Content.assemble((filled, "$accent on $foreground 12%"), (empty, "on $foreground 12%"))


def figures_of(*pairs: tuple[str, str], gap: int = 2) -> Line:
    """`name value  name value`, with dimmed names."""
    line: Line = []
    for name, value in pairs:
        line += [(f"{name} ", "label"), (value, "value"), (" " * gap, "label")]
    return line[:-1]


# Blocks


def bar(part: float | None, width: int) -> tuple[str, str]:
    """(filled, empty) cells of a bar that is `part` in 0..1 full, to an eighth of a cell."""
    eighths = round(min(1.0, max(0.0, part or 0.0)) * width * 8)
    filled = _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return filled, " " * (width - len(filled))


def step(value: float) -> str:
    """One cell that is `value` in 0..1 high."""
    return _STEPS[min(7, max(0, round(value * 7)))]


def resampled(values: Sequence[float | None], n: int) -> list[float | None]:
    """The values stretched or averaged to n of them."""
    if not values:
        return [None] * n
    out: list[float | None] = []
    for x in range(n):
        first = x * len(values) // n
        part = [value for value in values[first : max(first + 1, (x + 1) * len(values) // n)] if value is not None]
        out.append(sum(part) / len(part) if part else None)
    return out


def columns(values: Sequence[float | None], height: int) -> list[str]:
    """A column for each value in 0..1, over `height` rows; the top row comes first."""
    rows = []
    for row in range(height - 1, -1, -1):
        eighths = [round((value or 0.0) * height * 8) - row * 8 for value in values]
        rows.append("".join(_COLUMN[min(8, max(0, part))] for part in eighths))
    return rows


def large(text: str) -> list[str]:
    """A number three rows high, in figures of lines."""
    drawn = (part.text for part in Digits(text).render(_BOLD) if isinstance(part, Segment))
    return [row.translate(_POINT) for row in "".join(drawn).splitlines()]


def nice_top(value: float) -> float:
    """The next of 1, 2, 3, 5, 7.5, 10, 20 ... that is not below the value: where an axis ends."""
    unit = 10.0 ** floor(log10(value)) if value > 0 else 1.0
    return next(unit * step for step in (1, 2, 3, 5, 7.5, 10) if unit * step >= value)
