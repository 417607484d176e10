"""Drawing only what has changed.

Of Textual's own compositor each change, be it a row, costs every widget of the window all of its rows: half of what a frame
costs, and twenty frames a second are taken from the cores that decode.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

NEAR = 4
"""Lines that are cheaper drawn with what is around them than left out."""

Chops = list[dict[int, Strip | None]]
"""By line of the window and cell: what is drawn from there to where the next widget begins or ends."""


class ChangesCompositor(Compositor):
    """Asks for a changed region's rows whoever is in front there, and who is behind only where something can be seen."""

    def update_widgets(self, widgets: set[Widget]) -> None:
        """Note what these have to draw. For one that nobody sees, Textual would arrange the whole window anew."""
        super().update_widgets(widgets & self.visible_widgets.keys())

    def render_partial_update(self) -> ChopsUpdate | None:
        """What has changed since the last time; None: nothing."""
        window = self.size.region
        regions = [seen for region in self._dirty_regions if (seen := region.intersection(window))]
        self._dirty_regions.clear()
        if not regions:
            return None
        chops: Chops = [dict.fromkeys(cuts[:-1]) for cuts in self.cuts]
        for region in _near_each_other(regions):
            self._draw(region, chops)
        # Lines of a widget are drawn together, so there are more of them than changed; the spans say which to write.
        spans = list(self._regions_to_spans(regions))
        return ChopsUpdate(chops, spans, [cuts[1:] for cuts in self.cuts])

    def _draw(self, changed: Region, chops: Chops) -> None:
        """Fill what stands in the changed region, from the front to the back."""
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
    """The regions, with those in the same columns and a few lines apart as one: a widget's, mostly."""
    groups: list[Region] = []
    for region in sorted(regions, key=lambda region: (region.column_span, region.y)):
        last = groups[-1] if groups else None
        if last and last.column_span == region.column_span and region.y - last.bottom <= NEAR:
            groups[-1] = last.union(region)
        else:
            groups.append(region)
    return groups
