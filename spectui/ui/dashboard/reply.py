"""The figures of the reply: the page that is seen first, which tells how fast it is and why; and the page of all details."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from spectui.chat.figures.activity import IN_WORDS
from spectui.chat.figures.estimates import payoff
from spectui.chat.figures.format import UNKNOWN, count, decimal, duration, milliseconds, percent, share, times, tokens
from spectui.chat.figures.reasons import NO_PLAIN_ROUND, NOT_TOLD, last_reason, read_before, why_no_drafts
from spectui.chat.figures.records import Figures
from spectui.speculation.records import Round
from spectui.text import printable
from spectui.ui.keys import key_of
from spectui.ui.textual_patches.direct_render import DirectRenderWidget
from spectui.ui.widgets.lines import (
    LABEL,
    FigureLines,
    Line,
    bar_of,
    columns,
    labelled,
    large,
    merged,
    nice_top,
    resampled,
    step,
    wrapped,
)


class NowPage(FigureLines, DirectRenderWidget):
    """The speed in large digits, the acceptance and the reason, in words that need no explanation. A dash is unknown."""

    HELP = """\
## Now

**t/s**: tokens per second, over the last 3 seconds while a reply is written, afterwards over the whole reply. **plain** is
decoding without drafts: how much faster this is, is estimated from this reply's passes until {compare} has measured it.

Each column is one of the latest rounds: as high as it has accepted tokens; **▁** all were rejected, **·** none was judged.
**guesses** are drafts, and **a step**, or a pass: tokens for each pass of the target; 1 without drafts.

Below: what is drafted just now, or why nothing is; while a prompt is read, how much of it was read before, and why not more.
The other figures are on {page.details}.
"""

    DEFAULT_CSS = """
    NowPage { height: 8; }
    """

    def build_lines(self) -> list[Line]:
        """The lines for the latest figures."""
        figures, width = self.figures, self.size.width
        can_compare = figures.state == "ready" and self.screen.check_action("run", ("compare",))
        compare = key_of(self.app, "compare") if can_compare else ""
        return [*large_speed(figures, compare), [], *yields(figures, width), *why(figures, width)]


def speed(figures: Figures) -> Line:
    """Tokens per second, and beside plain decoding."""
    line: Line = [(decimal(figures.speed), "big"), (" t/s", "label")]
    if figures.state not in ("ready", "writing"):
        return [*line, (f"   {IN_WORDS.get(figures.state, figures.state)}", "label")]
    paid = payoff(figures.rounds)
    if figures.measured is not None:
        gain = times(figures.measured.ratio) if figures.measured.told else "like"
        return [*line, (f"   {gain}", "value"), (" plain (measured)", "label")]
    if paid is None:
        return line
    return [*line, ("   about ", "label"), (times(paid.pays), "value"), (" plain", "label")]


def large_speed(figures: Figures, compare: str) -> list[Line]:
    """`54`, three rows high, and beside it: `t/s, about 1.4 times as fast as without guesses`. `compare`: the key that
    measures that, "" where it cannot be now."""
    paid, measured = payoff(figures.rounds), figures.measured
    more = f"; {compare} compares" if compare else ""
    words = ("t/s", "")
    if figures.state not in ("ready", "writing"):
        words = f"t/s, {IN_WORDS.get(figures.state, figures.state)}", ""
    elif measured is not None:
        gain = f"{times(measured.ratio)[:-1]} times as fast" if measured.told else "about as fast"
        words = f"t/s, {gain}", "as without guesses (measured)"
    elif paid is not None:
        words = f"t/s, about {times(paid.pays)[:-1]} times as fast", f"as without guesses{more}"
    digits = large(decimal(figures.speed).replace("–", "-"))
    return [[(row, "big"), (f"  {said}", "value")] for row, said in zip(digits, ("", *words), strict=True)]


def yields(figures: Figures, width: int) -> list[Line]:
    """The rounds over the whole width, and below: `39 % of guesses were right, 1.9 tokens a step`."""
    reply = figures.reply
    return [
        strip(figures.rounds[-width:]),
        [(percent(reply.acceptance), "value"), (" of guesses were right, ", "label"),
         (decimal(reply.tokens_per_pass), "value"), (" tokens a step", "label")],
    ]  # fmt: skip


def strip(rounds: Sequence[Round]) -> Line:
    """A column for each of these rounds: its accepted tokens, in the scale of the longest draft."""
    top = max((len(round.drafted) for round in rounds), default=0)
    return merged(
        [
            (step(round.count("accepted") / top), "accepted") if round.count("accepted")
            else (step(0), "rejected") if round.count("rejected") else ("·", "label")
            for round in rounds
        ]
    )  # fmt: skip


def why(figures: Figures, width: int) -> list[Line]:
    """What is drafted, or was at the end, or why nothing is: one sentence on two lines."""
    problem = read_before(figures) if figures.state == "reading" else why_no_drafts(figures)
    style = "value" if problem or figures.live else "label"
    said = printable(problem or last_reason(figures))
    lines = textwrap.wrap(said, max(2, width), max_lines=2, placeholder="…", break_on_hyphens=False)
    return [[(line, style)] for line in lines]


AXIS = 5
ROOM = 22
"""Lines from which the parts stand apart."""


class DetailsPage(FigureLines, DirectRenderWidget):
    """Counts, costs of a round, prompt and context; below them plots over the reply and over the conversation."""

    HELP = """\
## Details

**acceptance**: accepted / (accepted + rejected) drafted tokens. **drafted**: all drafted tokens. **accepted**: the target wrote
the same. **rejected**: the target wrote something else. **ignored**: the draft was shorter than draft-min. **rounds**: passes
of the target. **tokens**: the reply's.

**drafted by**: accepted tokens by who drafted them: the draft model, or a repetition of the conversation's own words (suffix).

**ahead**: how often the draft, which goes on while the target computes, had guessed what the target wrote. **saved**: seconds
of drafting that were over when a round began.

**a round**: milliseconds of an average round, by what they went into, each with its share. **costs**: the same in passes, that
is the plain tokens that the target would have written in that time; it pays when the round yields more tokens.

**prompt**: prompt tokens read per second. **first token**: seconds until it came. **kept**: those that were read before,
and where that was kept. **context**: how full it is. **this chat**:
tokens, acceptance and speed of the whole conversation.

The plots are of this reply, and then of the whole conversation. The axis is the time spent decoding, without pauses and
prompts.
"""

    DEFAULT_CSS = """
    DetailsPage { height: 1fr; }
    """

    def build_lines(self) -> list[Line]:
        """The figures, and as many of the plots as the room allows."""
        width, height = self.size.width, self.size.height
        gap: list[Line] = [[]] if height >= ROOM else []
        lines = [*counts(self.figures, width), *gap, *cost(self.figures, width), *gap, *prompt(self.figures, width), *gap]
        return [*lines, *_plots(self.figures, width, height - len(lines))]


def counts(figures: Figures, width: int) -> list[Line]:
    """How many tokens were drafted, by whom, and what became of them."""
    reply = figures.reply
    lines: list[Line] = [
        labelled("acceptance", *bar_of(reply.acceptance, width - LABEL - 6), (f"{share(reply.acceptance):>6}", "value")),
        _pair("drafted", count(reply.drafted), "accepted", count(reply.accepted)),
        _pair("rejected", count(reply.rejected), "ignored", count(reply.ignored)),
        _pair("rounds", count(reply.rounds), "tokens", count(reply.emitted)),
    ]
    by = [(f"{source} {count(number)}   ", "value") for source, number in sorted(reply.sources.items())]
    lines.append(labelled("drafted by", *(by or [(UNKNOWN, "label")])))
    if reply.guesses:
        lines.append(_pair("ahead", f"{percent(reply.guessed)} right", "saved", duration(reply.saved_s)))
    return lines


def cost(figures: Figures, width: int) -> list[Line]:
    """Milliseconds of an average round by what they went into, each with its share; and the same in passes."""
    reply = figures.reply
    if not reply.rounds or not reply.decode_s:
        return [labelled("a round", (UNKNOWN, "label"))]
    whole = f"{milliseconds(reply.decode_s / reply.rounds)} ms"
    lines: list[Line] = [labelled("a round", (f"{whole:>{max(1, width - LABEL - 6)}}", "value"))]
    for name, seconds in reply.parts:
        if seconds is None:
            return [*lines, *wrapped("", NOT_TOLD, width, "label"), *_yield(figures, width)]
        part, mean = seconds / reply.decode_s, milliseconds(seconds / reply.rounds)
        lines.append(
            labelled(f"  {name}", *bar_of(part, width - LABEL - 14), (f"{mean:>5} ms", "value"), (f"{share(part):>6}", "label"))
        )
    return [*lines, *_yield(figures, width)]


def _yield(figures: Figures, width: int) -> list[Line]:
    """What a round costs in plain passes, and the tokens that it yields."""
    if (paid := payoff(figures.rounds)) is not None:
        said = f"{decimal(paid.passes)} passes, yields {decimal(paid.tokens)} tokens"
    elif figures.reply.drafted and not figures.reply.verify_s:
        said = f"{NO_PLAIN_ROUND}; yields {decimal(figures.reply.tokens_per_pass)} tokens"
    else:
        said = UNKNOWN
    return wrapped("costs", said, width)


def prompt(figures: Figures, width: int) -> list[Line]:
    """The prompt, the context, and the whole conversation."""
    chat = figures.chat
    said = f"{tokens(chat.emitted)}, {percent(chat.acceptance)} accepted, {decimal(chat.tokens_per_s)} t/s"
    return [
        _pair("prompt", f"{decimal(figures.prompt_speed)} t/s", "first token", duration(figures.first_token_s)),
        *([labelled("kept", (kept, "value"))] if (kept := read_before(figures)) else []),
        labelled("context", *bar_of(figures.context_share, width - LABEL - 6),
                 (f"{percent(figures.context_share):>6}", "value")),
        labelled("this chat", (said, "value")),
    ]  # fmt: skip


def _pair(first: str, value: str, second: str, other: str) -> Line:
    return [*labelled(first, (f"{value:<11}", "value")), *labelled(second, (other, "value"))]


def _plots(figures: Figures, width: int, room: int) -> list[Line]:
    """Speed and acceptance over the reply and over the conversation; in little room the reply's alone, or none."""
    histories = {"this reply": figures.reply.history, "conversation": figures.chat.history}
    most = room // 2 if room >= 16 else room
    if most < 7:
        return []
    rate = (most - 4) * 2 // 5
    lines: list[Line] = []
    for name, history in list(histories.items())[: 2 if most < room else 1]:
        lines += plot(f"{name}: t/s", history.speeds, width, most - 4 - rate)
        lines += plot("acceptance", history.acceptances, width, rate, top=1.0)
        lines += [_time_axis(history.seconds, width), []]
    return lines[:-1]


def plot(name: str, values: Sequence[float | None], width: int, height: int, top: float | None = None) -> list[Line]:
    """A heading with the latest value, and `height` rows with the ends of the axis beside them."""
    known = [value for value in values if value is not None]
    high = top or nice_top(max(known, default=0.0))
    say = share if top else decimal
    last = say(known[-1]) if known else UNKNOWN
    shares = [None if value is None else value / high for value in resampled(values, width - AXIS - 1)]
    rows = columns(shares, height)
    lines: list[Line] = [[(name, "label"), (f"{last:>{max(1, width - len(name))}}", "value")]]
    for row, text in enumerate(rows):
        axis = say(high) if row == 0 else "0" if row == height - 1 else ""
        lines.append([(f"{axis:>{AXIS}}│", "label"), (text, "accepted")])
    return lines


def _time_axis(seconds: float, width: int) -> Line:
    end = f"{seconds:.0f} s of decoding" if seconds < 600 else f"{seconds / 60:.0f} min of decoding"
    return [(" " * AXIS + "└" + "─" * max(0, width - AXIS - 2 - len(end)) + " " + end, "label")]
