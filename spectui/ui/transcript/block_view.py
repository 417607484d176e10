"""Draws blocks of rows, scrolls them, and keeps what is read in place when they change.

A row is made when it is first drawn and kept until its text, the width or the theme changes, so the cost of a frame does not
depend on how long the conversation is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip

from spectui.speculation.records import Token
from spectui.ui.keys import with_keys
from spectui.ui.textual_patches.direct_render import GrowingScrollView
from spectui.ui.transcript.blocks import CURSOR, ERROR, INDENT, KINDS, TEXT, THOUGHT, Block, index_at
from spectui.ui.transcript.document import Document
from spectui.ui.transcript.restyling import dimmed, restyled

_MARGIN = 1  # to the right of the text, so that the cursor always has a cell


class Place(NamedTuple):
    """What is in a row of the view: an offset of a block's flow, or of the text of a round's token, if it is one's."""

    row: int
    block: Block
    offset: int
    token: tuple[int, int] | None

    @property
    def now(self) -> int:
        """The block's row that draws it now."""
        piece = self.block.piece_of(*self.token) if self.token else None
        return self.block.row_of(self.offset + (self.block.flow.span_of(piece)[0] if piece is not None else 0))


class BlockView(GrowingScrollView, can_focus=True):
    """The blocks of a document. The view follows the end unless a person has scrolled up. Text is data: no markup, no control
    codes."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"transcript--{kind}" for kind in KINDS[1:]}
    # Origins differ by more than colour, and the default colours (Okabe and Ito's) by more than red and green.
    DEFAULT_CSS = """
    BlockView {
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
        & > .transcript--dropped { color: $text-muted; text-style: bold italic; }
        & > .transcript--fold { color: $text-muted; text-style: bold italic; }
        & > .transcript--title { color: $foreground; text-style: bold underline; }
        & > .transcript--subtitle { color: $foreground; text-style: bold; }
        & > .transcript--strong { color: $foreground; text-style: bold; }
        & > .transcript--emphasis { color: $foreground; text-style: italic; }
        & > .transcript--stressed { color: $foreground; text-style: bold italic; }
        & > .transcript--struck { color: $foreground; text-style: strike; }
        & > .transcript--sign { color: $text-muted; }
        & > .transcript--code { color: $text-primary; text-style: bold; }
        & > .transcript--keyword { color: $text-primary; text-style: bold; }
        & > .transcript--name { color: $text-secondary; }
        & > .transcript--string { color: $text-success; }
        & > .transcript--number { color: $text-warning; }
        & > .transcript--comment { color: $text-muted; text-style: italic; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._document = Document(80, lambda note: with_keys(self.app, note))
        self.blocks = self._document.blocks
        self._messages = self._document.messages
        self._reply: int | None = None  # which block grows
        self._height = 0
        self._width = INDENT + 80 + _MARGIN
        self._end_y = 0  # max_scroll_y at the last change: a view that was there follows
        self._strips: LRUCache[int, Strip] = LRUCache(1024)
        self._styles_by_kind: dict[int, Style] = {}

    @property
    def text_width(self) -> int:
        """Cells that a row of text has."""
        return self._width - INDENT - _MARGIN

    def scroll_to_end(self) -> None:
        """Let the view follow the end again."""
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    # Queries

    @property
    def text(self) -> str:
        """All messages with their headings, without rejected drafts, notices and wrapping."""
        return self._document.text

    def token_at(self, x: int, y: int) -> Token | None:
        """The token drawn at a cell of the content: `y` counts rows from the transcript's start, not the window's."""
        drawn = self._drawn_at(x, y)
        return drawn[0].token_at(drawn[1]) if drawn else None

    def _drawn_at(self, x: int, y: int) -> tuple[Block, int] | None:
        block = self._block_at(y) if 0 <= y < self._height else None
        piece = block.piece_at(y - block.top, x - block.indent) if block else None
        return (block, piece) if block and piece is not None else None

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it was written: rows of one line are joined, rejected drafts and indentation left out."""
        if not self.blocks:
            return None
        start, end = ((at.x, at.y) if at else None for at in (selection.start, selection.end))
        return self._document.text_between(start, end), "\n"

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Render row `y` of the widget."""
        return next(self.rows(range(y, y + 1)))

    def rows(self, lines: range) -> Iterator[Strip]:
        """Render these rows of the widget."""
        top, selection = self.scroll_offset.y, self.text_selection
        for row in range(top + lines.start, top + lines.stop):
            span = None if selection is None else selection.get_span(row)
            if row >= self._height:
                yield Strip.blank(self.outer_size.width, self._style(TEXT))
            elif span is not None:
                yield self._draw(row, span)
            else:
                if (strip := self._strips.get(row)) is None:
                    self._strips[row] = strip = self._draw(row, None)
                yield strip

    def _draw(self, row: int, span: tuple[int, int] | None) -> Strip:
        block = self._block_at(row)
        margin = (" " * block.indent, TEXT)
        if block.mark and row == block.top:
            margin = (f"{block.mark:>{block.indent - 1}} ", ERROR)
        runs = [margin, *block.shown.runs(row - block.top)]
        if self._reply is not None and block is self.blocks[self._reply] and row == block.top + block.flow.height - 1:
            runs.append(("█", CURSOR))
        until = self._document.dropped_until
        shade = THOUGHT if until is not None and row < until.top else 0
        drawn = [Segment(text, self._style(kind | shade)) for text, kind in runs]
        segments = self._marked(drawn, block, row - block.top)
        if span is not None:
            segments = list(restyled(segments, *span, self.selection_style))
        strip = Strip(segments).adjust_cell_length(self.outer_size.width, self._style(TEXT))  # its scrollbar may hide
        return strip.apply_offsets(0, row)

    def _marked(self, segments: list[Segment], block: Block, row: int) -> list[Segment]:
        """Change what is drawn in a row of a block. A subclass adds its marks."""
        return segments

    def _style(self, kind: int) -> Style:
        if (style := self._styles_by_kind.get(kind)) is None:
            if kind >= THOUGHT:
                style = dimmed(self._style(kind - THOUGHT))
            elif kind == TEXT:
                style = self.rich_style
            else:
                style = self.get_component_rich_style(f"transcript--{KINDS[kind]}")
            self._styles_by_kind[kind] = style
        return style

    def notify_style_update(self) -> None:
        """Called by Textual when styles have changed."""
        super().notify_style_update()
        self._styles_by_kind.clear()
        self._strips.clear()

    def selection_updated(self, selection: Selection | None) -> None:
        """Called by Textual when the selection has changed. Selected rows are drawn without the cache."""
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Show the scrollbar only above the end. While the view follows it would cost half of a frame."""
        visibility = "hidden" if round(new_value) >= self.max_scroll_y else "visible"
        if self.styles.scrollbar_visibility != visibility:
            self.styles.scrollbar_visibility = visibility
            self.update_scrollbars()  # a hidden one is not kept up to date
        if visibility == "visible":
            super().watch_scroll_y(old_value, new_value)
        elif round(old_value) != round(new_value):
            self.refresh()

    # The list of blocks

    @property
    def _following(self) -> bool:
        """The view is at the end, or an animation is scrolling it there."""
        return round(self.scroll_target_y) >= self._end_y

    def _place(self) -> Place | None:
        """What is on top of the window, or will be when it has scrolled there; None where the view follows the end."""
        if not self.blocks or self._following:
            return None
        row = min(round(self.scroll_target_y), self._height - 1)
        block = self._block_at(row)
        offset = block.begins_at(row - block.top, 0)
        piece = block.flow.piece_of(offset)
        token = block.index_of(piece)
        return Place(row, block, offset - (block.flow.span_of(piece)[0] if token else 0), token)

    def _keep(self, place: Place | None) -> None:
        """Scroll to what was on top of the window."""
        if place is not None and place.block in self.blocks:
            row = place.block.top + place.now
            if row != place.row:
                self.scroll_to(y=row, animate=False, force=True)

    def _block_at(self, row: int) -> Block:
        return self.blocks[index_at(self.blocks, row)]

    def _changed(self, index: int, row: int = 0) -> None:
        """Update positions and drop cached rows from a row of a block on. A view that follows the end goes on doing so."""
        following = self._following
        first, top = self._document.lay_out(index)
        first += row
        changed = max(top, self._height)
        if changed - first < self._strips.maxsize:
            for drawn in range(first, changed):
                self._strips.discard(drawn)
        else:
            self._strips.clear()
        self._height = top
        size = Size(self._width, top)
        if self.virtual_size != size:
            self.set_content_size(size)
            if not following or self.show_vertical_scrollbar != (self.max_scroll_y > 0):
                self.update_scrollbars()
        if following and (self.scroll_y, self.scroll_target_y) != (self.max_scroll_y, self.max_scroll_y):
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        self._end_y = self.max_scroll_y
        self.refresh_lines(first, max(1, changed - first))  # a view that has moved is drawn whole in any case
