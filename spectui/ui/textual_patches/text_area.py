"""A text area whose undo cannot end the app."""

from __future__ import annotations

from textual.geometry import Offset
from textual.widgets import TextArea


class SteadyTextArea(TextArea):
    """A `TextArea` that scrolls to its cursor only where the cursor is in the text."""

    @property
    def can_undo(self) -> bool:
        """Something was changed that `undo` takes back."""
        return bool(self.history._undo_stack)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor. When undo takes lines and the scrollbar away, Textual asks for it before the cursor moves."""
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center, animate)
