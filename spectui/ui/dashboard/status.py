"""The lines under the text: what the tokens' colours mean, and the main figures for a window too narrow for the panel."""

from __future__ import annotations

from spectui.chat.figures.format import count, percent
from spectui.ui.dashboard.pages.now import speed, yields
from spectui.ui.widgets.line_widget import FigureLines, Line
from spectui.ui.widgets.title_line import NO_ROOM

ORIGINS = ("accepted", "correction", "bonus", "plain")


class Legend(FigureLines):
    """One line under the transcript: each origin, drawn as its tokens are, with the reply's count."""

    DEFAULT_CSS = """
    Legend { height: 1; padding: 0 1; }
    """

    def build_lines(self) -> list[Line]:
        """The line."""
        line: Line = []
        for origin in ORIGINS:
            line += [("▌", origin), (origin, origin), (f" {count(self.figures.origins.get(origin, 0)):<7}", "label")]
        return [line]


class StatusLine(FigureLines):
    """`27.4 t/s   about 1.7x plain   93 % accepted, 4.8 a pass   ctx 29 %`"""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; }
    """

    def build_lines(self) -> list[Line]:
        """The line."""
        share = self.figures.share_with_typed
        more = "" if share is None else f" → {percent(share)}"
        context = (f"ctx {percent(self.figures.context_share)}{more}", "label")
        if share is not None and share > 1:
            context = NO_ROOM, "big"
        gap = ("   ", "label")
        return [[*speed(self.figures), gap, *yields(self.figures), gap, context]]
