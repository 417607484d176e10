"""The names of the panel's pages on one line; the visible pages are highlighted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from textual import events

from spectui.ui.widgets.line_widget import Line, LineWidget

GAP = 2


class PageBar(LineWidget):
    """A click on a name chooses the page."""

    DEFAULT_CSS = """
    PageBar { height: 1; pointer: pointer; }
    """

    def __init__(self, choose: Callable[[str], None], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._choose = choose
        self._pages: Sequence[str] = ()
        self._seen: Collection[str] = ()

    def show_pages(self, pages: Sequence[str], seen: Collection[str]) -> None:
        """Show the names of all pages, and mark these as seen."""
        self._pages, self._seen = pages, seen
        if self.is_attached:
            self.rewrite()

    def build_lines(self) -> list[Line]:
        """The names in one line."""
        line: Line = []
        for page in self._pages:
            line += [(page, "chosen" if page in self._seen else "label"), (" " * GAP, "label")]
        return [line]

    def on_click(self, event: events.Click) -> None:
        """Choose the page whose name was clicked."""
        at = 0
        for page in self._pages:
            at += len(page) + GAP
            if event.x < at:
                self._choose(page)
                return
