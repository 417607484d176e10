"""The blocks of rows that a transcript draws. No widgets."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from spectui.chat.figures.format import about_tokens, count
from spectui.chat.messages import ChatMessage
from spectui.text import safe
from spectui.ui.transcript.drawing import Drawing, View
from spectui.ui.transcript.source import DROPPED, FOLD, HEADING, NOTICE, TEXT, USER, Source
from spectui.ui.transcript.wrap import ASIDE, Flow, Piece

INDENT = 3
LONG_LINES, FOLDED_LINES = 30, 3
"""Lines from which a prompt is folded, and those that are seen then."""
_NAMES = {"user": "you"}
_KINDS = {"user": USER, "system": NOTICE}


@dataclass(slots=True, eq=False)
class Block:
    """Rows that belong together: a heading, a text, a notice, or the empty row between messages."""

    flow: Flow
    """What is drawn."""
    text: str = ""
    """The text as it was written."""
    indent: int = INDENT
    is_said: bool = True
    """It is a part of the conversation, and not a notice."""
    mark: str = ""
    """Drawn in the indentation of the first row."""
    top: int = 0

    @property
    def end(self) -> int:
        """The first row after it."""
        return self.top + self.flow.height

    def rewrap(self, width: int) -> None:
        """Wrap the rows again, to another width."""
        self.flow.rewrap(width)

    def text_between(self, start: int = 0, end: int | None = None) -> str:
        """The text of what is drawn between two offsets of the flow, as it was written."""
        return self.copied(self.flow.begins(start), self.flow.size if end is None else self.flow.ends(end))

    def copied(self, start: int, end: int) -> str:
        """A part of the text as it was written."""
        return self.text[start:end]


class LongText(Block):
    """A long prompt: its first lines, and how many more there are; all of them when it is unfolded."""

    __slots__ = ("is_folded", "kind")

    def __init__(self, text: str, kind: int, width: int) -> None:
        super().__init__(Flow(width), safe(text))
        self.kind = kind
        self.is_folded = False
        self.turn()

    def turn(self) -> None:
        """Fold or unfold it. What is copied of its end has what is folded too."""
        self.is_folded = not self.is_folded
        flow, lines = Flow(self.flow.width), self.text.split("\n")
        if self.is_folded:
            seen = "\n".join([*lines[:FOLDED_LINES], ""])
            sign = f"▸ {count(len(lines) - FOLDED_LINES)} more lines, {about_tokens(len(self.text))} in all"
            flow.append([Piece(seen, self.kind), Piece(sign, FOLD, len(seen), ASIDE)])
        else:
            flow.append([Piece(f"▾ {count(len(lines))} lines\n", FOLD, 0, ASIDE), Piece(self.text, self.kind)])
        flow.size = len(self.text)
        self.flow = flow

    def has_sign(self, row: int, cell: int) -> bool:
        """Whether the line that folds and unfolds it is at a cell of the transcript."""
        offset = self.flow.at_cell(row - self.top, cell - self.indent)
        return offset is not None and self.flow.is_aside(offset)


class Reply(Block):
    """What a reply's rounds have written. It is "…" until it is drawn."""

    __slots__ = ("drawing", "source", "turned")

    def __init__(self, source: Source, width: int) -> None:
        super().__init__(Flow(width))
        self.flow.append([Piece("…", NOTICE, 0, ASIDE)])
        self.source = source
        self.drawing: Drawing | None = None
        self.turned: frozenset[int] = frozenset()
        """The sections of thinking that a person has folded or unfolded, in another way than the others."""

    def draw(self, drawing: Drawing) -> None:
        """Draw it in this way, with what was written meanwhile."""
        self.drawing, self.flow = drawing, drawing.flow
        if not drawing.view.as_text:
            drawing.grow()

    def rewrap(self, width: int) -> None:
        """Wrap the rows again, to another width. As text the reply is drawn again for it."""
        super().rewrap(width)
        if self.drawing is not None and not self.drawing.view.as_text:
            self.drawing.view = self.drawing.view._replace(width=width)

    def copied(self, start: int, end: int) -> str:
        """A part of the text as it was written, without what is folded."""
        return self.drawing.copied(start, end) if self.drawing is not None else ""

    def shows(self, token: int) -> bool:
        """Whether a token is drawn and not folded."""
        return self.drawing is not None and not self.drawing.hides(token)

    def drawn_span(self, *tokens: int) -> tuple[int, int]:
        """Where neighbouring tokens are drawn: offsets of the flow."""
        start, end = self.source.span(tokens[0])[0], self.source.span(tokens[-1])[1]
        begins = self.flow.offset_of(start)
        return begins, self.flow.offset_of(end - 1) + 1 if end > start else begins

    def token_at(self, row: int, cell: int) -> int | None:
        """The number of the token that is drawn at a cell of the transcript; None if there is none."""
        offset = self.flow.at_cell(row - self.top, cell - self.indent)
        return None if offset is None or self.flow.is_aside(offset) else self.source.token_at(self.flow.at(offset))

    def section_at(self, row: int, cell: int) -> int | None:
        """The number of the section of thinking whose heading is at a cell of the transcript."""
        offset = self.flow.at_cell(row - self.top, cell - self.indent)
        return None if offset is None or self.drawing is None else self.drawing.section_at(offset)


class MessageStart(NamedTuple):
    """Where a message's blocks start, and its number in the conversation. A prompt without a reply has that of the next one."""

    first: int
    number: int
    is_reply: bool


class Place(NamedTuple):
    """A row of the transcript, and what of a block's source begins there."""

    row: int
    block: Block
    start: int


class Document:
    """Messages as blocks of rows, wrapped to `width` cells. What changes it returns the first block that has changed."""

    def __init__(self) -> None:
        self.width = 80
        self.blocks: list[Block] = []
        self.growing: Reply | None = None
        """The reply that is being written."""
        self.height = 0
        self._messages: list[MessageStart] = []
        self._dropped_until: Block | None = None

    # Changes

    def begin(self, heading: str, *, is_reply: bool, index: int) -> int:
        """Start a message with an empty row and its heading."""
        first = len(self.blocks)
        self._messages.append(MessageStart(first, index, is_reply))
        if self.blocks:
            self.blocks.append(Block(Flow(self.width)))
        self._add(heading, HEADING, indent=1)
        return first

    def add(self, index: int, message: ChatMessage, source: Source | None) -> str:
        """Add a finished message, the conversation's `index`th, with what was read of a reply. Returns why it ended."""
        is_reply = message.role == "assistant"
        self.begin(message.model or _NAMES.get(message.role, message.role), is_reply=is_reply, index=index)
        if not is_reply or (message.content and not message.rounds):  # it has none, or they are damaged
            text, kind = message.content.strip("\n"), _KINDS.get(message.role, TEXT)
            if text.count("\n") < LONG_LINES:
                self._add(text, kind)
            else:
                self.blocks.append(LongText(text, kind, self.width))
            return ""
        self.add_reply(source or Source(message.rounds, thinking=message.reply.thinking))
        return message.stop_note(to_drop=index > 2)

    def add_reply(self, source: Source) -> Reply:
        """Add a reply."""
        reply = Reply(source, self.width)
        self.blocks.append(reply)
        return reply

    def add_remark(self, text: str, kind: int, mark: str = "", *, above: bool = False) -> int:
        """Add a notice or an error; `above` the reply that is being written, if there is one."""
        self._add(text, kind, is_said=False, mark=mark)
        if not above or self.growing is None:
            return len(self.blocks) - 1
        first, index, is_reply = self._messages[-1]
        self.blocks.insert(first, self.blocks.pop())
        self._messages[-1] = MessageStart(first + 1, index, is_reply)
        return first

    def _add(self, text: str, kind: int, *, indent: int = INDENT, is_said: bool = True, mark: str = "") -> None:
        block = Block(Flow(self.width), indent=indent, is_said=is_said, mark=mark)
        block.flow.append([Piece(text, kind)])
        block.text = block.flow.text
        self.blocks.append(block)

    def mark_dropped(self, index: int, mark: str) -> bool:
        """Write this mark before the message with this index, below what was dropped; 0: remove it. Returns whether that
        changes anything."""
        starts = (each.first for each in reversed(self._messages) if each.number == index and not each.is_reply)
        first = next(starts, None) if index else None
        row = self.blocks[first] if first is not None else None
        if row is (before := self._dropped_until):
            return False
        if before is not None:
            before.flow = Flow(self.width)
        if row is not None:
            row.flow.append([Piece(f"\n{mark}\n", DROPPED, 0, ASIDE)])
        self._dropped_until = row
        return True

    def is_dropped(self, row: int) -> bool:
        """Whether a row is above the mark of what was dropped."""
        return self._dropped_until is not None and row < self._dropped_until.top

    def continue_reply(self) -> int | None:
        """Let the last reply grow again, without the notices under it. None if it has no rounds."""
        first = self._messages[-1].first if self._messages and self._messages[-1].is_reply else len(self.blocks)
        for at, block in enumerate(self.blocks[first:], first):
            if isinstance(block, Reply) and block.source.rounds:
                del self.blocks[at + 1 :]
                self.growing = block
                return at
        return None

    def cut(self, length: int) -> int:
        """Remove all messages after the first `length`, and the notices under them, but for those of a reply that has no text:
        they tell why, or came while it was waited for."""
        first = len(self.blocks)
        while self._messages and self._messages[-1].number >= length:
            first, _, is_reply = self._messages.pop()
            removed = self.blocks[first:]
            empty = is_reply and not any(isinstance(block, Reply) and block.source.rounds for block in removed)
            self.blocks[first:] = [block for block in removed if empty and not block.is_said]
            self.growing = None
        return first

    def lay_out(self, index: int) -> int:
        """Give the blocks from this index on their rows. Returns the first of these rows."""
        first = self.height = self.blocks[index - 1].end if index else 0
        for block in self.blocks[index:]:
            block.top = self.height
            self.height = block.end
        return first

    @property
    def replies(self) -> list[Reply]:
        """The replies that rounds have written."""
        return [block for block in self.blocks if isinstance(block, Reply)]

    def stale(self, view: View, inspected: Reply | None, seen: range) -> list[tuple[Reply, View]]:
        """The replies that should be drawn in another way, with that: those nearest to the rows that are seen first. What is
        being written or `inspected` is tokens in any view."""
        stale = []
        for reply in self.replies:
            wanted = view._replace(as_text=view.as_text and reply not in (self.growing, inspected), turned=reply.turned)
            if reply.source.written[0] or reply.drawing is not None:
                wanted = wanted.of(reply.source)
            if reply.drawing is None or reply.drawing.view != wanted:
                stale.append((reply, wanted))
        return sorted(stale, key=lambda each: max(seen.start - each[0].end, each[0].top - seen.stop, 0))

    # Places

    def block_at(self, row: int) -> Block | None:
        """The block with a row."""
        if not 0 <= row < self.height:
            return None
        return self.blocks[bisect_right(self.blocks, row, key=lambda block: block.top) - 1]

    def place_of(self, row: int) -> Place | None:
        """What is in a row, wherever that is drawn later."""
        block = self.block_at(row)
        return (
            None if block is None else Place(row, block, block.flow.begins(block.flow.span_of_row(row - block.top)[0]))
        )

    def row_of(self, place: Place) -> int | None:
        """The row in which a place is now; None if it is no more."""
        flow = place.block.flow
        return place.block.top + flow.row_of(flow.offset_of(place.start)) if place.block in self.blocks else None

    def message_at(self, row: int) -> int | None:
        """The index of the message whose heading is in a row; None if there is none."""
        block = self.block_at(row)
        heading = (each for each in self._messages if self.blocks[each.first + (each.first > 0)] is block)
        return next((each.number for each in heading), None)

    def last_above(self, row: int) -> int:
        """The index of the last message that begins above a row; -1 if there is none."""
        above = (each.number for each in reversed(self._messages) if self.blocks[each.first].top < row)
        return next(above, -1)

    # Text

    @property
    def text(self) -> str:
        """All messages with their headings, as they were written, without what is folded and without notices."""
        return "\n".join(block.text_between() for block in self.blocks if block.is_said)

    def text_between(self, start: tuple[int, int] | None, end: tuple[int, int] | None) -> str:
        """The text between two cells (x, y), the second excluded, as it was written; None: from the start, to the end.

        Indentation and what is drawn beside the text are left out, rows of a line joined, and marks of Markdown there.
        """
        first = min(start[1], self.height - 1) if start else 0
        last = min(end[1], self.height - 1) if end else self.height - 1
        parts = []
        for block in self.blocks:
            if block.end <= first or block.top > last:
                continue
            begins, ends = 0, None
            if start and block.top <= first:
                begins = block.flow.offset_at(first - block.top, start[0] - block.indent)
            if end and end[1] == last < block.end:
                ends = block.flow.offset_at(last - block.top, end[0] - block.indent)
            parts.append(block.text_between(begins, ends))
        return "\n".join(parts)
