"""The main figures in one line, for a window too narrow for the panel."""

from __future__ import annotations

from spectui.chat.figures.format import percent
from spectui.chat.figures.records import Figures
from spectui.ui.dashboard.pages.now import speed, yields
from spectui.ui.widgets.line_widget import Line, LineWidget


class StatusLine(LineWidget):
    """`27.4 t/s   1.7x plain (estimated)   93 % accepted, 4.8 a pass   ctx 29 %`"""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; }
    """

    _figures = Figures()

    def update_figures(self, figures: Figures) -> None:
        """Draw these."""
        self._figures = figures
        self.rewrite()

    def build_lines(self) -> list[Line]:
        """The line."""
        context = (f"ctx {percent(self._figures.context_share)}", "label")
        gap = ("   ", "label")
        return [[*speed(self._figures), gap, *yields(self._figures), gap, context]]
