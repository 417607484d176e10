"""What the side panel shows is on pages, of which one is seen at a time: this is what they have in common."""

from __future__ import annotations

from spectui.chat.figures import Figures
from spectui.ui.textual_patches.direct_render import DirectRenderWidget
from spectui.ui.widgets.line_widget import LineWidget


class Page(LineWidget, DirectRenderWidget):
    """Keeps the latest figures and draws them while it is seen. `update_figures` is to be called about once a second."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.figures = Figures()

    def update_figures(self, figures: Figures) -> None:
        """Draw these, if anyone sees it."""
        self.figures = figures
        if self.display:
            self.rewrite()

    def on_show(self) -> None:
        """Catch up on what happened while another page was seen."""
        self.rewrite()
