"""Drawing only what has changed.

With Textual's compositor each change, even of one row, makes many widgets render all of their rows. That is half of a frame's
cost, and the cores that draw twenty frames a second are those that decode.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

NEAR = 4
"""Up to so many unchanged lines between two changed regions, drawing them too is cheaper than leaving them out."""

Chops = list[dict[int, Strip | None]]
"""For each line of the window, by cell: what is drawn from there to the next cell at which a widget begins or ends."""


class ChangesCompositor(Compositor):
    """Renders the widget in front of each changed region, and those behind it only where they can be seen."""

    def update_widgets(self, widgets: set[Widget]) -> None:
        """Note what these have to draw. Leaves out hidden widgets: for one, Textual would arrange the whole window again."""
        super().update_widgets(widgets & self.visible_widgets.keys())

    def render_partial_update(self) -> ChopsUpdate | None:
        """Render what has changed since the last call. None if nothing has changed."""
        window = self.size.region
        regions = [seen for region in self._dirty_regions if (seen := region.intersection(window))]
        self._dirty_regions.clear()
        if not regions:
            return None
        chops: Chops = [dict.fromkeys(cuts[:-1]) for cuts in self.cuts]
        for region in _near_each_other(regions):
            self._draw(region, chops)
        # More lines are rendered than have changed, since a widget's lines are rendered together: the spans say which to write.
        spans = list(self._regions_to_spans(regions))
        return ChopsUpdate(chops, spans, [cuts[1:] for cuts in self.cuts])

    def _draw(self, changed: Region, chops: Chops) -> None:
        """Fill the changed region, from the front widget to the back."""
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            rows = seen.intersection(Region(seen.x, changed.y, seen.width, changed.height))
            if not rows or not rows.overlaps(changed):
                continue
            strips = widget.render_lines(rows.translate(-region.offset))
            for y, strip in zip(rows.line_range, strips, strict=False):
                cuts = [cut for cut in self.cuts[y] if rows.x <= cut <= rows.right]
                pieces = strip.divide([cut - rows.x for cut in cuts[1:]])
                for start, end, piece in zip(cuts, cuts[1:], pieces, strict=False):
                    if start < changed.right and end > changed.x and chops[y][start] is None:
                        chops[y][start] = piece
            if rows.contains_region(changed):
                return


def _near_each_other(regions: Iterable[Region]) -> list[Region]:
    """Merge regions that are in the same columns and a few lines apart: mostly they belong to one widget."""
    groups: list[Region] = []
    for region in sorted(regions, key=lambda region: (region.column_span, region.y)):
        last = groups[-1] if groups else None
        if last and last.column_span == region.column_span and region.y - last.bottom <= NEAR:
            groups[-1] = last.union(region)
        else:
            groups.append(region)
    return groups
