"""What a measurement has found so far, in lines."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.text import printable
from spectui.ui.widgets.line_widget import Line, LineWidget, wrapped


class ResultPane(LineWidget):
    """A report: tables, which a narrow window cuts, and sentences, which it wraps. As high as its lines."""

    DEFAULT_CSS = """
    ResultPane { height: auto; }
    """

    _report: Sequence[str] = ()
    _sentences: Sequence[str] = ()

    def show(self, report: Sequence[str], sentences: Sequence[str]) -> None:
        """Show these, the sentences below the report."""
        self._report, self._sentences = report, sentences
        self.rewrite()

    def build_lines(self) -> list[Line]:
        """The report, and the sentences in the width that there is."""
        lines: list[Line] = [[(printable(line), "value")] for line in self._report]
        for sentence in self._sentences:
            lines += wrapped("", printable(sentence), self.size.width, "label", column=0)
        self.styles.height = max(1, len(lines))
        return lines
