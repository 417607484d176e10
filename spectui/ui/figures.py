"""Draws figures with blocks, which every terminal's font has: bars, steps, columns; and the colour of their names."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.renderables.digits import Digits

MUTED = "$foreground 60%"
"""For names of figures. Textual's `$text-muted` is an automatic colour, which `Content` does not draw."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STEPS = "▁▂▃▄▅▆▇█"
_COLUMN = f" {_STEPS}"
_BOLD, _POINT = Style(bold=True), str.maketrans("•", ".")


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
    """The next of 1, 2, 5, 10, 20, 50 ... that is not below the value: where an axis ends."""
    if value <= 0:
        return 1.0
    unit = 1.0
    while unit * 10 < value:
        unit *= 10
    while unit > value:
        unit /= 10
    return next(unit * step for step in (1, 2, 3, 5, 7.5, 10) if unit * step >= value)
