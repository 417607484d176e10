"""A screen that draws only what has changed, and can be told to draw at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from textual.screen import Screen

from spectui.ui.textual_patches.compositor import ChangesCompositor


class DirectScreen(Screen[None]):
    """Textual's screen with `ChangesCompositor`. It draws at each turn of Textual's timer, and on demand."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = ChangesCompositor()
        self._held = False

    def refresh_now(self) -> None:
        """Draw what has changed, without waiting for Textual's timer."""
        self._on_timer_update()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Do not wake the screen for each widget that changes meanwhile; draw or call `check_idle` afterwards."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def check_idle(self) -> None:
        """Textual's call to draw when no other message waits."""
        if not self._held:
            super().check_idle()
