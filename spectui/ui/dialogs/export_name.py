"""The question for the name of an exported conversation."""

from __future__ import annotations

from spectui.ui.dialogs.questions import LineScreen


class ExportScreen(LineScreen):
    """Asks for a file name. Its suffix decides the format."""

    VERB = "write"

    def consequence(self, line: str) -> str:
        """The format that is written."""
        if line.lower().endswith(".json"):
            return "JSON, with origins and figures."
        return "Markdown, the text alone (.json: origins and figures too)."
