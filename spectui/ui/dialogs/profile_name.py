"""The question for the name of a profile."""

from __future__ import annotations

from spectui.ui.dialogs.questions import LineScreen


class SaveScreen(LineScreen):
    """Asks for a profile's name."""

    VERB = "save"

    def __init__(self, name: str, known: list[str]) -> None:
        """`name` is proposed; one of `known` would be overwritten."""
        super().__init__("Save the knobs as a profile named", name, placeholder="code")
        self._known = known

    def consequence(self, line: str) -> str:
        """Whether a profile is replaced."""
        return "Replaces the profile of this name." if line in self._known else "Becomes a profile (-P)."
