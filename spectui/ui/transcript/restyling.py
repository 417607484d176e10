"""Other styles for what is drawn already: a marked stretch, and what was only thought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.segment import Segment
from rich.style import Style
from textual.color import Color


def dimmed(style: Style) -> Style:
    """The style of the same, thought. Italic besides, since a shade alone would not show everywhere; not a terminal's own dim,
    which is hard to read on white."""
    colour, background = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
    if background.ansi is not None:  # what the terminal's own colours look like, nobody knows
        return style + Style(italic=True, dim=True)
    return style + Style(italic=True, color=colour.blend(background, 0.3).rich_color)


def restyled(segments: Iterable[Segment], start: int, end: int, style: Style) -> Iterator[Segment]:
    """The segments, with the characters from `start` to `end` (-1: all the rest) in this style besides their own."""
    drawn = 0
    for text, own, _ in segments:
        first = min(len(text), max(0, start - drawn))
        last = len(text) if end == -1 else max(first, min(len(text), end - drawn))
        for part, selected in ((text[:first], False), (text[first:last], True), (text[last:], False)):
            if part:
                yield Segment(part, own + style if selected and own else own)
        drawn += len(text)
