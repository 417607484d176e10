"""The base of the side panel's pages."""

from __future__ import annotations

from spectui.chat.figures.records import Figures
from spectui.ui.textual_patches.direct_render import DirectRenderWidget
from spectui.ui.widgets.line_widget import LineWidget


class Page(LineWidget, DirectRenderWidget):
    """Keeps the latest figures, and draws them while the page is seen. Call `update_figures` about once a second."""

    figures = Figures()

    def update_figures(self, figures: Figures) -> None:
        """Keep these figures, and draw them if the page is seen."""
        self.figures = figures
        self.redraw()

    def redraw(self) -> None:
        """Draw what has changed, if the page is seen."""
        if self.display:
            self.rewrite()

    def on_show(self) -> None:
        """Draw the figures that came while the page was hidden."""
        self.rewrite()
