"""An app on `TerminalDriver`, which skips frames while the terminal takes no output, and whose end is not an error."""

from __future__ import annotations

import sys

from rich.console import RenderableType
from textual._context import active_message_pump
from textual.app import App
from textual.driver import Driver
from textual.screen import Screen
from textual.worker import WorkerFailed, get_current_worker

from spectui.ui.textual_patches.screen import GONE, is_going


class TerminalApp(App[None]):
    """Textual's app. On Linux and macOS it runs on `TerminalDriver`."""

    def get_driver_class(self) -> type[Driver]:
        """Replace Textual's terminal driver; other drivers (web, headless, Windows) stay."""
        chosen = super().get_driver_class()
        if sys.platform == "win32" or chosen.__name__ != "LinuxDriver":
            return chosen
        from spectui.ui.textual_patches.driver import TerminalDriver  # it imports what Windows does not have

        return TerminalDriver

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Write a frame, unless the driver drops it because earlier ones still wait."""
        drops_frame = getattr(self._driver, "drops_frame", None)
        if drops_frame is None or not drops_frame():
            super()._display(screen, renderable)

    def _handle_exception(self, error: Exception) -> None:
        """End with a traceback, unless a widget or worker looked for what is gone because its screen was left or the app ends.

        Textual removes the widgets of a screen before it cancels the screen's workers and its last messages.
        """
        failed = isinstance(error, WorkerFailed)
        cause = error.error if isinstance(error, WorkerFailed) else error
        if not (
            isinstance(cause, GONE) and is_going(get_current_worker().node if failed else active_message_pump.get())
        ):
            super()._handle_exception(error)
