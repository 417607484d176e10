"""The page of figures, in one widget: a widget for each would cost a tenth of the engine's speed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from spectui.chat.figures.estimates import payoff
from spectui.chat.figures.format import UNKNOWN, count, decimal, duration, milliseconds, percent, share, verdict
from spectui.chat.figures.no_drafts import why_no_drafts
from spectui.chat.figures.reasons import worded
from spectui.chat.figures.records import STATES, Figures
from spectui.speculation.records import Round
from spectui.text import printable
from spectui.ui.dashboard.digits import big
from spectui.ui.dashboard.pages.page import Page
from spectui.ui.figures import step
from spectui.ui.widgets.line_widget import LABEL, Line, bar_of, labelled

FULL_HEIGHT = 24
"""Lines of the whole page. In less room it leaves empty lines and some figures out."""


class Dashboard(Page):
    """Speed and its causes: acceptance, rounds, costs, prompt, context. An unknown figure is a dash."""

    HELP = """\
## Figures

**t/s**: tokens per second, over the last 3 seconds while a reply is written, afterwards over the whole reply.

**acceptance**: accepted / (accepted + rejected) drafted tokens.

**per pass**: tokens for each pass of the target; 1 without drafts.

**by position**: acceptance of the first, second ... token of a draft, among the rounds whose draft reached that position.

**by round**: drafted tokens of the latest rounds that were accepted, and below them those that were rejected.

**drafted**: all drafted tokens. **accepted**: the target wrote the same. **rejected**: the target wrote something else.
**ignored**: the draft was shorter than draft-min. **rounds**: passes of the target. **tokens**: the reply's.

**ahead**: how often the draft, which goes on while the target computes, had guessed what the target wrote. **saved**: seconds
of drafting that were over when a round began.

**drafted by**: accepted tokens by who drafted them: the draft model, or a repetition of the conversation's own words (suffix).

**a round**: milliseconds of an average round: drafting, verifying, sampling, and other work.

**pays** or **loses**: the tokens of a round against its cost in plain passes. An estimate: {compare} measures it.

**now**: what is drafted, and why so much. **last**: what was, before the reply ended. **no drafts**: why there are none.

**prompt**: prompt tokens read per second. **first token**: seconds until it came. **context**: how full it is.

**this chat**: tokens, acceptance and speed of the whole conversation.
"""

    DEFAULT_CSS = """
    Dashboard { height: 24; }
    """

    def build_lines(self) -> list[Line]:
        """The latest figures."""
        return lines(self.figures, self.size.width, compact=self.size.height < FULL_HEIGHT)


def lines(figures: Figures, width: int, *, compact: bool = False) -> list[Line]:
    """The page's lines, `width` cells wide. `compact` leaves empty lines and less important figures out."""
    graph = max(4, width - LABEL)
    reply = figures.reply
    head = _speed(figures, width)
    effect: list[Line] = [
        [("acceptance  ", "label"), *bar_of(reply.acceptance, graph - 6), (f"{share(reply.acceptance):>6}", "value")],
        [("per pass    ", "label"), (f"{decimal(reply.tokens_per_pass):<6}", "value"), ("tokens", "label")],
        _by_position(reply.per_position, graph),
    ]  # fmt: skip
    rounds = [_rounds(figures.rounds, graph, "accepted"), _rounds(figures.rounds, graph, "rejected")]
    counts: list[Line] = [
        _pair("drafted", count(reply.drafted), "accepted", count(reply.accepted)),
        _pair("rejected", count(reply.rejected), "ignored", count(reply.ignored)),
        _pair("rounds", count(reply.rounds), "tokens", count(reply.emitted)),
    ]
    cost = _cost(figures, graph)
    now = _now(figures, graph)
    prompt: list[Line] = [
        _pair("prompt", f"{decimal(figures.prompt_speed)} t/s", "first token", duration(figures.first_token_s)),
        labelled(
            "context", *bar_of(figures.context_share, graph - 8), (f"{percent(figures.context_share):>8}", "value")
        ),
    ]
    chat: Line = [
        ("this chat   ", "label"), (count(figures.chat.emitted), "value"), (" tokens   acc ", "label"),
        (f"{share(figures.chat.acceptance):<3}", "value"), ("   ", "label"),
        (decimal(figures.chat.tokens_per_s), "value"), (" t/s", "label"),
    ]  # fmt: skip
    if compact:
        return [*head, *effect, rounds[0], *counts[:2], cost[0], _pays(figures), *now, prompt[1]]
    return [
        *head,
        [],
        *effect,
        [],
        *rounds,
        [],
        *counts,
        _sources(figures),
        _ahead(figures),  # mostly an empty line
        *cost,
        _pays(figures),
        *now,
        *prompt,
        chat,
    ]


def _pays(figures: Figures) -> Line:
    """The break-even, in words."""
    paid = payoff(figures.rounds)
    if paid is None:
        return labelled("pays", (UNKNOWN, "label"))
    pays, times = verdict(paid.pays).split()
    return labelled(
        pays, (times, "value"), (": ", "label"), (decimal(paid.tokens), "value"),
        (" tokens for ", "label"), (decimal(paid.passes), "value"), (" passes", "label"),
    )  # fmt: skip


def _speed(figures: Figures, width: int) -> list[Line]:
    rows = big(decimal(figures.speed))
    side = ["", STATES.get(figures.state, ""), "t/s, last 3 s" if figures.live else "t/s"]
    return [[(f"{row:<15}", "big"), (text, "label")] for row, text in zip(rows, side, strict=True)]


def _pair(first: str, value: str, second: str, other: str) -> Line:
    return [
        (f"{first:<{LABEL}}", "label"), (f"{value:<11}", "value"),
        (f"{second:<{LABEL}}", "label"), (other, "value"),
    ]  # fmt: skip


def _by_position(rates: list[float | None], width: int) -> Line:
    """A column for each position in the draft, and the rates of the first and of the last one."""
    known = rates[: width - 12]
    while known and known[-1] is None:  # drafted there, but never judged
        known.pop()
    columns = "".join(" " if rate is None else step(rate) for rate in known)
    ends = f" {share(known[0])} … {share(known[-1])}" if len(known) > 1 else f" {share(known[0])}" if known else UNKNOWN
    return [("by position ", "label"), (columns, "accepted"), (ends, "value" if known else "label")]


def _rounds(rounds: tuple[Round, ...], width: int, fate: str) -> Line:
    """A column for each of the latest rounds: its accepted or its rejected tokens."""
    latest = rounds[-width:]
    # Both lines have one scale, so that equal heights are equal numbers.
    top = max((len(round.drafted) for round in latest), default=0)
    how_many: Callable[[Round], int] = (
        (lambda round: round.count("accepted")) if fate == "accepted" else (lambda round: round.count("rejected"))
    )
    columns = "".join(step(how_many(round) / top) if top and how_many(round) else " " for round in latest)
    name = "by round" if fate == "accepted" else "  rejected"
    return [(f"{name:<{LABEL}}", "label"), (columns or UNKNOWN, fate if latest else "label")]


def _sources(figures: Figures) -> Line:
    """Accepted tokens of each drafter."""
    line: Line = [("drafted by  ", "label")]
    for source, number in sorted(figures.sources.items()):
        line += [(f"{source} ", "label"), (f"{count(number):<7}", "value")]
    return line if figures.sources else [*line, (UNKNOWN, "label")]


def _ahead(figures: Figures) -> Line:
    """How many guesses of a draft that computes while the target does were right, and the time that they saved."""
    reply = figures.reply
    return _pair("ahead", f"{percent(reply.guessed)} right", "saved", duration(reply.saved_s)) if reply.guesses else []


def _now(figures: Figures, width: int) -> list[Line]:
    """Two lines: what the policy does and why, or why nothing is drafted."""
    rounds = figures.rounds
    name, style = ("now", "value") if figures.live else ("last", "label")
    if text := why_no_drafts(figures):
        return _in_two_lines("no drafts", "correction", text, "value", width)
    if not rounds or rounds[-1].reason is None:
        return [labelled("now", (UNKNOWN, "label")), []]
    sources = dict.fromkeys(token.source for token in rounds[-1].drafted)
    said = worded(rounds[-1].reason, rounds[-1].knobs)
    return _in_two_lines(name, "label", " + ".join(sources) + " · " * bool(sources) + said, style, width)


def _in_two_lines(name: str, name_style: str, text: str, style: str, width: int) -> list[Line]:
    first, second = two_lines(text, width)
    return [[(f"{name:<{LABEL}}", name_style), (first, style)], [(" " * LABEL, "label"), (second, style)]]


def two_lines(text: str, width: int) -> tuple[str, str]:
    """Wrap a text into two lines of `width` cells, with … where it is cut. The second line gets two words if they fit."""
    lines = textwrap.wrap(printable(text), max(2, width), max_lines=2, placeholder="…", break_on_hyphens=False)
    first, second = [*lines, "", ""][:2]
    rest, _, last = first.rpartition(" ")
    if rest and second and " " not in second and len(last) + 1 + len(second) <= width:
        return rest, f"{last} {second}"
    return first, second


def _cost(figures: Figures, width: int) -> list[Line]:
    """Milliseconds of an average round, by what they were spent on."""
    reply = figures.reply
    if not reply.rounds:
        return [[("a round     ", "label"), (UNKNOWN, "label")], []]
    whole = f"{milliseconds(reply.decode_s / reply.rounds)} ms"
    room = max(4, width - 9)
    draft = round(room * reply.draft_s / reply.decode_s) if reply.decode_s else 0
    verify = round(room * reply.verify_s / reply.decode_s) if reply.decode_s else 0
    first: Line = [
        ("a round     ", "label"), ("▓" * draft, "accepted"), ("█" * verify, "bar"),
        (" " * (room - draft - verify), "track"), (f"{whole:>9}", "value"),
    ]  # fmt: skip
    second: Line = []
    for name, seconds in reply.parts:
        each = milliseconds(None if seconds is None else seconds / reply.rounds)
        second += [(f"{name} ", "label"), (f"{each:<3} ", "value")]
    return [first, second]
