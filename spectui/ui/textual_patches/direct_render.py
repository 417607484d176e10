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


class FollowingScrollView(ScrollView, DirectRenderWidget):
    """A `ScrollView` whose content grows many times a second. It follows the end unless a person has scrolled up."""

    _end_y = 0
    """`max_scroll_y` at the last change: a view that was there follows."""

    @property
    def is_following(self) -> bool:
        """The view is at the end, or an animation is scrolling it there."""
        return round(self.scroll_target_y) >= self._end_y

    def scroll_to_end(self) -> None:
        """Let the view follow the end again."""
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def grow_to(self, size: Size, *, following: bool) -> None:
        """Set the size of the content. An assignment would lay the whole screen out again for each new row."""
        if self.virtual_size != size:
            self.set_reactive(ScrollView.virtual_size, size)
            if not following or self.show_vertical_scrollbar != (self.max_scroll_y > 0):
                self._scroll_update(size)
        if following and (self.scroll_y, self.scroll_target_y) != (self.max_scroll_y, self.max_scroll_y):
            self.scroll_to_end()
        self._end_y = self.max_scroll_y

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Show the scrollbar only above the end. While the view follows it would cost half of a frame."""
        visibility = "hidden" if round(new_value) >= self.max_scroll_y else "visible"
        if self.styles.scrollbar_visibility != visibility:
            self.styles.scrollbar_visibility = visibility
            self._scroll_update(self.virtual_size)  # a hidden one is not kept up to date
        if visibility == "visible":
            super().watch_scroll_y(old_value, new_value)
        elif round(old_value) != round(new_value):
            self.refresh()
