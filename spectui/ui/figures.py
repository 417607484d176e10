"""Draws figures: bars, steps, and the colour of their names."""

from __future__ import annotations

MUTED = "$foreground 60%"
"""For names of figures. Textual's `$text-muted` is an automatic colour, which `Content` does not draw."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STEPS = "▁▂▃▄▅▆▇█"


def bar(part: float | None, width: int) -> tuple[str, str]:
    """(filled, empty) cells of a bar that is `part` in 0..1 full, to an eighth of a cell."""
    eighths = round(min(1.0, max(0.0, part or 0.0)) * width * 8)
    filled = _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return filled, " " * (width - len(filled))


def step(value: float) -> str:
    """One cell that is `value` in 0..1 high."""
    return _STEPS[min(7, max(0, round(value * 7)))]
