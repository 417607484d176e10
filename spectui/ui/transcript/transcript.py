"""The conversation: each token in the colour of its origin while a reply is written, and then the reply as text.

A row is made when it is first drawn and kept until its text, the width or the theme changes, so the cost of a frame does not
depend on how long the conversation is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip

from spectui.chat.messages import ChatMessage
from spectui.speculation.records import Round, Token
from spectui.store.rounds.packed import PackedRounds
from spectui.ui.keys import with_keys
from spectui.ui.textual_patches.direct_render import FollowingScrollView
from spectui.ui.transcript.document import INDENT, Block, Document
from spectui.ui.transcript.drawing import Drawing, View
from spectui.ui.transcript.marks import Finder, TokenCursor
from spectui.ui.transcript.painter import COMPONENTS, STYLES, Painter
from spectui.ui.transcript.source import ERROR, NOTICE, SIGNS, Source

_MARGIN = 1  # to the right of the text, so that the cursor always has a cell

AT_ONCE_S = 0.01
"""Seconds after which a redraw lets the window take keys before the next block."""


class Transcript(FollowingScrollView, can_focus=False):
    """The messages. The view follows the end unless a person has scrolled up. Text is data: no markup, no control codes.

    A cursor stands on a token, and the tokens of its round are marked. `reader.Reader` moves it.
    """

    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    DEFAULT_CSS = STYLES

    show_tokens: reactive[bool] = reactive(False)
    """Draw finished replies as their tokens too, each in the style of its origin, and not as text."""

    show_rejected: reactive[bool] = reactive(False)
    """Draw rejected drafted tokens at their positions. They are never part of the text."""

    show_thinking: reactive[bool] = reactive(False)
    """Keep sections of thinking unfolded when they end. A click on a heading folds or unfolds one."""

    @dataclass
    class Inspected(Message):
        """A person has put the cursor on a token, or removed it (None)."""

        token: Token | None
        round: Round | None

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.document = Document()
        self._cursor = TokenCursor(self.document)
        self._finder = Finder(self.document)
        self._width = INDENT + self.document.width + _MARGIN
        self._painter = Painter(self, self.document, self._cursor, self._finder)

    @property
    def inspected(self) -> Token | None:
        """The token under the cursor."""
        return self._cursor.token

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it was written: rows of one line are joined, rejected drafts and indentation left out."""
        if not self.document.blocks:
            return None
        start, end = ((at.x, at.y) if at else None for at in (selection.start, selection.end))
        return self.document.text_between(start, end), "\n"

    # The conversation

    def follow(
        self,
        messages: Sequence[ChatMessage],
        same: int,
        writing: ChatMessage | None,
        sources: Mapping[ChatMessage, Source] | None = None,
        branches: Mapping[ChatMessage, Sequence[ChatMessage]] | None = None,
    ) -> None:
        """Show these messages. The first `same` of them are shown already; `writing` is in progress. `sources`: those of the
        replies that have been read. `branches`: for some messages, what there is in their place."""
        self._lose_cursor()
        first = self.document.cut(same)
        for index, message in enumerate(messages[same:], same):
            others = (branches or {}).get(message, ())
            branch = f"‹ {others.index(message) + 1}/{len(others)} ›" if others else ""
            if message is writing:
                self._changed(first)  # before: a reply begins where what is above it ends
                first = len(self.document.blocks)
                self.start_reply(message.model, index, message.rounds, branch=branch)
                self.grow()
            elif note := self.document.add(index, message, (sources or {}).get(message), branch):
                self.document.add_remark(with_keys(self.app, note), NOTICE)
        self._changed(first)
        self._redraw()

    def start_reply(self, name: str, number: int, rounds: PackedRounds, *, branch: str = "") -> None:
        """Begin a reply that grows until `finish_reply`. `rounds` is the conversation's list of its rounds."""
        self.finish_reply()
        first = len(self.document.blocks)
        self.document.growing = reply = self.document.add_reply(name, number, Source(rounds), branch)
        reply.draw(self._view)
        self._changed(first)

    def continue_reply(self) -> bool:
        """Continue the last reply and remove the notices under it. False if it has no rounds."""
        if (reply := self.document.continue_reply()) is not None:
            self._changed(reply)
            self._redraw()
        return reply is not None

    def grow(self) -> None:
        """Draw the rounds that the reply has got since, all at once, so that the view's end is computed once."""
        if (reply := self.document.growing) is None:
            return
        before = reply.source.closed
        reply.source.grow()
        closed = range(before, reply.source.closed)
        # It is not folded while a person reads further up.
        if not self.show_thinking and not self.is_following:
            reply.turned |= {*closed}
        if reply.is_drawn and (reply.drawing.view.grows or not reply.drawing.view.as_text):
            with self._in_place():
                self._changed(self.document.blocks.index(reply), reply.drawing.grow(settles=self.text_selection is None))
        if closed:
            self._redraw()

    def show_guess(self, text: str, *, struck: bool = False) -> None:
        """Show the draft that the target reads after the text that grows, or what it has struck of it; "" removes it."""
        text, painter = text.translate(SIGNS), self._painter
        if self.document.growing is not None and (text, struck) != (painter.guess, painter.struck):
            painter.guess, painter.struck = text, struck
            row = self.document.growing.end - 1
            painter.forget(range(row, row + 1))
            self.refresh_lines(row)

    def finish_reply(self) -> None:
        """End the reply. Nothing happens if none was begun."""
        self.show_guess("")
        if (reply := self.document.growing) is not None:
            self.document.growing = None
            last = reply.drawing.height - 1
            with self._in_place():
                row = reply.drawing.finish() if self.text_selection is None else None
                self._changed(self.document.blocks.index(reply), last if row is None else row)
            self._redraw()

    def add_notice(self, text: str, *, above: bool = False) -> None:
        """Add a notice, which is not in `text`; `above` the reply that is being written, for what was before its text."""
        self._changed(self.document.add_remark(text, NOTICE, above=above))

    def add_error(self, text: str) -> None:
        """Add an error, marked so that it differs from a notice."""
        self._changed(self.document.add_remark(text, ERROR))

    def mark_dropped(self, number: int, mark: str) -> None:
        """Mark that the messages before this one are no part of the prompt, and dim them; 0: all are."""
        if self.document.mark_dropped(number, mark):
            self._changed(0)

    def clear(self) -> None:
        """Remove everything."""
        self._lose_cursor()
        self._changed(self.document.cut(0))

    # How replies are drawn

    @property
    def _view(self) -> View:
        """How replies are drawn that grow."""
        as_text = not self.show_tokens and not self.show_rejected
        return View(self.document.width, as_text, self.show_rejected, self.show_thinking, grows=True)

    def stale(self) -> list[tuple[Block, View]]:
        """The blocks that should be drawn in another way, with that. None while something is selected: it stays what it is."""
        if self.text_selection is not None:
            return []
        top = round(self.scroll_target_y)
        return self.document.stale(self._view, self._cursor.block, range(top, top + self.size.height))

    def watch_show_tokens(self) -> None:
        """Draw all finished replies in the other way. What is selected then would be something else."""
        self.screen.clear_selection()
        self._redraw()

    watch_show_rejected = watch_show_tokens

    def watch_show_thinking(self) -> None:
        """Unfold or fold all sections."""
        for reply in self.document.replies:
            reply.turned = frozenset()
        self.watch_show_tokens()

    def on_resize(self, event: events.Resize) -> None:
        """Draw everything again if the width has changed, keeping the row on top of the window."""
        width, self._width = self._width, self.scrollable_content_region.width
        self.document.width = self._width - INDENT - _MARGIN
        if width != self._width:
            self.screen.clear_selection()  # it is of rows that are no more
        self._changed(len(self.document.blocks))
        self._redraw()

    def selection_updated(self, selection: Selection | None) -> None:
        """Called by Textual when the selection has changed. What is selected stays as it is drawn."""
        self.refresh()
        if selection is None:
            self._redraw()

    def _redraw(self) -> None:
        """Draw each block as it should be now, those near the window first, and keep what is read in place. What takes long is
        drawn block by block, with a turn for keys between."""
        begun, drawn = monotonic(), list[Block]()
        with self._in_place():
            for block, view in self.stale():
                block.drawing = Drawing(block.source, view)
                drawn.append(block)
                if monotonic() - begun > AT_ONCE_S:
                    self.call_after_refresh(self._redraw)
                    break
            if not drawn:
                return
            self._changed(min(map(self.document.blocks.index, drawn)))
        if self._cursor.is_folded:
            self._lose_cursor()
        elif self._cursor.block in drawn:
            self._show_cursor()

    # Places

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Keep what is on top of the window there, or will be when it has scrolled; a view that follows the end goes on."""
        row = round(self.scroll_target_y)
        block = None if self.is_following else self.document.block_at(row)
        start = block.drawing.rows[row - block.top].start if block is not None else 0
        yield
        if block is not None and block in self.document.blocks and (now := block.row_of(start)) != row:
            self.scroll_to(y=now, animate=False, force=True)

    def _changed(self, index: int, row: int = 0) -> None:
        """Update positions and drop cached rows from a row of a block on. A view that follows the end goes on doing so."""
        following, height = self.is_following, self.document.height
        first = self.document.lay_out(index) + row
        changed = max(self.document.height, height)
        self._painter.forget(range(first, changed))
        self.grow_to(Size(self._width, self.document.height), following=following)
        self.refresh_lines(first, max(1, changed - first))  # a view that has moved is drawn whole in any case

    def render_line(self, y: int) -> Strip:
        """Render row `y` of the widget."""
        return next(self.rows(range(y, y + 1)))

    def rows(self, lines: range) -> Iterator[Strip]:
        """Render these rows of the widget."""
        top = self.scroll_offset.y
        return self._painter.rows(range(top + lines.start, top + lines.stop), self.text_selection)

    def notify_style_update(self) -> None:
        """Called by Textual when styles have changed."""
        super().notify_style_update()
        self._painter.clear()

    # The cursor

    def inspect_last(self) -> bool:
        """Put the cursor on the last token. False if there is none."""
        return self._move(self._cursor.put_last)

    def mark_round(self, round: Round | None) -> None:
        """Mark a round's tokens alone and scroll to them, if the transcript has it; None: remove all marks, and the cursor."""
        before = self._cursor.rows()
        self._cursor.mark(round)
        self._moved(before)

    def _move(self, move: Callable[[], bool]) -> bool:
        before = self._cursor.rows()
        moved = move()
        if moved:
            self._moved(before)
            self.post_message(self.Inspected(self._cursor.token, self._cursor.round))
        return moved

    def _moved(self, before: range) -> None:
        """Draw rows whose marks have changed, and scroll to the cursor."""
        if self.text_selection is not None and self._cursor.block is not None:
            self.screen.clear_selection()  # it would keep the text in place of the tokens
        self._redraw()
        for changed in (before, self._cursor.rows()):
            self._painter.forget(changed)
            self.refresh_lines(changed.start, len(changed))
        self._show_cursor()

    def _show_cursor(self) -> None:
        self._show_row(self._cursor.row())

    def _show_row(self, row: int | None) -> None:
        height = self.scrollable_content_region.height
        if row is not None and not 0 <= row - self.scroll_offset.y < height:
            self.scroll_to(y=max(0, row - height // 2), animate=False, force=True)

    def _lose_cursor(self) -> None:
        lost = self._cursor.token is not None
        self.mark_round(None)
        if lost:
            self.post_message(self.Inspected(None, None))
