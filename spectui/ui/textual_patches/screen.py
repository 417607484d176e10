"""Screens that are left once, and the chat's, which can be told to draw at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from textual.await_complete import AwaitComplete
from textual.command import CommandPalette
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen, ScreenResultType

from spectui.ui.textual_patches.compositor import ChangesCompositor


class LeftOnce(MessagePump):
    """A screen that a second key or click does not leave again, which would leave the screen behind it.

    No `Screen` itself: Textual takes the styles and keys of a class's first base alone, and those are a `ModalScreen`'s too.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Leave the screen, once it is mounted: Textual would run `on_mount` of a screen that was left without its widgets."""
        if self.is_current and self.is_mounted:  # type: ignore[attr-defined]
            return super().dismiss(result)  # type: ignore[misc,no-any-return]
        if self.is_current:  # type: ignore[attr-defined]
            self.call_later(self._leave, result)
        return AwaitComplete.nothing()  # type: ignore[no-untyped-call,no-any-return]

    def _leave(self, result: Any) -> None:
        self.dismiss(result)


class Palette(LeftOnce, CommandPalette):
    """Textual's command palette."""


class Dialog(LeftOnce, ModalScreen[ScreenResultType | None]):
    """A screen over the chat, in most a box. Answers None if it is left."""

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > Vertical {
            max-width: 100%; max-height: 100%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $foreground;
        }
        Input, Input:focus { border: none; height: 1; padding: 0; background: $foreground 10%; }
        &.-tiny > Vertical { border: none; }
    }
    """

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The app acts on keys with priority at once, also before the widgets are there that they are for."""
        return self.is_mounted or action in ("back", "dismiss", "stop")


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
