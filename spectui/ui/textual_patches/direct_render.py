"""Widgets that render their rows themselves, without the steps that Textual adds to each row, and grow without a new layout."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

_Self = TypeVar("_Self", bound="DirectRenderWidget")


class DirectRenderWidget(Widget):
    """A subclass's `render_line` gives rows as wide as the widget, and the same `Strip` object for an unchanged row, since a
    strip caches its terminal sequences. No border, padding, opacity, tint or hatch is drawn.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render the rows of a region."""
        filters, background = self.get_line_filters(), self.background_colors[1]
        strips = []
        for strip in self.rows(crop.line_range):
            for each in filters:
                strip = strip.apply_filter(each, background)
            strips.append(strip.crop(*crop.column_span))
        return strips

    def refresh(self: _Self, *regions: Region, **how: Any) -> _Self:
        """Draw these regions, or all, at the next frame. Tells the screen directly instead of by a message."""
        if how or not self._is_mounted or self._closing:
            return super().refresh(*regions, **how)
        self._set_dirty(*regions)
        self.screen._dirty_widgets.add(self)
        self.screen.check_idle()
        return self

    def rows(self, lines: range) -> Iterable[Strip]:
        """Render these lines of the widget."""
        return map(self.render_line, lines)


class GrowingScrollView(ScrollView, DirectRenderWidget):
    """A `ScrollView` whose content size can change many times a second."""

    def set_content_size(self, size: Size) -> None:
        """Set `virtual_size`. An assignment would lay the whole screen out again for each new row."""
        self.set_reactive(ScrollView.virtual_size, size)

    def update_scrollbars(self) -> None:
        """Show or hide the scrollbars and move them to where the view is."""
        self._scroll_update(self.virtual_size)
