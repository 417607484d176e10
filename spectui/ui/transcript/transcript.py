"""The conversation, drawn row by row: each token in the colour of its origin.

A row is made when it is first drawn and kept until its text, the width, the theme or a toggle changes, so the cost of a
frame does not depend on how long the conversation is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Size
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip

from spectui.speculation.records import Round, Token
from spectui.store.rounds.packed import PackedRounds
from spectui.ui.textual_patches.scroll_view import GrowingScrollView
from spectui.ui.transcript.blocks import (
    CURSOR,
    ERROR,
    INDENT,
    KINDS,
    NOTICE,
    ORIGINS,
    TEXT,
    THOUGHT,
    Block,
    index_at,
)
from spectui.ui.transcript.document import Document
from spectui.ui.transcript.restyling import dimmed, restyled

REWRITTEN_AT_ONCE = 256
"""Rounds that are written again in the window's thread, which takes some milliseconds."""

_MARGIN = 1  # to the right of the text, so that the cursor always has a cell


class Transcript(GrowingScrollView, can_focus=True):
    """The messages. The view follows the end unless a person has scrolled up. Text is data: no markup, no control codes."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"transcript--{kind}" for kind in KINDS[1:]}
    # Origins differ by more than colour, and the default colours (Okabe and Ito's) by more than red and green.
    DEFAULT_CSS = """
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
        & > .transcript--ghost { color: $origin-rejected; text-style: strike; }
        & > .transcript--heading { color: $foreground; text-style: bold; }
        & > .transcript--user { color: $foreground; }
        & > .transcript--notice { color: $text-muted; text-style: italic; }
        & > .transcript--error { color: $error; text-style: bold; }
        & > .transcript--cursor { color: $foreground; }
        & > .transcript--dropped { color: $text-muted; text-style: bold italic; }
        & > .transcript--fold { color: $text-muted; text-style: bold italic; }
    }
    """

    show_colours: reactive[bool] = reactive(True)
    """Draw each token in the style of its origin."""

    show_ghosts: reactive[bool] = reactive(False)
    """Draw rejected drafted tokens at their positions. They are never part of the text."""

    show_thinking: reactive[bool] = reactive(False)
    """Keep sections of thinking unfolded when they end. A click on a heading folds or unfolds one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._document = Document(80)
        self.blocks = self._document.blocks
        self._messages = self._document.messages
        self._reply: int | None = None  # which block grows
        self._stale: list[Block] = []  # to be written again in a worker thread
        self._rewriting = False
        self._height = 0
        self._width = INDENT + 80 + _MARGIN
        self._end_y = 0  # max_scroll_y at the last change: a view that was there follows
        self._strips: LRUCache[int, Strip] = LRUCache(1024)
        self._styles_by_kind: dict[int, Style] = {}

    # Content

    def add_message(self, role: str, text: str, name: str | None = None, index: int = 0) -> None:
        """Add a whole message, the conversation's `index`th, under a heading: the name, or what the role is called."""
        self._changed(self._document.add_message(role, text, name, index))

    def start_reply(self, name: str, index: int = 0, rounds: PackedRounds | None = None) -> None:
        """Begin a reply that grows until `finish_reply`. `rounds` is the conversation's list of its rounds."""
        self.finish_reply()
        first = self._document.begin(name, is_reply=True, index=index)
        self._reply = len(self.blocks)
        self._document.add_block(rounds=rounds)
        self._changed(first)

    def continue_reply(self) -> bool:
        """Continue the last reply and remove the notices under it. False if it has no rounds."""
        first = self._messages[-1].first if self._messages and self._messages[-1].is_reply else len(self.blocks)
        reply = next((at for at in range(first, len(self.blocks)) if self.blocks[at].rounds), None)
        if reply is not None:
            del self.blocks[reply + 1 :]
            self._reply = reply
            self._changed(reply, max(0, self.blocks[reply].flow.height - 1))
        return reply is not None

    def append_rounds(self, rounds: Iterable[Round]) -> None:
        """Append rounds to the reply, and draw them. Ignored if no reply was begun, as after `clear`."""
        if self._reply is not None:
            for round in rounds:
                self.blocks[self._reply].rounds.append(round)
            self.grow()

    def grow(self) -> None:
        """Draw the rounds that the reply has got since, all at once, so that the view's end is computed once."""
        if self._reply is None:
            return
        block = self.blocks[self._reply]
        first, folded, rounds = block.flow.height, False, block.undrawn
        for round in rounds:
            row, ended = block.draw(round, self.show_ghosts)
            first = min(first, row)
            for section in ended:
                # Do not fold it while a person reads further up.
                section.folded, folded = not self.show_thinking and self._following, True
        if folded:
            self._rewrite([block])
        elif rounds:
            self._changed(self._reply, first)

    def begin_thinking(self) -> None:
        """Begin a section of thinking, which the prompt has opened, in the new reply."""
        if self._reply is not None:
            self.blocks[self._reply].thinking.begin()

    def finish_reply(self, note: str = "") -> None:
        """End the reply, with a note under it. Nothing happens if none was begun."""
        if self._reply is not None:
            reply, self._reply = self._reply, None
            self._changed(reply, self.blocks[reply].flow.height - 1)
            if note:
                self.add_notice(note)

    def add_notice(self, text: str) -> None:
        """Add a notice. It is no part of the conversation, and not in `text`."""
        self._remark(text, NOTICE)

    def add_error(self, text: str) -> None:
        """Add an error, marked so that it differs from a notice."""
        self._remark(text, ERROR, "!")

    def _remark(self, text: str, kind: int, mark: str = "") -> None:
        self._changed(self._document.add_remark(text, kind, mark))

    def mark_dropped(self, index: int, mark: str) -> None:
        """Mark that the messages before this index are no part of the prompt, and dim them; 0: all are."""
        if self._document.mark_dropped(index, mark):
            self._changed(0)

    def cut(self, length: int) -> None:
        """Remove all messages after the first `length`, and the notices under them, but for those of a reply that has no text:
        they tell why, or came while it was waited for."""
        while self._messages and self._messages[-1].index >= length:
            start = self._messages.pop()
            first, behind = start.first, self.blocks[start.first :]
            empty = start.is_reply and not any(block.rounds for block in behind)
            self.blocks[first:] = [block for block in behind if empty and not block.copied]
            self._reply = None
            self._changed(first)

    def clear(self) -> None:
        """Remove everything."""
        self.blocks.clear()
        self._messages.clear()
        self._reply = None
        self._changed(0)

    def scroll_to_end(self) -> None:
        """Let the view follow the end again."""
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    # Queries

    @property
    def text(self) -> str:
        """All messages with their headings, without ghosts, notices and wrapping."""
        return self._document.text

    def token_at(self, x: int, y: int) -> Token | None:
        """The token drawn at a cell of the content: `y` counts rows from the transcript's start, not the window's."""
        drawn = self._drawn_at(x, y)
        return drawn[0].token_at(drawn[1]) if drawn else None

    def fold_at(self, x: int, y: int) -> bool:
        """Fold or unfold the section whose heading is at a cell of the content. False if there is none."""
        drawn = self._drawn_at(x, y)
        section = drawn[0].folds.get(drawn[1]) if drawn else None
        if drawn and section:
            section.folded = not section.folded
            self._rewrite([drawn[0]])
        return section is not None

    def _drawn_at(self, x: int, y: int) -> tuple[Block, int] | None:
        block = self._block_at(y) if 0 <= y < self._height else None
        piece = block.flow.piece_at(y - block.top, x - block.indent) if block else None
        return (block, piece) if block and piece is not None else None

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it was written: rows of one line are joined, ghosts and indentation left out."""
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
        runs = [margin, *block.flow.runs(row - block.top)]
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
        if kind & ~THOUGHT in ORIGINS and not self.show_colours:
            kind = TEXT | kind & THOUGHT
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

    def watch_show_colours(self) -> None:
        """Draw again. Colours do not change the wrapping."""
        self._strips.clear()

    def watch_show_ghosts(self) -> None:
        """Wrap the replies that have rejected drafts again."""
        self._rewrite([block for block in self.blocks if block.has_rejected])

    def watch_show_thinking(self) -> None:
        """Unfold or fold all sections."""
        thought = [block for block in self.blocks if block.thinking.sections]
        for section in (section for block in thought for section in block.thinking.sections):
            section.folded = not self.show_thinking
        self._rewrite(thought)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap everything again if the width has changed, keeping the row on top of the window."""
        width, self._width = self._width, self.scrollable_content_region.width
        if width == self._width or not self.blocks:
            self._document.width = self.text_width
            self._changed(len(self.blocks))
            return
        row = min(self.scroll_offset.y, self._height - 1)
        top = self._block_at(row)
        offset, _ = top.flow.source(row - top.top)
        self._document.rewrap(self.text_width)
        if not self._changed(0):
            self.scroll_to(y=top.top + top.flow.row_of(offset), animate=False, force=True)

    # The list of blocks

    @property
    def text_width(self) -> int:
        """Cells that a row of text has."""
        return self._width - INDENT - _MARGIN

    @property
    def _following(self) -> bool:
        """The view is at the end, or an animation is scrolling it there."""
        return round(self.scroll_target_y) >= self._end_y

    def _rewrite(self, blocks: Sequence[Block]) -> None:
        """Write these replies again, with the present ghosts and folds: long ones in a worker thread."""
        if not self._rewriting and sum(len(block.rounds) for block in blocks) <= REWRITTEN_AT_ONCE:
            for block in blocks:
                block.take_text(block.rewritten(self.text_width, self.show_ghosts), self.show_ghosts)
            self._rewritten(blocks)
            return
        self._stale += [block for block in blocks if block not in self._stale]
        if not self._rewriting:
            self._rewriting = True
            self.run_worker(self._rewrite_stale())

    async def _rewrite_stale(self) -> None:
        while self._stale:
            block, width, ghosts = self._stale.pop(0), self.text_width, self.show_ghosts
            rewritten = await asyncio.to_thread(block.rewritten, width, ghosts)
            if width != self.text_width:  # the window has been resized meanwhile
                rewritten.flow.rewrap(self.text_width)
            if block in self.blocks:
                block.take_text(rewritten, ghosts)
                self._rewritten([block])
        self._rewriting = False

    def _rewritten(self, blocks: Sequence[Block]) -> None:
        if blocks:
            self._changed(self.blocks.index(blocks[0]))

    def _block_at(self, row: int) -> Block:
        return self.blocks[index_at(self.blocks, row)]

    def _changed(self, index: int, row: int = 0) -> bool:
        """Update positions and drop cached rows from a row of a block on. Returns whether the view follows the end."""
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
        return following
