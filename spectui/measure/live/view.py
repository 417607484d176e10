"""What a measurement shows as it goes on, and its form on the way between two processes: a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from spectui.measure.report.chart import Chart, ChartLine


class Progress(NamedTuple):
    """`done`: share of the work, 0..1. `left_s`: seconds left; None: not known yet."""

    done: float
    what: str
    left_s: float | None = None


@dataclass(frozen=True)
class Winner:
    """What is fastest, to be used in the chat: knobs, or another draft (a file)."""

    label: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    draft: str | None = None


@dataclass(frozen=True)
class View:
    """A table with its marked rows (by number), a chart, and sentences."""

    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    marked: tuple[int, ...] = ()
    chart: Chart | None = None
    sentences: tuple[str, ...] = ()
    winner: Winner | None = None


def line(message: Progress | View) -> str:
    """The message in one line."""
    value = asdict(message) if isinstance(message, View) else message._asdict()
    kind = "view" if isinstance(message, View) else "progress"
    return json.dumps({kind: value}, allow_nan=False)


def parsed(text: str) -> Progress | View | None:
    """The message of a line; None where it is none, such as what a library has printed."""
    try:
        value = json.loads(text)
        if "progress" in value:
            return Progress(**value["progress"])
        view = value["view"]
        chart, winner = view["chart"], view["winner"]
        return View(
            tuple(view["heads"]),
            tuple(map(tuple, view["rows"])),
            tuple(view["marked"]),
            _chart(chart) if chart is not None else None,
            tuple(view["sentences"]),
            Winner(**winner) if winner is not None else None,
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _chart(value: Mapping[str, Any]) -> Chart:
    lines = (
        ChartLine(label, tuple((float(x), float(y)) for x, y in points), bool(level))
        for label, points, level in value["lines"]
    )
    return Chart(value["x"], value["y"], tuple(lines))
