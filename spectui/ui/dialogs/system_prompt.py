"""The dialog for the conversation's system prompt."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Label

from spectui.ui.textual_patches.screen import Dialog
from spectui.ui.textual_patches.text_area import SteadyTextArea
from spectui.ui.widgets.actions import ActionLine


class SystemPromptScreen(Dialog[str]):
    """Answers with the new text."""

    BINDING_GROUP_TITLE = "system prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "use", "Use it", id="system.use", priority=True, tooltip="Use it from the next prompt on"),
        Binding("escape", "dismiss(None)", "Cancel", id="system.cancel", priority=True, tooltip="Leave it as it is"),
    ]
    DEFAULT_CSS = """
    SystemPromptScreen {
        & > Vertical { width: 80; height: 16; }
        TextArea, TextArea:focus { height: 1fr; border: none; padding: 0; background: $foreground 10%; }
        Label { width: 1fr; color: $foreground 60%; }
        &.-tiny Label { display: none; }
    }
    """

    def __init__(self, text: str) -> None:
        """`text`: the present system prompt."""
        super().__init__()
        self._box = SteadyTextArea(text, highlight_cursor_line=False)

    def compose(self) -> ComposeResult:
        """The box, a sentence about it, and two actions."""
        with Vertical() as box:
            box.border_title = "system prompt"
            yield self._box
            yield Label(
                "For this conversation, from the next prompt on; --system-prompt sets the usual one.", markup=False
            )
            yield ActionLine([("use it", "use"), ("cancel", "dismiss(None)")])

    def action_use(self) -> None:
        """Answer with what is in the box."""
        self._box.call_later(self._use)  # behind the letters before it, which wait in the box's queue

    def _use(self) -> None:
        self.dismiss(self._box.text.strip())
