"""The lines under the text: what the tokens' colours mean, and the main figures for a window too narrow for the panel."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from spectui.chat.figures.format import count, percent
from spectui.chat.figures.records import Figures
from spectui.ui.dashboard.pages.now import speed, yields
from spectui.ui.widgets.line_widget import Line, LineWidget

ORIGINS = ("accepted", "correction", "bonus", "plain")


class Legend(LineWidget):
    """One line under the transcript: each origin, drawn as its tokens are, with the reply's count."""

    DEFAULT_CSS = """
    Legend { height: 1; padding: 0 1; }
    """

    _counts: Mapping[str, int] = MappingProxyType({})

    def update_figures(self, figures: Figures) -> None:
        """Draw the reply's counts."""
        self._counts = dict(figures.origins)
        self.rewrite()

    def build_lines(self) -> list[Line]:
        """The line."""
        line: Line = []
        for origin in ORIGINS:
            line += [("▌", origin), (origin, origin), (f" {count(self._counts.get(origin, 0)):<7}", "label")]
        return [line]


class StatusLine(LineWidget):
    """`27.4 t/s   about 1.7x plain   93 % accepted, 4.8 a pass   ctx 29 %`"""

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
