"""Presets in the chat: what they need of whoever keeps them, and the question for a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from spectui.knobs import Knobs
from spectui.ui.dialogs.questions import LineScreen


class PresetStore(Protocol):
    """Keeps knobs under names. Each method may raise SpectuiError with the sentence to show."""

    def names(self) -> list[str]:
        """All names."""

    def load(self, name: str) -> Mapping[str, Any]:
        """The knobs that a preset sets, by key."""

    def save(self, name: str, knobs: Knobs) -> None:
        """Keep these knobs under a name, in place of what it had."""


class SaveScreen(LineScreen):
    """Asks for a preset's name."""

    VERB = "save"

    def __init__(self, name: str, known: list[str]) -> None:
        """`name` is proposed; one of `known` would be overwritten."""
        super().__init__("Save the knobs as a preset named", name, placeholder="code")
        self._known = known

    def consequence(self, line: str) -> str:
        """Whether one is replaced."""
        return "Replaces the preset of this name." if line in self._known else "Becomes a profile (-P)."
