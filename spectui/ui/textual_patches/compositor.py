"""Rendering only what has changed.

Textual renders all rows of each widget that overlaps a change, and the containers behind it too: for one row of the transcript
that is a hundred and more. The cores that draw are those that decode.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class ChangesCompositor(Compositor):
    """Renders of each widget the rows of the change."""

    def update_widgets(self, widgets: set[Widget]) -> None:
        """Note what these have to draw. Leaves out hidden widgets: for one, Textual would arrange the whole window again."""
        super().update_widgets(widgets & self.visible_widgets.keys())

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """Where each widget is seen in the rows of `crop`, twice, and what it draws there; the front one first."""
        crop = crop or self.size.region
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            seen = seen.intersection(Region(seen.x, crop.y, seen.width, crop.height))
            if seen and seen.overlaps(crop):
                yield seen, seen, widget.render_lines(seen.translate(-region.offset))
