"""The meaning of the tokens' colours, with a count for each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from spectui.chat.figures.format import count
from spectui.chat.figures.records import Figures
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
