"""The transcript with a cursor on its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from spectui.chat.messages import ChatMessage
from spectui.speculation.records import Round, Token
from spectui.ui.transcript.block_view import Place
from spectui.ui.transcript.blocks import CURSOR, NOTICE, Block, index_at
from spectui.ui.transcript.document import Document
from spectui.ui.transcript.restyling import restyled
from spectui.ui.transcript.token_cursor import TokenCursor
from spectui.ui.transcript.transcript import Transcript


class InspectableTranscript(Transcript):
    """A transcript with a cursor that moves from token to token, and with marked rounds."""

    HELP = """\
## Transcript

A double click on a token, or **{inspect}**, puts the cursor on it: the lines below say where it came from, and how probable
target and draft found it. **{token.before}**, **{token.after}**, **{token.above}** and **{token.below}** move it,
**{round.before}** and **{round.after}** go from round to round, **{stop}** leaves. A click on a message's heading lists the
messages, to edit one or branch from it; on a heading “thinking” it unfolds what the model thought, as **{thinking}** does
for all. Text is selected with the mouse and copied with **Ctrl+C**, as it was written; rejected drafts are never in it.
"""

    BINDING_GROUP_TITLE = "inspector"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Token before", id="token.before", show=False),
        Binding("right", "step(1)", "Token after", id="token.after", show=False),
        Binding("up", "step_row(-1)", "Token above", id="token.above", show=False),
        Binding("down", "step_row(1)", "Token below", id="token.below", show=False),
        Binding("shift+left", "step_round(-1)", "Round before", id="round.before", show=False),
        Binding("shift+right", "step_round(1)", "Round after", id="round.after", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"transcript--marked"}
    DEFAULT_CSS = """
    InspectableTranscript {
        & > .transcript--marked { background: $foreground 18%; }
    }
    """

    @dataclass
    class Inspected(Message):
        """A person has put the cursor on a token, or removed it (None)."""

        token: Token | None
        round: Round | None

    @dataclass
    class HeadingClicked(Message):
        """A person has clicked on the heading of the conversation's `index`th message."""

        index: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._cursor = TokenCursor(self.blocks)
        self._pressed: tuple[int, int] | None = None

    @property
    def inspected(self) -> Token | None:
        """The token under the cursor."""
        return self._cursor.token

    @property
    def last_seen(self) -> int:
        """The index of the last message that can be seen, or of the one above; -1 if there is none."""
        bottom = self.scroll_offset.y + self.size.height
        seen = (each.index for each in reversed(self._messages) if self.blocks[each.first].top < bottom)
        return next(seen, -1)

    def message_at(self, y: int) -> int | None:
        """The index of the message whose heading is at a row of the content; None if there is none."""
        if not 0 <= y < self._height:
            return None
        at = index_at(self.blocks, y)
        starts = (message for message in reversed(self._messages) if message.first <= at)
        message = next(starts, None)
        heading = message is not None and at == message.first + (message.first > 0)
        return message.index if message is not None and heading else None

    def inspect_last(self) -> bool:
        """Put the cursor on the last token. False if there is none."""
        return self._move(self._cursor.put_last)

    def mark_round(self, round: Round) -> bool:
        """Mark a round's tokens and scroll to them. False if the transcript does not have the round."""
        before = self._cursor.rows()
        found = self._cursor.mark(round)
        self._moved(before)
        return found

    def end_inspection(self) -> None:
        """Remove the cursor and all marks."""
        before = self._cursor.rows()
        self._cursor.clear()
        self._moved(before)

    def action_step(self, by: int) -> None:
        """Move the cursor by a token."""
        self._move(lambda: self._cursor.step(by))

    def action_step_row(self, by: int) -> None:
        """Move the cursor by a row; without one, scroll."""
        if self._cursor.token is not None:
            self._move(lambda: self._cursor.step_row(by))
        elif by < 0:
            self.scroll_up()
        else:
            self.scroll_down()

    def action_step_round(self, by: int) -> None:
        """Move the cursor by a round."""
        self._move(lambda: self._cursor.step_round(by))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Note the position: a mouse that moved since has selected text, and has not clicked."""
        self._pressed = event.screen_x, event.screen_y

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the token under the mouse at a double click, or at any while there is a cursor: the five lines that
        tell of it take room from the text. A click beside the text removes it."""
        if self._pressed != (event.screen_x, event.screen_y) or event.button != 1 or event.chain > 2:
            return
        row = event.y + self.scroll_offset.y
        if event.chain == 2:
            event.prevent_default()  # Textual would select the whole transcript
        elif self.fold_at(event.x, row):
            return
        drawn = self._drawn_at(event.x, row) if event.chain == 2 or self.inspected is not None else None
        if drawn is not None and self._move(lambda: self._cursor.put(*drawn)):
            return
        if event.chain == 1:
            self._lose_cursor()
            if (index := self.message_at(row)) is not None:
                self.post_message(self.HeadingClicked(index))

    def _is_read(self, block: Block) -> bool:
        """As text, unless it has the cursor or the marked round, which are among tokens."""
        return block is not self._cursor.block and super()._is_read(block)

    def _rewritten(self, blocks: Sequence[Block], place: Place | None) -> None:
        super()._rewritten(blocks, place)
        if self._cursor.is_folded:
            self._lose_cursor()

    def _lose_cursor(self) -> None:
        lost = self._cursor.token is not None
        self.end_inspection()
        if lost:
            self.post_message(self.Inspected(None, None))

    # The conversation

    def follow(self, messages: Sequence[ChatMessage], same: int, writing: ChatMessage | None) -> None:
        """Show these messages. The first `same` of them are shown already; `writing` is in progress."""
        self.cut(same)
        self._document.rejected, self._document.show_thinking = self.show_rejected, self.show_thinking
        first = len(self.blocks)
        for index, message in enumerate(messages[same:], same):
            if message is writing:
                self._changed(first)  # before: a reply begins where what is above it ends
                first = len(self.blocks)
                self.start_reply(message.model, index, message.rounds)
                self.grow()
            else:
                self._document.show(index, message, message.rounds)
        self._changed(first)
        self._turn()

    def show_document(self, document: Document) -> None:
        """Replace the content by this one's, and scroll to its end."""
        self.clear()
        if document.width != self.text_width:  # the window has been resized since they were made
            document.rewrap(self.text_width)
        self.blocks += document.blocks
        self._messages += document.messages
        self._changed(0)
        self._turn()
        if (document.rejected, document.show_thinking) != (self.show_rejected, self.show_thinking):
            # A person has pressed a key meanwhile.
            self.watch_show_rejected()
            self.watch_show_thinking()

    def add_notice_above(self, text: str) -> None:
        """Add a notice above the reply that is being written, for what was before its text."""
        if self._reply is None:
            self.add_notice(text)
            return
        first = self._messages[-1].first
        self._document.add_remark(text, NOTICE)
        self.blocks.insert(first, self.blocks.pop())
        self._messages[-1].first, self._reply = first + 1, self._reply + 1
        self._changed(first)

    def cut(self, length: int) -> None:
        """Remove the messages after the first `length`, and the cursor."""
        self._lose_cursor()
        super().cut(length)

    def clear(self) -> None:
        """Remove everything."""
        self._lose_cursor()
        super().clear()

    def _marked(self, segments: list[Segment], block: Block, row: int) -> list[Segment]:
        for start, end, is_token in self._cursor.spans(block, row):
            marked = Style(bgcolor=self.get_component_rich_style("transcript--marked").bgcolor)
            style = Style(reverse=True) if is_token else marked
            segments = list(restyled(segments, block.indent + start, block.indent + end, style))
            if not is_token:  # a shade alone is not visible on every terminal
                segments[0] = Segment(f"{'▌':>{block.indent - 1}} ", self._style(CURSOR))
        return segments

    def _move(self, move: Callable[[], bool | None]) -> bool:
        before = self._cursor.rows()
        moved = move() is not False
        if moved:
            self._moved(before)
            self.post_message(self.Inspected(self._cursor.token, self._cursor.round))
        return moved

    def _moved(self, before: range) -> None:
        """Draw rows whose marks have changed, and scroll to the cursor."""
        if self.text_selection is not None and self._cursor.block is not None:
            self.screen.clear_selection()  # it would keep the text in place of the tokens
        self._turn()
        rows = self._cursor.rows()
        for changed in (before, rows):
            for each in changed:
                self._strips.discard(each)
            self.refresh_lines(changed.start, len(changed))
        row = self._cursor.row()
        at = row if row is not None else rows.start if rows else None
        if at is not None and not 0 <= at - self.scroll_offset.y < self.scrollable_content_region.height:
            self.scroll_to(y=max(0, at - self.scrollable_content_region.height // 2), animate=False, force=True)
