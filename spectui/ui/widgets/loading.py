"""The progress of loading, in one line above the prompt."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from spectui.chat.figures.format import percent, size
from spectui.engine.events import Loading
from spectui.text import printable
from spectui.ui.figures import MUTED
from spectui.ui.widgets.line_widget import gauge

BAR = 20


class LoadingLine(Widget):
    """`loading target 1.9 GB ▕███▌   ▏ 62 %  then the draft`. Hidden unless something loads."""

    DEFAULT_CSS = """
    LoadingLine { height: 1; padding: 0 1; display: none; }
    LoadingLine.-loading { display: block; }
    """

    _loading: Loading | None = None
    _then = ""

    def begin(self, then: str = "") -> None:
        """Show the line; `then` is what comes after the target."""
        self._loading = None
        self._then = then
        self.add_class("-loading")
        self.refresh()

    def update_loading(self, loading: Loading) -> None:
        """Show the progress."""
        self._loading = loading
        self.add_class("-loading")
        self.refresh()

    def end(self) -> None:
        """Hide the line."""
        self.remove_class("-loading")

    def render(self) -> Content:
        """The line."""
        if self._loading is None:
            return Content.styled("loading", MUTED)
        bytes = f" {size(self._loading.bytes)}" if self._loading.bytes else ""
        then = f"  then {self._then}" if self._then and self._loading.what == "target" else ""
        return Content.assemble(
            ("loading ", MUTED),
            (printable(self._loading.what), "bold"),
            f"{bytes}  ",
            gauge(self._loading.progress, BAR),
            f" {percent(self._loading.progress):>5}",
            (then, MUTED),
        ).truncate(self.size.width)
