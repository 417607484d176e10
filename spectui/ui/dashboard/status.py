"""The main figures in one line, for a window too narrow for the panel."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from spectui.chat.figures.format import percent
from spectui.chat.figures.records import Figures
from spectui.ui.dashboard.pages.now import speed, yields
from spectui.ui.figures import MUTED

_STYLES = {"big": "bold $accent", "label": MUTED}


class StatusLine(Widget):
    """`27.4 t/s   1.7x plain (estimated)   93 % accepted, 4.8 a pass   ctx 29 %`"""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; }
    """

    _figures = Figures()

    def update_figures(self, figures: Figures) -> None:
        """Draw these."""
        self._figures = figures
        self.refresh()

    def render(self) -> Content:
        """The line."""
        context = [(f"ctx {percent(self._figures.context_share)}", "label")]
        line = [*speed(self._figures), ("   ", ""), *yields(self._figures), ("   ", ""), *context]
        return Content.assemble(*((text, _STYLES.get(style, "")) for text, style in line)).truncate(self.size.width)
