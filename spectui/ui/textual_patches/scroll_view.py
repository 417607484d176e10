"""A scrolled list of rows that grows without a new layout of the screen."""

from __future__ import annotations

from textual.geometry import Size
from textual.scroll_view import ScrollView

from spectui.ui.textual_patches.direct_render import DirectRenderWidget


class GrowingScrollView(ScrollView, DirectRenderWidget):
    """A `ScrollView` whose content size can change many times a second."""

    def set_content_size(self, size: Size) -> None:
        """Set `virtual_size`. An assignment would lay the whole screen out again for each new row."""
        self.set_reactive(ScrollView.virtual_size, size)

    def update_scrollbars(self) -> None:
        """Show or hide the scrollbars and move them to where the view is."""
        self._scroll_update(self.virtual_size)
