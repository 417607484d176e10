"""Small questions over the window: for one line of text, or for a yes."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Label

from spectui.ui.textual_patches.screen import Dialog
from spectui.ui.widgets.actions import ActionLine


class LineScreen(Dialog[str]):
    """Asks for a line. Answers "" if it is cancelled."""

    VERB: ClassVar[str] = "take it"
    """The verb of the button, one or two words."""

    BINDING_GROUP_TITLE = "question"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take it", id="question.take", priority=True, tooltip="Answer with what is in the box"),
        Binding("escape", "dismiss('')", "Cancel", id="question.cancel", priority=True, tooltip="Leave it as it is"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    LineScreen { align: center middle; }
    LineScreen > Vertical {
        width: 56; max-width: 100%; height: auto; max-height: 100%; padding: 1 2; background: $surface;
        border: round $accent;
    }
    LineScreen Input, LineScreen Input:focus { border: none; height: 1; padding: 0; margin: 1 0; background: $foreground 10%; }
    LineScreen Label { width: 1fr; color: $foreground 70%; }
    LineScreen.-tiny > Vertical { border: none; padding: 0; }
    LineScreen.-tiny Input { margin: 0; }
    LineScreen.-tiny #consequence { display: none; }
    """

    def __init__(self, question: str, proposed: str = "", *, placeholder: str = "", max_length: int = 40) -> None:
        """`proposed`: the first text in the box. A line has at most `max_length` characters."""
        super().__init__()
        self._question = question
        self._proposed = proposed
        self._placeholder = placeholder
        self._max_length = max_length

    def compose(self) -> ComposeResult:
        """The question, the box, its consequence, and two actions."""
        with Vertical():
            yield Label(self._question, markup=False)
            yield Input(self._proposed, placeholder=self._placeholder, max_length=self._max_length)
            yield Label("", id="consequence", markup=False)
            yield ActionLine([(self.VERB, "take"), ("cancel", "dismiss('')")])

    def consequence(self, line: str) -> str:
        """What a line, which is not empty, will do."""
        return ""

    def acceptable(self, line: str) -> bool:
        """Whether a line, which is not empty, can be answered with."""
        return True

    @property
    def line(self) -> str:
        """What is in the box."""
        return self.query_one(Input).value.strip()

    @on(Input.Changed)
    def _say(self, event: Input.Changed) -> None:
        line = event.value.strip()
        self.query_one("#consequence", Label).update(self.consequence(line) if line else "")

    def action_take(self) -> None:
        """Answer with the line, if there is one."""
        self.query_one(Input).call_later(self._take)  # behind the letters before it, which wait in the box's queue

    def _take(self) -> None:
        line = self.line
        if line and self.acceptable(line):
            self.dismiss(line)


class ConfirmScreen(Dialog[bool]):
    """Asks whether to do what cannot be undone. The key is a letter on purpose: Enter does nothing."""

    BINDING_GROUP_TITLE = "question"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", id="confirm", tooltip="Do it"),
        Binding("escape,n", "dismiss(False)", "Cancel", id="decline", tooltip="Do not"),
    ]
    DEFAULT_CSS = """
    ConfirmScreen { align: center middle; }
    ConfirmScreen > Vertical {
        width: 56; max-width: 100%; height: auto; max-height: 100%; padding: 1 2; background: $surface;
        border: round $warning;
    }
    ConfirmScreen Label { width: 1fr; margin-bottom: 1; }
    ConfirmScreen.-tiny > Vertical { border: none; padding: 0; }
    ConfirmScreen.-tiny Label { margin: 0; }
    """

    def __init__(self, question: str, verb: str) -> None:
        """`verb`: what a yes does, one or two words."""
        super().__init__()
        self._question = question
        self._verb = verb

    def compose(self) -> ComposeResult:
        """The question and the two answers."""
        with Vertical():
            yield Label(self._question, markup=False)
            yield ActionLine([(self._verb, "dismiss(True)"), ("cancel", "dismiss(False)")])
