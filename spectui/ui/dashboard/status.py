"""The main figures in one line, for a window too narrow for the panel."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from spectui.chat.figures.format import decimal, percent, share
from spectui.chat.figures.records import STATES, Figures
from spectui.ui.figures import MUTED


class StatusLine(Widget):
    """`27.4 t/s  acc .93  4.8/pass  ctx 29 %`: speed, acceptance, tokens per pass, context."""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._figures = Figures()

    def update_figures(self, figures: Figures) -> None:
        """Draw these."""
        self._figures = figures
        self.refresh()

    def render(self) -> Content:
        """The line."""
        figures = self._figures
        state = "" if figures.state in ("ready", "writing") else STATES.get(figures.state, "")
        return Content.assemble(
            (f"{decimal(figures.speed):>5}", "bold $accent"), (" t/s", MUTED),
            ("   acc ", MUTED), f"{share(figures.reply.acceptance):<3}",
            ("   ", ""), f"{decimal(figures.reply.tokens_per_pass):>4}", ("/pass", MUTED),
            ("   ctx ", MUTED), f"{percent(figures.context_share):<5}",
            (f"   {state}", MUTED),
        ).truncate(self.size.width)  # fmt: skip
