"""Acceptance by position in the draft and the draft-max that it suggests; what a round's time is spent on, and its yield."""

from __future__ import annotations

from spectui.chat.figures.estimates import Advice, Payoff, advice, payoff
from spectui.chat.figures.format import UNKNOWN, decimal, milliseconds, share, verdict
from spectui.chat.figures.records import Figures
from spectui.ui.dashboard.pages.page import Page
from spectui.ui.dashboard.plot import columns
from spectui.ui.keys import key_of
from spectui.ui.widgets.line_widget import LABEL, Line, bar_of, labelled

AXIS = 5
FEW = 10
"""With fewer rounds than this, a suggestion says that it is based on few."""


class PositionsPage(Page):
    """A histogram over the draft's positions, the suggested draft-max, the costs of a round and the break-even in words."""

    HELP = """\
## Positions

Each column is the acceptance at that position of the draft, among the rounds whose draft reached it.

**draft-max**: the length that these columns and the costs below suggest. An estimate from this reply.

**where the time goes**: milliseconds and share of an average round: drafting, verifying, sampling, and other work.

**costs**: in passes, that is the plain tokens that the target would have written in the time of an average round.
"""

    DEFAULT_CSS = """
    PositionsPage { height: 1fr; }
    """

    def build_lines(self) -> list[Line]:
        """The page."""
        figures, tall = self.figures, self.size.height >= 26
        suggested = advice(figures.rounds, figures.reply)
        paid = payoff(figures.rounds)
        return [
            *histogram(figures, self.size.width, 8 if tall else 4),
            *_suggestion(figures, suggested),
            *([[]] if tall else []),
            *where_the_time_goes(figures, self.size.width),
            *([[]] if tall else []),
            *break_even(paid, "" if figures.draft_max_flag else key_of(self.app, "compare")),
        ]


def histogram(figures: Figures, width: int, height: int) -> list[Line]:
    """Columns of acceptance by position, with axes. `height` rows of columns and three more."""
    rates = list(figures.reply.per_position)
    while rates and rates[-1] is None:
        rates.pop()
    head: Line = [("acceptance by position in the draft", "label")]
    if not rates:
        return [head, [(UNKNOWN, "label")]]
    wide = max(1, min(4, (width - AXIS) // len(rates)))
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


def _suggestion(figures: Figures, suggested: Advice | None) -> list[Line]:
    if suggested is None or not figures.rounds:
        return [labelled("draft-max", (UNKNOWN, "label"), ("  too little was drafted to suggest one", "label"))]
    best, now = suggested.best, figures.rounds[-1].knobs.draft_max
    few = "  few rounds so far" if figures.reply.rounds < FEW else ""
    more = " or more" if best == len(suggested.pays) - 1 and best < now else ""
    lines = [
        labelled(
            "draft-max",
            (f"{best}{more}", "value"), (" suggested: about ", "label"), (f"{suggested.pays[best]:.1f}x", "value"),
        ),
    ]  # fmt: skip
    if figures.draft_max_flag:
        return [*lines, labelled("the server", (f"{figures.draft_max_flag} {best}", "value"), (few, "label"))]
    at_now = suggested.pays[now] if now < len(suggested.pays) else None
    then: Line = [("now ", "label"), (str(now), "value")]
    if at_now is not None:
        then += [(": about ", "label"), (f"{at_now:.1f}x", "value")]
    then.append((few, "label"))
    return [*lines, labelled("", *then)]


def where_the_time_goes(figures: Figures, width: int) -> list[Line]:
    """Milliseconds of an average round by what they went into, each with its share."""
    reply = figures.reply
    head: Line = [("where the time goes", "label")]
    if not reply.rounds or not reply.decode_s:
        return [head, [(UNKNOWN, "label")]]
    lines: list[Line] = [[*head, (f"{milliseconds(reply.decode_s / reply.rounds):>{max(1, width - 34)}} ms", "value"),
                          (" a round", "label")]]  # fmt: skip
    for name, seconds in reply.parts:
        part = None if seconds is None else seconds / reply.decode_s
        each = milliseconds(None if seconds is None else seconds / reply.rounds)
        lines.append(labelled(
            f"  {name}", *bar_of(part, width - LABEL - 14), (f"{each:>5} ms", "value"), (f"{share(part):>6}", "label"),
        ))  # fmt: skip
    return lines


def break_even(paid: Payoff | None, compare: str) -> list[Line]:
    """Whether it pays, in words; `compare` is the key that measures it, "" where that cannot be."""
    if paid is None:
        return [labelled("break-even", (UNKNOWN, "label"), ("  no plain pass was measured yet", "label"))]
    return [
        [("a round costs ", "label"), (f"{decimal(paid.passes)} passes", "value"), ("; it yields ", "label"),
         (f"{decimal(paid.tokens)} tokens", "value")],
        [(verdict(paid.pays), "value"), (f": an estimate, {compare} measures it" if compare else ": an estimate", "label")],
    ]  # fmt: skip
