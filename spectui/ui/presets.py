"""Presets in the chat: what they need of whoever keeps them, and the question for a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.knobs import Knobs


class PresetStore(Protocol):
    """Keeps knobs under names. Each method may raise SpectuiError with the sentence to show."""

    def names(self) -> list[str]:
        """All names."""

    def load(self, name: str) -> Mapping[str, Any]:
        """The knobs that a preset sets, by key."""

    def save(self, name: str, knobs: Knobs) -> None:
        """Keep these knobs under a name, in place of what it had."""


class SaveScreen(ModalScreen[str]):
    """Asks for a name; answers "" if a person thinks better of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "Cancel", show=False)]
    DEFAULT_CSS = """
    SaveScreen { align: center middle; }
    SaveScreen > Vertical {
        width: 56; max-width: 100%; height: auto; padding: 1 2; background: $surface; border: round $accent;
    }
    SaveScreen Input { border: none; height: 1; padding: 0; margin: 1 0; background: $foreground 10%; }
    SaveScreen Label { width: 1fr; color: $foreground 70%; }
    """

    def __init__(self, name: str, known: list[str]) -> None:
        """`name` is proposed; one of `known` would be overwritten."""
        super().__init__()
        self._proposed = name
        self._known = known

    def compose(self) -> ComposeResult:
        """The question, the box, and what Enter will do."""
        with Vertical():
            yield Label("Save the knobs as a preset named", markup=False)
            yield Input(self._proposed, placeholder="code", max_length=40)
            yield Label("", id="consequence", markup=False)

    @on(Input.Changed)
    def _say(self, event: Input.Changed) -> None:
        name = event.value.strip()
        verb = "replaces the preset of this name" if name in self._known else "saves it as a profile (-P)"
        self.query_one("#consequence", Label).update(f"Enter {verb}, Esc cancels." if name else "Esc cancels.")

    @on(Input.Submitted)
    def _save(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())
