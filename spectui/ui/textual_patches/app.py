"""An app on `TerminalDriver`, which skips frames while the terminal takes no output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import rich.text
from rich.console import RenderableType
from textual import content
from textual.app import App
from textual.driver import Driver
from textual.screen import Screen
from textual.timer import Timer, TimerCallback

from spectui.text import safe
from spectui.ui.clipboard import Known, copy

# Both let ESC pass. What widgets draw becomes one of these two, but for lines of figures and the transcript.
rich.text.strip_control_codes = safe  # type: ignore[attr-defined,assignment]
content._strip_control_codes = safe  # type: ignore[assignment]

COPIED: dict[Known, str] = {
    "copied": "copied: {what}.",
    "tmux": "{what}: in tmux's buffer, and sent to the terminal.",
    "sent": "sent to the terminal's clipboard: {what}.",
    "file": "there is no clipboard here: {what} is in {file}.",
}


class TerminalApp(App[None]):
    """Textual's app. On Linux and macOS it runs on `TerminalDriver`."""

    def __init__(self) -> None:
        # Textual believes these before the terminal. Where a shell has exported them, they are what it was once.
        with suppress(OSError, AttributeError, ValueError):  # standard input is closed, or no terminal
            if all(os.get_terminal_size(sys.__stdin__.fileno())):  # type: ignore[union-attr]
                os.environ.pop("COLUMNS", None)
                os.environ.pop("LINES", None)
        super().__init__()

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

    @property
    def is_behind(self) -> bool:
        """The terminal has not taken the last frame yet."""
        return bool(getattr(self._driver, "is_behind", False))

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """Call a function once after so many seconds. Textual never calls it if the process waits for a core for longer than
        that just where the timer begins; the window would then follow its terminal's size no more."""
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False
        return timer

    def copy_to_clipboard(self, text: str, what: str = "") -> None:
        """Copy a text for pasting, here and elsewhere. Says what is known of that, if `what` names the text or it failed."""
        self._clipboard = text
        send = partial(super().copy_to_clipboard, text)
        if self.is_headless or self.is_web:  # the browser's clipboard
            send()
            self._tell(what, "sent")
        else:
            work = partial(self._copy, text, what, send)
            self.run_worker(work, exclusive=True, group="clipboard")  # type: ignore[arg-type]  # as Window.run

    async def _copy(self, text: str, what: str, send: Callable[[], None]) -> None:
        try:
            known, file = await copy(text, send)
        except OSError as error:
            self.notify(f"Nothing here takes a copy: {error.strerror or error}.", severity="error", markup=False)
        else:
            self._tell(what, known, str(file or ""))

    def _tell(self, what: str, known: Known, file: str = "") -> None:
        if what or file:
            sentence = COPIED[known].format(what=what or "text", file=file)
            self.notify(sentence[:1].upper() + sentence[1:], timeout=8 if file else 3, markup=False)

    def _handle_exception(self, error: Exception) -> None:
        """End with a traceback, unless the app ends already: what looks for a widget then finds none."""
        if not self._exit:
            super()._handle_exception(error)
