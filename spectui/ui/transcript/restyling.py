"""Changes styles of drawn segments: a marked range, and dimmed thinking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.segment import Segment
from rich.style import Style
from textual.color import Color


def dimmed(style: Style) -> Style:
    """The style for thinking: blended with the background, and italic, since a shade alone is not visible on every terminal. It
    avoids the terminal's dim attribute, which is hard to read on white."""
    colour, background = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
    if background.ansi is not None:  # the real colour is the terminal's, and unknown
        return style + Style(italic=True, dim=True)
    return style + Style(italic=True, color=colour.blend(background, 0.3).rich_color)


def restyled(segments: Iterable[Segment], start: int, end: int, style: Style) -> Iterator[Segment]:
    """The segments, with `style` added to the characters from `start` to `end` (-1: the end)."""
    drawn = 0
    for text, own, _ in segments:
        first = min(len(text), max(0, start - drawn))
        last = len(text) if end == -1 else max(first, min(len(text), end - drawn))
        for part, selected in ((text[:first], False), (text[first:last], True), (text[last:], False)):
            if part:
                yield Segment(part, own + style if selected and own else own)
        drawn += len(text)
