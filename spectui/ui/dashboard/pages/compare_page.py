"""A/B: figures of the reply and of its plain decoding."""

from __future__ import annotations

from spectui.chat.comparison import Comparison
from spectui.chat.figures.lines import comparison_facts, comparison_rows
from spectui.ui.dashboard.pages.page import Page
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
    rows = [("", "with drafts", "without"), *comparison_rows(comparison)]
    lines = [labelled(name, (f"{a:<{COLUMN}}{b}", "value" if name else "label"), column=NAME) for name, a, b in rows]
    for number, (name, fact) in enumerate(comparison_facts(comparison)):
        lines += wrapped(name, fact, width, "value" if number else "big", NAME)
    return lines
