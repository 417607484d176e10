"""Screens that are left once, and the chat's, which can be told to draw at once and draws only what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from textual._compositor import Compositor, CompositorUpdate
from textual.await_complete import AwaitComplete
from textual.geometry import Offset, Region
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.strip import Strip
from textual.widget import Widget


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


class Changes(CompositorUpdate):
    """Rows of widgets, each with its column and line in the window."""

    def __init__(self, rows: list[tuple[int, int, Strip]]) -> None:
        self._rows = rows

    def render_segments(self, console: Console) -> str:
        """What the terminal is sent."""
        return "".join(f"\x1b[{y + 1};{x + 1}H{strip.render(console)}" for x, y, strip in self._rows)


class ChangesCompositor(Compositor):
    """Has each change rendered by the one widget that is seen there.

    Textual renders all rows of each widget that overlaps a change, and the containers behind it too: for one row of the
    transcript that is a hundred and more. Then it cuts each row where any widget begins. The cores that draw are those that
    decode.
    """

    _seen: tuple[object, list[tuple[Region, Offset, Widget]]] = (None, [])

    def update_widgets(self, widgets: set[Widget]) -> None:
        """Note what these have to draw. Leaves out hidden widgets: for one, Textual would arrange the whole window again."""
        super().update_widgets(widgets & self.visible_widgets.keys())

    def render_partial_update(self) -> CompositorUpdate | None:  # type: ignore[override]
        """What has changed. Textual does it where a change is not of one widget alone."""
        changes = [(region, *self._only_one(region)) for region in self._dirty_regions]
        rows = []
        for region, offset, widget in changes:
            if widget is None:
                return super().render_partial_update()
            lines = zip(region.line_range, widget.render_lines(region.translate(offset)), strict=False)
            rows += [(region.x, y, strip) for y, strip in lines]
        self._dirty_regions.clear()
        return Changes(rows) if rows else None

    def _only_one(self, region: Region) -> tuple[Offset, Widget | None]:
        """The widget that is seen in all of this region, and the way from the window to it; no widget if there are several."""
        if self._seen[0] is not self.visible_widgets:
            found = self.visible_widgets.items()
            self._seen = self.visible_widgets, [(at.intersection(clip), -at.offset, each) for each, (at, clip) in found]
        there = (each for each in self._seen[1] if each[0].overlaps(region))
        place, offset, widget = next(there, (Region(), Offset(), None))
        return offset, widget if place.contains_region(region) else None


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
