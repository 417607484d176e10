"""Acceptance by place in the draft with what it suggests, and where the time goes with what it yields."""

from __future__ import annotations

from spectui.chat.estimates import Advice, Payoff, advice, payoff
from spectui.chat.figures import UNKNOWN, Figures, decimal, milliseconds, share, verdict
from spectui.ui.dashboard.page import Page
from spectui.ui.dashboard.plot import columns
from spectui.ui.keys import key_of
from spectui.ui.widgets.line_widget import LABEL, Line, bar_of, labelled

AXIS = 5
FEW = 10
"""Rounds: below, a suggestion says that it rests on few."""


class PlacesPage(Page):
    """A histogram over the draft's places, the suggested draft-max, the costs of a round and the break-even in words."""

    HELP = """\
## Places

A column is the acceptance at that place of the draft, among the rounds that reached it. **draft-max** is what the columns and
the costs below suggest: an estimate from this reply. **Costs** are told in passes: how many plain tokens the target would have
written in the time of an average round.
"""

    DEFAULT_CSS = """
    PlacesPage { height: 1fr; }
    """

    def written(self) -> list[Line]:
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
            *break_even(paid, key_of(self.app, "compare")),
        ]


def histogram(figures: Figures, width: int, height: int) -> list[Line]:
    """Columns of acceptance by place, with axes. `height` rows of columns and three more."""
    rates = list(figures.reply.per_position)
    while rates and rates[-1] is None:
        rates.pop()
    head: Line = [("acceptance by place in the draft", "label")]
    if not rates:
        return [head, [(UNKNOWN, "label")]]
    wide = max(1, min(4, (width - AXIS) // len(rates)))
    rates = rates[: (width - AXIS) // wide]
    lines: list[Line] = [head]
    for row, text in enumerate(columns(rates, height, wide=wide)):
        axis = {0: "1.0 ", height // 2: " .5 ", height - 1: "  0 "}.get(row, "    ")
        lines.append([(axis + "│", "label"), (text, "accepted")])
    ticks = "".join(
        f"{place:<{wide * 5}}" if place % 5 == 0 else f"{place:<{wide * 4}}" if place == 1 else ""
        for place in range(1, len(rates) + 1)
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
    rest_s = max(0.0, reply.decode_s - reply.draft_s - reply.verify_s - reply.choose_s)
    lines: list[Line] = [[*head, (f"{milliseconds(reply.decode_s / reply.rounds):>{max(1, width - 34)}} ms", "value"),
                          (" a round", "label")]]  # fmt: skip
    for name, seconds in (
        ("draft", reply.draft_s), ("verify", reply.verify_s), ("choose", reply.choose_s), ("rest", rest_s),
    ):  # fmt: skip
        part = seconds / reply.decode_s
        lines.append(labelled(
            f"  {name}", *bar_of(part, width - LABEL - 14), (f"{milliseconds(seconds / reply.rounds):>5} ms", "value"),
            (f"{share(part):>6}", "label"),
        ))  # fmt: skip
    return lines


def break_even(paid: Payoff | None, compare: str) -> list[Line]:
    """Whether it pays, in words; `compare` is the key that measures it."""
    if paid is None:
        return [labelled("break-even", (UNKNOWN, "label"), ("  no plain pass was measured yet", "label"))]
    return [
        [("a round costs ", "label"), (f"{decimal(paid.passes)} passes", "value"), ("; it yields ", "label"),
         (f"{decimal(paid.tokens)} tokens", "value")],
        [(verdict(paid.pays), "value"), (f": an estimate, {compare} measures it", "label")],
    ]  # fmt: skip
