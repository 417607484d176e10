"""Rendering only what has changed.

Textual renders all rows of each widget that overlaps a change, and the containers behind it too: for one row of the transcript
that is a hundred and more. Then it cuts each row where any widget begins. The cores that draw are those that decode.
"""

from __future__ import annotations

from rich.console import Console
from textual._compositor import Compositor, CompositorUpdate
from textual.geometry import Offset, Region
from textual.strip import Strip
from textual.widget import Widget


class Changes(CompositorUpdate):
    """Rows of widgets, each with its column and line in the window."""

    def __init__(self, rows: list[tuple[int, int, Strip]]) -> None:
        self._rows = rows

    def render_segments(self, console: Console) -> str:
        """What the terminal is sent."""
        return "".join(f"\x1b[{y + 1};{x + 1}H{strip.render(console)}" for x, y, strip in self._rows)


class ChangesCompositor(Compositor):
    """Has each change rendered by the one widget that is seen there."""

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
