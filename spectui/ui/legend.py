"""What the colours of the tokens mean, and how many there are of each."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content
from textual.widget import Widget

from spectui.ui.figures import MUTED, Figures, count

STYLES = {"accepted": "", "correction": "bold underline", "bonus": "bold", "plain": ""}
"""How each origin is written besides its colour, as in the transcript."""


class Legend(Widget):
    """One line under the transcript: each origin, drawn as its tokens are, with the reply's count."""

    DEFAULT_CSS = """
    Legend { height: 1; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._counts: Mapping[str, int] = {}
        self._colours = True

    def update_figures(self, figures: Figures) -> None:
        """Draw the reply's counts, if they changed."""
        if figures.origins != self._counts:
            self._counts = dict(figures.origins)
            self.refresh()

    def show_colours(self, shown: bool) -> None:
        """Follow the transcript: without colours the names stay, dimmed."""
        self._colours = shown
        self.refresh()

    def render(self) -> Content:
        """The line."""
        pieces: list[Content | tuple[str, str]] = []
        for origin, style in STYLES.items():
            colour = f"$origin-{origin}" if self._colours else MUTED
            pieces += [("▌", colour), (origin, f"{style} {colour}" if self._colours else colour)]
            pieces.append((f" {count(self._counts.get(origin, 0)):<7}", MUTED))
        return Content.assemble(*pieces).truncate(self.size.width)
