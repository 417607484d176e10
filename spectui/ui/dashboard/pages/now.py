"""The page that is seen first: how fast it is, the latest rounds, and why drafts are as they are."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from spectui.chat.figures.activity import IN_WORDS
from spectui.chat.figures.estimates import payoff
from spectui.chat.figures.format import decimal, percent, times
from spectui.chat.figures.reasons import last_reason, read_before, why_no_drafts
from spectui.chat.figures.records import Figures
from spectui.speculation.records import Round
from spectui.text import printable
from spectui.ui.figures import large, step
from spectui.ui.keys import key_of
from spectui.ui.textual_patches.direct_render import DirectRenderWidget
from spectui.ui.widgets.line_widget import FigureLines, Line, cells, merged

LARGE = 9
"""Lines from which the speed is three rows high, and everything is said in words that need no explanation."""


class NowPage(FigureLines, DirectRenderWidget):
    """The speed, the acceptance and the reason, a line each; with room, the speed is in large digits. A dash is unknown."""

    HELP = """\
## Now

**t/s**: tokens per second, over the last 3 seconds while a reply is written, afterwards over the whole reply. **plain** is
decoding without drafts: how much faster this is, is estimated from this reply's passes until {compare} has measured it.

Each column is one of the latest rounds: as high as it has accepted tokens; **▁** all were rejected, **·** none was judged.
**a pass**, or a step: tokens for each pass of the target; 1 without drafts, which are the **guesses**.

Below: what is drafted just now, or why nothing is; while a prompt is read, how much of it was read before, and why not more.
The other figures are on {page.details}.
"""

    DEFAULT_CSS = """
    NowPage { height: 4; }
    """

    def build_lines(self) -> list[Line]:
        """The lines for the latest figures."""
        figures, width = self.figures, self.size.width
        compare = key_of(self.app, "compare")
        if self.size.height >= LARGE:
            return [*large_speed(figures, compare), [], *large_yields(figures, width), *why(figures, width)]
        first = speed(figures, compare)
        if figures.state != "ready" or figures.draft_max_flag or cells(first) > width:  # it cannot be measured now
            first = speed(figures)
        return [first, _rounds(figures, width), *why(figures, width)]


def speed(figures: Figures, compare: str = "") -> Line:
    """Tokens per second, and beside plain decoding; `compare` is the key that measures that, "" where it cannot be now."""
    line: Line = [(decimal(figures.speed), "big"), (" t/s", "label")]
    if figures.state not in ("ready", "writing"):
        return [*line, (f"   {IN_WORDS.get(figures.state, figures.state)}", "label")]
    paid = payoff(figures.rounds)
    if figures.measured is not None:
        gain = times(figures.measured.ratio) if figures.measured.told else "like"
        return [*line, (f"   {gain}", "value"), (" plain (measured)", "label")]
    if paid is None:
        return line
    more = f"; {compare} compares" if compare else ""
    return [*line, ("   about ", "label"), (times(paid.pays), "value"), (f" plain{more}", "label")]


def large_speed(figures: Figures, compare: str) -> list[Line]:
    """`54`, three rows high, and beside it: `t/s, about 1.4 times as fast as without guesses`. `compare`: as in `speed`."""
    paid, measured = payoff(figures.rounds), figures.measured
    more = f"; {compare} compares" * (figures.state == "ready" and not figures.draft_max_flag)
    words = ("t/s", "")
    if figures.state not in ("ready", "writing"):
        words = f"t/s, {IN_WORDS.get(figures.state, figures.state)}".rstrip(", "), ""
    elif measured is not None:
        gain = f"{times(measured.ratio)[:-1]} times as fast" if measured.told else "about as fast"
        words = f"t/s, {gain}", "as without guesses (measured)"
    elif paid is not None:
        words = f"t/s, about {times(paid.pays)[:-1]} times as fast", f"as without guesses{more}"
    digits = large(decimal(figures.speed).replace("–", "-"))
    return [[(row, "big"), (f"  {said}", "value")] for row, said in zip(digits, ("", *words), strict=True)]


def large_yields(figures: Figures, width: int) -> list[Line]:
    """The rounds over the whole width, and below: `39 % of guesses were right, 1.9 tokens a step`."""
    reply = figures.reply
    return [
        strip(figures.rounds[-width:]),
        [(percent(reply.acceptance), "value"), (" of guesses were right, ", "label"),
         (decimal(reply.tokens_per_pass), "value"), (" tokens a step", "label")],
    ]  # fmt: skip


def yields(figures: Figures) -> Line:
    """What was accepted, and tokens for each pass."""
    reply = figures.reply
    return [(percent(reply.acceptance), "value"), (" accepted, ", "label"), (decimal(reply.tokens_per_pass), "value"),
            (" a pass", "label")]  # fmt: skip


def _rounds(figures: Figures, width: int) -> Line:
    """A column for each of the latest rounds, and what they yield."""
    end = yields(figures)
    return [*strip(figures.rounds[-max(1, width - cells(end) - 2) :]), ("  " * bool(figures.rounds), "label"), *end]


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
