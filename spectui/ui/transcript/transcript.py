"""The conversation: each token in the colour of its origin while a reply is written, and then the reply as text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from textual import events
from textual.reactive import reactive
from textual.selection import Selection

from spectui.store.rounds.packed import PackedRounds
from spectui.ui.transcript.block_view import BlockView, Place
from spectui.ui.transcript.blocks import ERROR, NOTICE, Block
from spectui.ui.transcript.wrap import Flow

if TYPE_CHECKING:
    from spectui.ui.transcript.markdown.page import Page

REWRITTEN_AT_ONCE = 256
"""Rounds that are written again in the window's thread, which takes some milliseconds."""

LAID_AT_ONCE = 4_000
"""Characters of replies that are laid out as text in the window's thread; of more, as many at a time in another."""

_LAYOUT = "spectui.ui.transcript.markdown.layout"


class Transcript(BlockView):
    """The messages."""

    show_tokens: reactive[bool] = reactive(False)
    """Draw finished replies as their tokens too, each in the style of its origin, and not as text."""

    show_rejected: reactive[bool] = reactive(False)
    """Draw rejected drafted tokens at their positions. They are never part of the text."""

    show_thinking: reactive[bool] = reactive(False)
    """Keep sections of thinking unfolded when they end. A click on a heading folds or unfolds one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._stale: list[Block] = []  # to be written again in a worker thread
        self._rewriting = False
        self._laying = False
        self._layout: Any = None  # its libraries are imported when the first reply has ended

    # Content

    def start_reply(self, name: str, index: int = 0, rounds: PackedRounds | None = None) -> None:
        """Begin a reply that grows until `finish_reply`. `rounds` is the conversation's list of its rounds."""
        self.finish_reply()
        first = self._document.begin(name, is_reply=True, index=index)
        self._reply = len(self.blocks)
        self._document.add_block(rounds=rounds).is_reply = True
        self._changed(first)

    def continue_reply(self) -> bool:
        """Continue the last reply and remove the notices under it. False if it has no rounds."""
        first = self._messages[-1].first if self._messages and self._messages[-1].is_reply else len(self.blocks)
        reply = next((at for at in range(first, len(self.blocks)) if self.blocks[at].rounds), None)
        if reply is not None:
            del self.blocks[reply + 1 :]
            self._reply = reply
            self.blocks[reply].page = None
            self._changed(reply)
        return reply is not None

    def grow(self) -> None:
        """Draw the rounds that the reply has got since, all at once, so that the view's end is computed once."""
        if self._reply is None:
            return
        block = self.blocks[self._reply]
        first, folded, rounds = block.flow.height, False, block.undrawn
        for round in rounds:
            row, ended = block.draw(round, self.show_rejected)
            first = min(first, row)
            for section in ended:
                # Do not fold it while a person reads further up.
                section.folded, folded = not self.show_thinking and self._following, True
        if folded:
            self._rewrite([block])
        elif rounds:
            self._changed(self._reply, first)

    def finish_reply(self) -> None:
        """End the reply. Nothing happens if none was begun."""
        if self._reply is not None:
            reply, self._reply = self._reply, None
            self._changed(reply, self.blocks[reply].flow.height - 1)
            self._turn()

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

    def fold_at(self, x: int, y: int) -> bool:
        """Fold or unfold the section whose heading is at a cell of the content. False if there is none."""
        drawn = self._drawn_at(x, y)
        section = drawn[0].folds.get(drawn[1]) if drawn else None
        if drawn and section:
            section.folded = not section.folded
            self._rewrite([drawn[0]])
        return section is not None

    # What is shown

    def watch_show_tokens(self) -> None:
        """Draw all finished replies in the other way. What is selected then would be something else."""
        self.screen.clear_selection()
        self._turn()

    def watch_show_rejected(self) -> None:
        """Draw tokens while rejected drafts are shown, and wrap the replies that have rejected drafts again."""
        self._turn()
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
        place = self._place()
        self._document.rewrap(self.text_width)
        self._changed(0)
        self._keep(place)
        self._turn()

    def selection_updated(self, selection: Selection | None) -> None:
        """Called by Textual when the selection has changed. What is selected stays as it is drawn."""
        super().selection_updated(selection)
        if selection is None:
            self._turn()

    def _rewrite(self, blocks: Sequence[Block]) -> None:
        """Write these replies again, with rejected drafts and folds as they are now: long ones in a worker thread."""
        if not self._rewriting and sum(len(block.rounds) for block in blocks) <= REWRITTEN_AT_ONCE:
            place = self._place()
            for block in blocks:
                block.take_text(block.rewritten(self.text_width, self.show_rejected), self.show_rejected)
            self._rewritten(blocks, place)
            return
        self._stale += [block for block in blocks if block not in self._stale]
        if not self._rewriting:
            self._rewriting = True
            self.run_worker(self._rewrite_stale())

    async def _rewrite_stale(self) -> None:
        while self._stale:
            block, width, rejected = self._stale.pop(0), self.text_width, self.show_rejected
            rewritten = await asyncio.to_thread(block.rewritten, width, rejected)
            if width != self.text_width:  # the window has been resized meanwhile
                rewritten.flow.rewrap(self.text_width)
            if block in self.blocks:
                place = self._place()
                block.take_text(rewritten, rejected)
                self._rewritten([block], place)
        self._rewriting = False

    def _rewritten(self, blocks: Sequence[Block], place: Place | None) -> None:
        if blocks:
            self._changed(self.blocks.index(blocks[0]))
            self._keep(place)
            self._turn()

    # Tokens or text

    def _is_read(self, block: Block) -> bool:
        """Whether a block should be drawn as text."""
        tokens = self.show_tokens or self.show_rejected or block.shows_rejected
        return block.is_reply and not tokens and (self._reply is None or block is not self.blocks[self._reply])

    def _turn(self, pages: Mapping[Block, Page] = MappingProxyType({})) -> None:
        """Draw each reply as text or as tokens, as it should be now, with these new pages. What is read stays in place."""
        if self.text_selection is not None:
            return  # it stays what it is as long as it is selected
        place, first = self._place(), None
        for index, block in enumerate(self.blocks):
            before = block.shown
            block.is_read, block.page = self._is_read(block), pages.get(block, block.page)
            if block.shown is not before:
                first = index if first is None else first
                if block.shown.width != self.text_width:  # it was not drawn when the window was resized
                    block.shown.rewrap(self.text_width)
        if first is not None:
            self._changed(first)
            self._keep(place)
        missing = self._to_lay_out()
        if missing and not self._laying:
            if self._layout is not None and sum(len(block.flow.text) for block in missing) <= LAID_AT_ONCE:
                self._turn({block: self._layout.page_of(block.flow, self.text_width) for block in missing})
            else:
                self._laying = True
                self.run_worker(self._lay_out())

    def _to_lay_out(self) -> list[Block]:
        """Replies to draw as text, from the end on, that have no page for this width."""
        return [block for block in reversed(self.blocks) if block.is_read and (block.page is None or block.page.is_old)]

    async def _lay_out(self) -> None:
        """Lay out replies as text in a worker thread, some at a time."""
        self._layout = self._layout or await asyncio.to_thread(import_module, _LAYOUT)
        while self.text_selection is None and (missing := self._to_lay_out()):
            flows, width, size = dict[Block, Flow](), self.text_width, 0
            for block in missing:
                if flows and size + len(block.flow.text) > LAID_AT_ONCE:
                    break
                flows[block], size = block.flow, size + len(block.flow.text)
            made = await asyncio.to_thread(self._layout.pages_of, list(flows.values()), width)
            pages = {
                block: page
                for block, page in zip(flows, made, strict=True)
                if block.flow is flows[block] and page.stands_for(block.flow) and width == self.text_width
            }
            self._turn(pages)
        self._laying = False
