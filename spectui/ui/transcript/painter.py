"""Draws the rows of a transcript in the styles of what they show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.color import Color
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from spectui.ui.transcript.document import INDENT, Block, Document
from spectui.ui.transcript.marks import Finder, TokenCursor
from spectui.ui.transcript.source import CURSOR, ERROR, GUESS, KINDS, REJECTED, TEXT, THOUGHT

COMPONENTS = {f"transcript--{kind}" for kind in (*KINDS[1:], "marked")}
"""The component classes that `STYLES` gives looks."""

# Origins differ by more than colour, and the default colours (Okabe and Ito's) by more than red and green.
STYLES = """
    Transcript {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        scrollbar-visibility: hidden;
        & > .transcript--accepted { color: $origin-accepted; }
        & > .transcript--correction { color: $origin-correction; text-style: bold underline; }
        & > .transcript--bonus { color: $origin-bonus; text-style: bold; }
        & > .transcript--plain { color: $origin-plain; text-style: italic; }
        & > .transcript--rejected { color: $origin-rejected; text-style: strike; }
        & > .transcript--heading { color: $foreground; text-style: bold; }
        & > .transcript--user { color: $foreground; }
        & > .transcript--notice { color: $text-muted; text-style: italic; }
        & > .transcript--error { color: $error; text-style: bold; }
        & > .transcript--cursor { color: $foreground; }
        & > .transcript--guess { color: $foreground 45%; text-style: italic; }
        & > .transcript--dropped { color: $text-muted; text-style: bold italic; }
        & > .transcript--fold { color: $text-muted; text-style: bold italic; }
        & > .transcript--title { color: $foreground; text-style: bold underline; }
        & > .transcript--subtitle { color: $foreground; text-style: bold; }
        & > .transcript--strong { color: $foreground; text-style: bold; }
        & > .transcript--emphasis { color: $foreground; text-style: italic; }
        & > .transcript--stressed { color: $foreground; text-style: bold italic; }
        & > .transcript--struck { color: $foreground; text-style: strike; }
        & > .transcript--sign { color: $text-muted; }
        & > .transcript--fence { color: $text-muted; }
        & > .transcript--code { color: $text-primary; text-style: bold; }
        & > .transcript--keyword { color: $text-primary; text-style: bold; }
        & > .transcript--name { color: $text-secondary; }
        & > .transcript--string { color: $text-success; }
        & > .transcript--number { color: $text-warning; }
        & > .transcript--comment { color: $text-muted; text-style: italic; }
        & > .transcript--added { color: $text-success; }
        & > .transcript--removed { color: $text-error; }
        & > .transcript--marked { background: $foreground 18%; }
    }
    """


class Painter:
    """Draws rows of a document in the styles of its widget, with the marks of the cursor and of what was found."""

    def __init__(self, widget: Widget, document: Document, cursor: TokenCursor, finder: Finder) -> None:
        self._widget = widget
        self._document = document
        self._cursor = cursor
        self._finder = finder
        self.branched: Block | None = None
        """The heading whose branch keys would turn."""
        self._styles: dict[int, Style] = {}
        self._strips: LRUCache[int, Strip] = LRUCache(256)
        self.guess = ""
        """Drawn after the text that grows, and never a part of it."""
        self.struck = False
        """The target has rejected it."""

    def clear(self) -> None:
        """Forget the styles, which have changed, and all rows."""
        self._styles.clear()
        self._strips.clear()

    def forget(self, rows: range) -> None:
        """Forget how these rows were drawn: they have changed."""
        if len(rows) < self._strips.maxsize:
            for row in rows:
                self._strips.discard(row)
        else:
            self._strips.clear()

    def rows(self, rows: range, selection: Selection | None) -> Iterator[Strip]:
        """Draw rows; those below the document are empty. What is selected is drawn without the cache."""
        for row in rows:
            span = None if selection is None else selection.get_span(row)
            if (block := self._document.block_at(row)) is None:
                yield Strip.blank(self._widget.outer_size.width, self.style(TEXT))
            elif span is not None:
                yield self.draw(block, row, span)
            else:
                if (strip := self._strips.get(row)) is None:
                    self._strips[row] = strip = self.draw(block, row)
                yield strip

    def draw(self, block: Block, row: int, selected: tuple[int, int] | None = None) -> Strip:
        """A row of the document, with the characters between two places `selected`."""
        margin = (" " * block.indent, TEXT)
        if block.source.kind == ERROR and row == block.top:
            margin = (f"{'!':>{block.indent - 1}} ", ERROR)
        runs = [margin, *block.drawing.runs(row - block.top)]
        shade = THOUGHT if self._document.is_dropped(row) else 0
        segments = [Segment(text, self.style(kind | shade)) for text, kind in runs]
        if block is self._document.growing and row == block.end - 1:
            segments += self._cursor_and_guess()
        spans = [*self._cursor.spans(block, row - block.top)]
        if any(not is_token for *_, is_token in spans):  # a shade alone is not visible on every terminal
            segments[0] = Segment(f"{'▌':>{block.indent - 1}} ", self.style(CURSOR))
        if block is self.branched and row == block.end - 1:
            length = sum(len(text) for text, _ in runs[1:])
            spans.append((length - len(block.source.branch), length, True))
        for start, end, is_chosen in (*spans, *self._finder.spans(block, row - block.top)):
            marked = Style(bgcolor=self._widget.get_component_rich_style("transcript--marked").bgcolor)
            style = Style(reverse=True) if is_chosen else marked
            segments = list(_restyled(segments, block.indent + start, block.indent + end, style))
        if selected is not None:
            segments = list(_restyled(segments, *selected, self._widget.selection_style))
        width = self._widget.outer_size.width  # its scrollbar may hide
        text_end = INDENT + self._document.width + 1
        return Strip(segments).crop(0, text_end).adjust_cell_length(width, self.style(TEXT)).apply_offsets(0, row)

    def _cursor_and_guess(self) -> list[Segment]:
        """The cursor stands on the guess's first character, so that an accepted one stays where it is."""
        if self.struck or not self.guess:
            return [Segment("█", self.style(CURSOR)), Segment(self.guess, self.style(REJECTED))]
        cursor = self.style(CURSOR) + Style(reverse=True)
        return [Segment(self.guess[0], cursor), Segment(self.guess[1:], self.style(GUESS))]

    def style(self, kind: int) -> Style:
        """The style of a kind of pieces. Cached, since Textual computes it at each call."""
        if (style := self._styles.get(kind)) is None:
            if kind >= THOUGHT:
                style = _dimmed(self.style(kind - THOUGHT))
            elif kind == TEXT:
                style = self._widget.rich_style
            else:
                style = self._widget.get_component_rich_style(f"transcript--{KINDS[kind]}")
            self._styles[kind] = style
        return style


def _dimmed(style: Style) -> Style:
    """The style for thinking: blended with the background, and italic, since a shade alone is not visible on every terminal. It
    avoids the terminal's dim attribute, which is hard to read on white."""
    colour, background = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
    if background.ansi is not None:  # the real colour is the terminal's, and unknown
        return style + Style(italic=True, dim=True)
    return style + Style(italic=True, color=colour.blend(background, 0.3).rich_color)


def _restyled(segments: Iterable[Segment], start: int, end: int, style: Style) -> Iterator[Segment]:
    """The segments, with `style` added to the characters from `start` to `end` (-1: the end)."""
    drawn = 0
    for text, own, _ in segments:
        first = min(len(text), max(0, start - drawn))
        last = len(text) if end == -1 else max(first, min(len(text), end - drawn))
        for part, selected in ((text[:first], False), (text[first:last], True), (text[last:], False)):
            if part:
                yield Segment(part, own + style if selected and own else own)
        drawn += len(text)
