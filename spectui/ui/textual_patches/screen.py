"""Screens that may be left at any moment, and the chat's, which draws only what has changed and can be told to draw at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from textual._callback import invoke
from textual.app import ScreenStackError
from textual.await_complete import AwaitComplete
from textual.css.query import NoMatches
from textual.dom import NoScreen
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import MountError, Widget

from spectui.ui.textual_patches.compositor import ChangesCompositor

GONE = NoMatches, NoScreen, ScreenStackError, MountError, LookupError
"""Errors of looking for what a screen had while it stood: widgets, styles, keys; and of mounting into it."""


def is_going(node: MessagePump) -> bool:
    """Whether a screen or widget was left, or the app ends: it may have lost its widgets, or never get any."""
    if node.app._exit or not node.is_attached:
        return True
    if not isinstance(node, Widget):
        return False
    screen = next((each for each in node.ancestors_with_self if isinstance(each, Screen)), None)
    return node._pruning or node._closing or screen not in node.app.screen_stack


@contextmanager
def tolerant(node: MessagePump) -> Iterator[None]:
    """What is done for a screen that is going ends without an error where it finds things gone."""
    try:
        yield
    except GONE:
        if not is_going(node):
            raise


class Leavable(MessagePump):
    """A screen that may be left at any moment, also while it opens.

    Its handlers, timers, callbacks and workers may take for granted that its widgets are there: one that finds them gone
    because the screen is going ends there, and nothing else does. (`TerminalApp` sees to that in workers and in widgets.)

    No `Screen` itself: Textual takes the styles and keys of a class's first base alone, and those are a `ModalScreen`'s too.
    """

    async def _dispatch_message(self, message: Message) -> None:
        """Handle a message. An error here would end the screen's pump, which still has its own end to handle."""
        with tolerant(self):
            await super()._dispatch_message(message)

    def _invoke_later(self, callback: Callable[[], object], sender: MessagePump) -> None:
        """Call this after the next frame. Textual asks the screen in front for it, which need not be the sender's."""

        async def call() -> None:
            with tolerant(sender):
                await invoke(callback)

        super()._invoke_later(call, sender)  # type: ignore[misc]

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Leave once: a second key or click may come before the first has done so, and would leave the screen behind it."""
        leave = self.is_current  # type: ignore[attr-defined]
        return super().dismiss(result) if leave else AwaitComplete.nothing()  # type: ignore[misc,no-untyped-call,no-any-return]


class Dialog(Leavable, ModalScreen[ScreenResultType | None]):
    """A leavable screen over the chat, in most a box. Answers None if it is left."""

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


class DirectScreen(Leavable, Screen[None]):
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
