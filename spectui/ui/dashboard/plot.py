"""Values drawn as columns of blocks, which every terminal's font has. No widgets."""

from __future__ import annotations

from collections.abc import Sequence

_STEPS = " ▁▂▃▄▅▆▇█"


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


def columns(values: Sequence[float | None], height: int, *, wide: int = 1) -> list[str]:
    """A column for each value in 0..1, `wide` cells wide, over `height` rows; the top row comes first."""
    rows = []
    for row in range(height - 1, -1, -1):
        eighths = [round((value or 0.0) * height * 8) - row * 8 for value in values]
        rows.append("".join(_STEPS[min(8, max(0, part))] * wide for part in eighths))
    return rows


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
