"""Acceptance by position in the draft, and the draft-max that it suggests."""

from __future__ import annotations

from spectui.chat.figures.estimates import speed_ups
from spectui.chat.figures.format import UNKNOWN, share, times
from spectui.chat.figures.records import Figures
from spectui.ui.dashboard.plot import columns
from spectui.ui.figures import step
from spectui.ui.widgets.line_widget import LABEL, Line, labelled

AXIS = 5
FEW = 10
"""With fewer rounds than this, a suggestion says that it is based on few."""


def by_position(figures: Figures, width: int, height: int) -> list[Line]:
    """Acceptance by position, in `height` rows with axes or, of less than two, in one line; and the draft-max."""
    return [
        *(histogram(figures, width, height) if height > 1 else [_in_one_line(figures, width)]),
        *_suggestion(figures),
    ]


def _rates(figures: Figures) -> list[float | None]:
    rates = list(figures.reply.per_position)
    while rates and rates[-1] is None:  # drafted there, but never judged
        rates.pop()
    return rates


def _in_one_line(figures: Figures, width: int) -> Line:
    """A column for each position in the draft, and the rates of the first and of the last one."""
    known = _rates(figures)[: max(1, width - LABEL - 12)]
    ends = f" {share(known[0])} … {share(known[-1])}" if len(known) > 1 else f" {share(known[0])}" if known else UNKNOWN
    steps = "".join(" " if rate is None else step(rate) for rate in known)
    return labelled("by position", (steps, "accepted"), (ends, "value" if known else "label"))


def histogram(figures: Figures, width: int, height: int) -> list[Line]:
    """Columns of acceptance by position, with axes. `height` rows of columns and two more."""
    rates = _rates(figures)
    head: Line = [("acceptance by position in the draft", "label")]
    wide = max(1, min(4, (width - AXIS) // max(1, len(rates))))
    rates = rates[: (width - AXIS) // wide]
    lines: list[Line] = [head]
    for row, text in enumerate(columns(rates, height, wide=wide)):
        axis = {0: "1.0 ", height // 2: " .5 ", height - 1: "  0 "}.get(row, "    ")
        lines.append([(axis + "│", "label"), (text, "accepted")])
    ticks = "".join(
        f"{position:<{wide * 5}}" if position % 5 == 0 else f"{position:<{wide * 4}}" if position == 1 else ""
        for position in range(1, len(rates) + 1)
    )
    return [*lines, [(" " * AXIS + ticks[: width - AXIS], "label")]]


def _suggestion(figures: Figures) -> list[Line]:
    expected = speed_ups(figures.rounds, figures.reply)
    if not expected:
        return [labelled("draft-max", (UNKNOWN, "label"), ("  too little was drafted to suggest one", "label"))]
    best, now = expected.index(max(expected)), figures.rounds[-1].knobs.draft_max
    few = "  few rounds so far" if figures.reply.rounds < FEW else ""
    more = " or more" if best == len(expected) - 1 and best < now else ""
    pays = times(expected[best])
    lines = [labelled("draft-max", (f"{best}{more}", "value"), (" suggested: about ", "label"), (pays, "value"))]
    if figures.draft_max_flag:
        return [*lines, labelled("the server", (f"{figures.draft_max_flag} {best}", "value"), (few, "label"))]
    then: Line = [("now ", "label"), (str(now), "value")]
    if now < len(expected):
        then += [(": about ", "label"), (times(expected[now]), "value")]
    return [*lines, labelled("", *then, (few, "label"))]
