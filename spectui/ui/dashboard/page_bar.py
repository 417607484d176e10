"""The names of the panel's pages on one line; the visible pages are highlighted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from spectui.ui.widgets.line_widget import Line, LineWidget

GAP = 2


class PageBar(LineWidget):
    """Sends `Chosen` when a page's name is clicked."""

    DEFAULT_CSS = """
    PageBar { height: 1; pointer: pointer; }
    """

    @dataclass
    class Chosen(Message):
        """A person has clicked on this page's name."""

        page: str

    def __init__(self, pages: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.pages = pages
        """The names."""
        self._seen: Collection[str] = ()

    def show_pages(self, pages: Collection[str]) -> None:
        """Mark these pages as seen."""
        self._seen = pages
        if self.is_attached:
            self.rewrite()

    def build_lines(self) -> list[Line]:
        """The names in one line."""
        line: Line = []
        for page in self.pages:
            line += [(page, "chosen" if page in self._seen else "label"), (" " * GAP, "label")]
        return [line]

    def on_click(self, event: events.Click) -> None:
        """Send the page whose name was clicked."""
        at = 0
        for page in self.pages:
            at += len(page) + GAP
            if event.x < at:
                self.post_message(self.Chosen(page))
                return
