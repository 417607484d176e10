"""Boxes whose keys act in their order; a text area whose undo cannot end the app, and whose text cannot act on the terminal."""

from __future__ import annotations

from time import monotonic
from typing import Any

from textual import events
from textual.geometry import Offset
from textual.message_pump import MessagePump
from textual.widgets import Input, TextArea

from spectui.text import printable


class KeysInOrder(MessagePump):
    """A box that does what its own keys are bound to before it takes the letters behind them, however fast they come.

    Textual sends such a key by the box's parents to the app first: of Backspace and a letter the letter is deleted. No `Widget`
    itself, as `screen.LeftOnce`.
    """

    async def on_key(self, event: events.Key) -> None:
        """Act on a key of this box."""
        bound = None if event.is_printable else self.app.screen.active_bindings.get(event.key)
        if bound is None:
            return
        own = bound.node is self.app.focused
        # The app would have taken a key with priority: when it came it was this box's. To undo now would take later letters.
        if own or (bound.enabled and bound.binding.priority):
            event.stop()
            event.prevent_default()
        if own and bound.enabled:
            await self.app.run_action(bound.binding.action, bound.node)


class LineInput(KeysInOrder, Input):
    """Textual's box for a line."""


class SteadyTextArea(KeysInOrder, TextArea):
    """A `TextArea` that scrolls to its cursor only where the cursor is in the text."""

    undone_at = 0.0
    """When a change was taken back last, by `monotonic`."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(printable(text), **options)

    def load_text(self, text: str) -> None:
        """Replace the text, without what could act on the terminal."""
        super().load_text(printable(text))

    def on_paste(self, event: events.Paste) -> None:
        """Clean the text that Textual's handler then inserts: a pasted ESC would reach the terminal."""
        event.stop()
        event.text = printable(event.text)

    @property
    def can_undo(self) -> bool:
        """Something was changed that `undo` takes back."""
        return bool(self.history._undo_stack)

    def action_undo(self) -> None:
        """Take back the last change, and note when."""
        self.undone_at = monotonic()
        super().action_undo()

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor. When undo takes lines and the scrollbar away, Textual asks for it before the cursor moves."""
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center, animate)
