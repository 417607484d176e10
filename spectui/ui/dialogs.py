"""Small questions over the window: for one line of text, or for a yes."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.ui.actions import ActionLine
from spectui.ui.keys import spoken


class LineScreen(ModalScreen[str]):
    """Asks for a line; answers "" if a person thinks better of it."""

    BINDING_GROUP_TITLE = "question"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss('')", "Cancel", id="question.cancel", show=False)
    ]
    DEFAULT_CSS = """
    LineScreen { align: center middle; }
    LineScreen > Vertical {
        width: 56; max-width: 100%; height: auto; max-height: 100%; padding: 1 2; background: $surface;
        border: round $accent;
    }
    LineScreen Input, LineScreen Input:focus { border: none; height: 1; padding: 0; margin: 1 0; background: $foreground 10%; }
    LineScreen Label { width: 1fr; color: $foreground 70%; }
    """

    def __init__(self, question: str, proposed: str = "", *, placeholder: str = "", max_length: int = 40) -> None:
        """`proposed` stands in the box at first; a line has at most `max_length` characters."""
        super().__init__()
        self._question = question
        self._proposed = proposed
        self._placeholder = placeholder
        self._max_length = max_length

    def compose(self) -> ComposeResult:
        """The question, the box, and what Enter will do."""
        with Vertical():
            yield Label(self._question, markup=False)
            yield Input(self._proposed, placeholder=self._placeholder, max_length=self._max_length)
            yield Label("", id="consequence", markup=False)

    def consequence(self, line: str) -> str:
        """What Enter does with this line, which is not empty: the beginning of a sentence."""
        return "Enter takes it"

    @on(Input.Changed)
    def _say(self, event: Input.Changed) -> None:
        line = event.value.strip()
        words = spoken(self.app, "{question.cancel} cancels.")
        words = f"{self.consequence(line)}, {words}" if line else words
        self.query_one("#consequence", Label).update(words)

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())


class ConfirmScreen(ModalScreen[bool]):
    """Asks whether to do what cannot be undone. Enter alone does nothing: the key is a letter on purpose."""

    BINDING_GROUP_TITLE = "question"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", id="confirm"),
        Binding("escape,n", "dismiss(False)", "Cancel", id="decline"),
    ]
    DEFAULT_CSS = """
    ConfirmScreen { align: center middle; }
    ConfirmScreen > Vertical {
        width: 56; max-width: 100%; height: auto; max-height: 100%; padding: 1 2; background: $surface;
        border: round $warning;
    }
    ConfirmScreen Label { width: 1fr; margin-bottom: 1; }
    """

    def __init__(self, question: str, verb: str) -> None:
        """`verb` is what a yes does, in a word or two."""
        super().__init__()
        self._question = question
        self._verb = verb

    def compose(self) -> ComposeResult:
        """The question and the two answers."""
        with Vertical():
            yield Label(self._question, markup=False)
            yield ActionLine([(self._verb, "dismiss(True)"), ("cancel", "dismiss(False)")])
