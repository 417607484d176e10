"""A/B: figures of the reply and of its plain decoding."""

from __future__ import annotations

from textwrap import shorten

from spectui.chat.comparison import Comparison
from spectui.chat.figures.format import UNKNOWN, count, decimal, duration, tokens
from spectui.ui.dashboard.pages.page import Page
from spectui.ui.transcript.inspector import quoted
from spectui.ui.widgets.line_widget import Line, labelled, wrapped

NAME, COLUMN = 16, 14
_HEIGHT = 10


class ComparePage(Page):
    """The two decodings in columns, the measured speed-up, and whether the text is the same."""

    HELP = """\
## A/B

**{measure-reply}** decodes the last prompt again without drafts, with the same seed: the speed-up is measured, not estimated,
and the two texts are compared token by token. It is of decoding alone: the second time the prompt has been read. The plain text
is written below and forgotten; the conversation keeps the first.
"""

    DEFAULT_CSS = """
    ComparePage { height: 10; }
    """

    comparison: Comparison | None = None
    """What is shown."""

    def show(self, comparison: Comparison | None) -> None:
        """Show this comparison; it may still be running."""
        self.comparison = comparison
        self.rewrite()

    def build_lines(self) -> list[Line]:
        """The table."""
        if self.comparison is None:
            return []
        lines = comparison_lines(self.comparison, self.size.width)
        self.styles.height = max(_HEIGHT, len(lines))  # a reason takes some more
        return lines


def comparison_lines(comparison: Comparison, width: int) -> list[Line]:
    """A comparison in figures and words."""
    fast, plain = comparison.with_drafts, comparison.plain
    rows = [
        ("tokens/s", decimal(fast.tokens_per_s), decimal(plain.tokens_per_s)),
        ("tokens", count(fast.emitted), count(plain.emitted)),
        ("passes", count(fast.rounds), count(plain.rounds)),
        ("decoding", duration(fast.decode_s), duration(plain.decode_s)),
    ]
    return [
        labelled("", (f"{'with drafts':<{COLUMN}}without", "label"), column=NAME),
        *(labelled(name, (f"{a:<{COLUMN}}{b}", "value"), column=NAME) for name, a, b in rows),
        *wrapped("so far" if comparison.running else "measured", str(comparison.measured or UNKNOWN), width, "big", NAME),
        *_same_text(comparison, width),
    ]


def _same_text(comparison: Comparison, width: int) -> list[Line]:
    answer = {True: "yes", False: "no", None: UNKNOWN}[comparison.identical]
    found = comparison.difference
    if comparison.identical:
        answer += f", over {tokens(comparison.plain.emitted)}"
    elif found is not None:
        answer += f", from token {count(found.number)} on"
    elif comparison.problem:
        answer += f" {comparison.problem}"
    elif comparison.running and comparison.plain.emitted:
        answer += f" alike over {tokens(comparison.plain.emitted)} so far"
    lines = wrapped("identical text", answer, width, column=NAME)
    if found is not None:
        for name, token in (("with drafts", found.first), ("without", found.second)):
            text = "its end" if token is None else f"{quoted(token.text, width - NAME - 11)} id {token.id}"
            lines.append(labelled(name, (text, "value"), column=NAME))
        if comparison.turned:
            knobs = shorten(", ".join(comparison.turned), max(8, width - NAME), placeholder=" …")
            lines += wrapped("knobs turned", knobs, width, column=NAME)
        if comparison.explanation:
            lines += wrapped("why", comparison.explanation, width, column=NAME)
    return lines
