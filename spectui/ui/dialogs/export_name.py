"""The question for the name of an exported conversation."""

from __future__ import annotations

from spectui.ui.dialogs.questions import LineScreen


class ExportScreen(LineScreen):
    """Asks for a file name; its end says what is written."""

    VERB = "write"

    def consequence(self, line: str) -> str:
        """Which of the two."""
        if line.lower().endswith(".json"):
            return "JSON, with origins and figures."
        return "Markdown, the text alone (.json: origins and figures too)."
