"""The box in which a prompt is written: Enter sends, Ctrl+J, Shift+Enter and Alt+Enter begin a new line.

A terminal without kitty's keyboard protocol sends plain Enter for the last two, so Ctrl+J is the one to teach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from spectui.ui.figures import printable


class PromptInput(TextArea):
    """A text area that sends its text and recalls what was sent."""

    HELP = """\
## Prompt

**Enter** sends. **Ctrl+J** begins a new line, and so do **Shift+Enter** and **Alt+Enter** where the terminal tells them
from Enter (kitty's keyboard protocol).
**Up** in an empty box brings the last prompt back. **Escape** stops a reply.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority, because a text area takes Enter for itself before bindings are asked.
        Binding("enter", "submit", "Send", id="send", priority=True, tooltip="Send the prompt"),
        Binding(
            "shift+enter,ctrl+j,alt+enter", "newline", "New line", id="newline", show=False, priority=True,
            tooltip="Begin a new line",
        ),
    ]  # fmt: skip

    DEFAULT_CSS = """
    PromptInput, PromptInput:focus {
        height: auto;
        max-height: 8;
        border: none;
        border-top: solid $foreground 25%;
        border-title-color: $text-muted;
        padding: 0 1;
        background: $background;
        & .text-area--cursor-line { background: $background; }
        & .text-area--placeholder { color: $text-muted; }
    }
    PromptInput:focus { border-top: solid $accent; }
    """

    @dataclass
    class Submitted(Message):
        """A prompt is to be sent. The box keeps it until `accept` is called."""

        prompt_input: PromptInput
        text: str

        @property
        def control(self) -> PromptInput:
            """The box it was written in."""
            return self.prompt_input

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, placeholder="Ask something", highlight_cursor_line=False)
        self._sent: list[str] = []
        self._back = 0

    def accept(self, text: str) -> None:
        """Remember what was sent and take it out of the box; what was typed behind it since stays."""
        self._sent.append(text)
        self._back = 0
        self.text = self.text.removeprefix(text)
        self.move_cursor(self.document.end)

    def give_back(self, text: str) -> None:
        """Put a prompt that was not sent back, unless the next one is already being written."""
        if not self.text:
            self.text = text
            self.move_cursor(self.document.end)

    def action_submit(self) -> None:
        """Send, if there is more than white space."""
        # A priority key overtakes the letters before it, which wait in this widget's queue: it has to queue up behind them,
        # or of a quickly typed prompt the end, or all, would not be sent.
        self.call_later(self._submit)

    def _submit(self) -> None:
        if self.text.strip():
            self.post_message(self.Submitted(self, self.text))

    def action_newline(self) -> None:
        """Begin a new line at the cursor."""
        self.call_later(self._begin_line)

    def _begin_line(self) -> None:
        self.insert("\n")
        self.scroll_cursor_visible()

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up, or in an empty box go back through the prompts."""
        if not self.text:
            self._back = 0
        recalled = self._sent[-self._back] if self._back else ""
        if not select and self.text == recalled and self._back < len(self._sent):
            self._back += 1
            self.text = self._sent[-self._back]
            self.move_cursor(self.document.end)
            return
        super().action_cursor_up(select)

    async def _on_paste(self, event: events.Paste) -> None:
        """Paste without control characters: a pasted ESC would reach the terminal."""
        event.stop()
        event.prevent_default()
        await super()._on_paste(events.Paste(printable(event.text)))
