"""The latest rounds as columns of accepted and rejected tokens, one of them in detail, and acceptance by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from spectui.chat.figures.estimates import payoff, speed_ups
from spectui.chat.figures.format import UNKNOWN, decimal, milliseconds, share, times, tokens
from spectui.chat.figures.reasons import NO_PLAIN_ROUND, NOT_TOLD, worded
from spectui.chat.figures.records import Figures
from spectui.knobs import Knobs, specs, title
from spectui.speculation.records import Round
from spectui.store.rounds.packed import same
from spectui.ui.textual_patches.direct_render import DirectRenderWidget
from spectui.ui.transcript.inspector import quoted, share3
from spectui.ui.widgets.lines import LABEL, FigureLines, Line, figures_of, flowed, labelled, merged, step, wrapped

AXIS = 4
"""Width of the axis, in cells."""
FEW = 10
"""With fewer rounds than this, a suggestion says that it is based on few."""
TALL = 30
"""Lines from which there is room for higher columns."""


class RoundsPage(FigureLines, DirectRenderWidget, can_focus=True):
    """A strip of columns. Arrows or a click choose a round, which is shown below and marked in the transcript."""

    HELP = """\
## Rounds

Each column is a round: **█** accepted, **▒** rejected, **·** nothing drafted; **▲** marks where a knob was turned. Arrows or a
click choose a round, whose tokens are then marked in the transcript; **End** follows the latest again.

Below: acceptance at each position of the draft, among the rounds whose draft reached it. **draft-max**: the length that these
and the costs of a round suggest, estimated from this reply.
"""

    BINDING_GROUP_TITLE = "rounds"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "choose(-1)", "Round before", id="rounds.before"),
        Binding("right", "choose(1)", "Round after", id="rounds.after"),
        Binding("home", "choose(-1000)", "First round", id="rounds.first", show=False),
        Binding("end", "follow", "Latest round", id="rounds.latest"),
    ]
    DEFAULT_CSS = """
    RoundsPage { height: 1fr; pointer: pointer; }
    RoundsPage:focus > .lines--label { color: $foreground 80%; }
    """

    @dataclass
    class Chosen(Message):
        """A person has chosen a round, or (None) the latest again."""

        round: Round | None

    chosen: Round | None = None
    """The round that a person chose; None: the latest is shown."""

    def update_figures(self, figures: Figures) -> None:
        """Draw these."""
        if self.chosen is not None and not any(round is self.chosen for round in figures.rounds):
            self.chosen = None
        super().update_figures(figures)

    def show_round(self, round: Round | None) -> None:
        """Show a round that was chosen elsewhere."""
        self.chosen = next((each for each in self.figures.rounds if round and same(each, round)), None)
        self.redraw()

    def action_choose(self, by: int) -> None:
        """Choose another round."""
        rounds = self.figures.rounds
        if rounds:
            self._choose(rounds[min(max(0, self._index() + by), len(rounds) - 1)])

    def action_follow(self) -> None:
        """Show the latest again."""
        self._choose(None)

    def on_click(self, event: events.Click) -> None:
        """Choose the round under the mouse."""
        first, last = self._window()
        index = first + event.x - AXIS
        if event.y <= _height(self.size.height) + 1 and event.x >= AXIS and first <= index < last:
            self._choose(self.figures.rounds[index])

    def _choose(self, round: Round | None) -> None:
        self.chosen = round
        self.rewrite()
        self.post_message(self.Chosen(round))

    def _index(self) -> int:
        rounds = self.figures.rounds
        return next((at for at, round in enumerate(rounds) if round is self.chosen), len(rounds) - 1)

    def _window(self) -> tuple[int, int]:
        """The range of shown rounds: first and end."""
        total, room = len(self.figures.rounds), max(1, self.size.width - AXIS)
        first = min(max(0, total - room), max(0, self._index() - room // 4)) if self.chosen else max(0, total - room)
        return first, min(total, first + room)

    def build_lines(self) -> list[Line]:
        """The strip, the round in detail, and at the bottom acceptance by position."""
        rounds, (width, height) = self.figures.rounds, self.size
        if not rounds:
            return [[("each round will stand here as a stack", "label")]]
        first, last = self._window()
        strip = stacks(rounds, first, last, _height(height), self._index())
        below = by_position(self.figures, width)
        room = max(0, height - len(strip) - len(below) - 2)
        about = detail(rounds, self._index(), width)[:room]
        return [*strip, [], *about, *[[] for _ in range(room - len(about) + 1)], *below]


def _height(rows: int) -> int:
    return 8 if rows >= TALL else 5


def stacks(rounds: Sequence[Round], first: int, last: int, height: int, chosen: int) -> list[Line]:
    """The rounds from `first` to `last` as columns: a heading, `height` rows, and marks below."""
    shown = rounds[first:last]
    most = max(max((_judged(round) for round in shown), default=0), 1)
    each = -(-most // height)  # drafted tokens per cell
    lines: list[Line] = [[("accepted ", "label"), ("█", "accepted"), ("  rejected ", "label"), ("▒", "rejected"),
                          ("  a cell: ", "label"), (tokens(each), "value")]]  # fmt: skip
    for row in range(height, 0, -1):
        line: Line = [(f"{each * row if row in (height, 1) else '':>3} ", "label")]
        for round in shown:
            accepted, judged = -(-round.count("accepted") // each), -(-_judged(round) // each)
            if row <= accepted:
                line.append(("█", "accepted"))
            elif row <= max(judged, accepted + bool(round.count("rejected"))):
                line.append(("▒", "rejected"))
            else:
                line.append(("·" if row == 1 else " ", "label"))
        lines.append(merged(line))
    signs = "".join("▲" if at and changes(rounds[at - 1].knobs, rounds[at].knobs) else " " for at in range(first, last))
    at = chosen - first
    marks: Line = [(" " * AXIS + signs[:at], "value"), (signs[at].replace(" ", "↑"), "chosen"), (signs[at + 1 :], "value")]
    return [*lines, marks]


def detail(rounds: Sequence[Round], index: int, width: int) -> list[Line]:
    """The lines about one round."""
    round = rounds[index]
    accepted, judged = round.count("accepted"), _judged(round)
    sources = " + ".join(dict.fromkeys(token.source for token in round.drafted)) or "nobody"
    fates = f"{accepted} accepted, {judged - accepted} rejected" + f", {round.count('ignored')} ignored" * bool(
        round.count("ignored")
    )
    speed = decimal(len(round.tokens) / round.seconds if round.seconds else None)
    lines = [
        labelled(f"round {round.index}", (fates if round.drafted else "nothing drafted", "value")),
        labelled("drafted by", (sources, "value")),
        labelled("took", (f"{milliseconds(round.seconds)} ms", "value"), (f"  a pass of {round.pass_size}", "label")),
    ]
    if round.verify_s:
        lines.append([("  ", "label"), *figures_of(*((name, milliseconds(seconds)) for name, seconds in round.parts))])
    lines.append(labelled("yields", (f"{tokens(len(round.tokens))}: {speed} t/s", "value")))
    if (paid := payoff([round])) is not None:
        gain = round.reason.gain if round.reason is not None and round.reason.kind == "draft" else None
        expected = f" (expected {times(gain)})" if gain is not None else ""
        lines.append(labelled("costs", (f"{decimal(paid.passes)} passes: {times(paid.pays)}{expected}", "value")))
    if round.reason or round.verify_s:
        lines += wrapped("policy", worded(round.reason, round.knobs) if round.reason else UNKNOWN, width)
    else:
        lines += wrapped("", NOT_TOLD, width, "label")
    if index and (turned := changes(rounds[index - 1].knobs, round.knobs)):
        lines += wrapped("▲ turned", ", ".join(turned), width)
    return [*lines, [], *_tokens(round, width)]


def changes(before: Knobs, after: Knobs) -> list[str]:
    """The changed knobs: `draft-max 16 → 4`."""
    if before is after:
        return []
    values = ((key, getattr(before, key), getattr(after, key), spec.words) for key, _, spec in specs(Knobs))
    return [f"{title(key)} {words.get(old, old)} → {words.get(new, new)}" for key, old, new, words in values if old != new]


def _tokens(round: Round, width: int) -> list[Line]:
    """The drafted tokens with their fates, then the target's own token."""
    items: list[Line] = []
    for token in round.drafted:
        sign = {"accepted": "", "rejected": "✗", "ignored": "–"}[token.fate]
        text = f"{sign}{quoted(token.text, width - 6)}"
        items.append([(text, "accepted" if token.fate == "accepted" else "rejected"), (f" {share3(token.p)}", "label")])
    items += [[(quoted(own.text, width), own.origin)] for own in round.tokens[round.count("accepted") :]]
    return flowed(items, width)


def _judged(round: Round) -> int:
    return round.count("accepted") + round.count("rejected")


# Acceptance by position in the draft, and the draft-max that it suggests


def by_position(figures: Figures, width: int) -> list[Line]:
    """Acceptance by position as columns of one row, of the first and of the last in figures; and the draft-max."""
    rates = list(figures.reply.per_position)
    while rates and rates[-1] is None:  # drafted there, but never judged
        rates.pop()
    ends = f" {share(rates[0])} … {share(rates[-1])}" if rates else UNKNOWN
    steps = "".join(" " if rate is None else step(rate) for rate in rates[: max(1, width - LABEL - 12)])
    return [labelled("by position", (steps, "accepted"), (ends, "value" if rates else "label")), *_suggestion(figures)]


def _suggestion(figures: Figures) -> list[Line]:
    expected = speed_ups(figures.rounds, figures.reply)
    if not expected:
        unknown = figures.reply.drafted and not any(round.plain_s for round in figures.rounds)
        return [labelled("draft-max", (NO_PLAIN_ROUND if unknown else "too little was drafted to suggest one", "label"))]
    best, now = expected.index(max(expected)), figures.rounds[-1].knobs.draft_max
    few = "  few rounds so far" if figures.reply.rounds < FEW else ""
    more = " or more" if best == len(expected) - 1 and best < now else ""
    gains = [f": about {times(pays)}" if figures.measured is None else "" for pays in expected]
    lines = [labelled("draft-max", (f"{best}{more}", "value"), (" suggested", "label"), (gains[best], "value"))]
    if figures.draft_max_flag:
        return [*lines, labelled("the server", (f"{figures.draft_max_flag} {best}", "value"), (few, "label"))]
    gain = (f": {times(figures.measured.ratio)} (measured)" if figures.measured is not None and figures.measured.told
            else gains[now] if now < len(gains) else "")  # fmt: skip
    return [*lines, labelled("", ("now ", "label"), (f"{now}{gain}", "value"), (few, "label"))]
