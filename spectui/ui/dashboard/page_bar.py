"""The names of the panel's pages on one line, the one that is seen standing out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from spectui.ui.widgets.line_widget import Line, LineWidget

GAP = 2


class PageBar(LineWidget):
    """A click on a name asks for that page."""

    DEFAULT_CSS = """
    PageBar { height: 1; pointer: pointer; }
    """

    @dataclass
    class Chosen(Message):
        """A person wants to see this page."""

        bar: PageBar
        page: str

        @property
        def control(self) -> PageBar:
            """The bar."""
            return self.bar

    def __init__(self, pages: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pages = tuple(pages)
        self._page = self._pages[0]

    def show_page(self, page: str) -> None:
        """This page is seen now."""
        self._page = page
        self.rewrite()

    def written(self) -> list[Line]:
        """The names, each a cell apart."""
        line: Line = []
        for page in self._pages:
            line += [(page, "chosen" if page == self._page else "label"), (" " * GAP, "label")]
        return [line]

    def on_click(self, event: events.Click) -> None:
        """Ask for the page whose name was clicked."""
        at = 0
        for page in self._pages:
            at += len(page) + GAP
            if event.x < at:
                self.post_message(self.Chosen(self, page))
                return
