"""The blocks of rows that a transcript draws. No widgets."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import partial

from spectui.chat.messages import ChatMessage
from spectui.ui.transcript.drawing import Drawing, View
from spectui.ui.transcript.source import DROPPED, HEADING, NOTICE, TEXT, USER, Source
from spectui.ui.transcript.wrap import ASIDE, Piece

INDENT = 3
KEPT_IN_MIND = 12
"""Latest messages that a reply's code may be an edit of."""
_NAMES = {"user": "you"}
_KINDS = {"user": USER, "system": NOTICE}


@dataclass(slots=True, eq=False)
class Block:
    """Rows that belong together: a message's heading, its text, or a notice below it."""

    source: Source
    message: int
    """The number of its message in the conversation. A prompt without a reply has that of the next one."""
    of_reply: bool
    """That message is a reply."""
    drawing: Drawing
    is_said: bool = True
    """It is a part of the conversation, and not a notice."""
    turned: frozenset[int] = field(default_factory=frozenset)
    """The folds that a person has folded or unfolded, in another way than the others."""
    top: int = 0

    @property
    def indent(self) -> int:
        """Cells to the left of the rows."""
        return 1 if self.source.kind == HEADING else INDENT

    @property
    def end(self) -> int:
        """The first row after it."""
        return self.top + self.drawing.height

    @property
    def is_drawn(self) -> bool:
        """Whether its source was drawn. A long reply is "…" until then."""
        return self.drawing.source is self.source

    def draw(self, view: View) -> None:
        """Draw it in this way."""
        self.drawing = Drawing(self.source, view._replace(turned=self.turned))

    def shows(self, token: int) -> bool:
        """Whether a token is drawn and not folded."""
        return self.is_drawn and not self.drawing.hides(token)

    def row_of(self, place: int) -> int:
        """The row of the transcript with a place of the source."""
        return self.top + self.drawing.row_of(place)

    def token_at(self, row: int, cell: int) -> int | None:
        """The number of the token at a cell of the transcript; None if there is none."""
        return self.drawing.token_at(row - self.top, cell - self.indent) if self.source.is_reply else None

    def fold_at(self, row: int, cell: int) -> int | None:
        """The number of the fold whose line is at a cell of the transcript; None if there is none."""
        return self.drawing.fold_at(row - self.top, cell - self.indent)


class Document:
    """Messages as blocks of rows, wrapped to `width` cells. What changes it returns the first block that has changed."""

    def __init__(self) -> None:
        self.width = 80
        self.blocks: list[Block] = []
        self.growing: Block | None = None
        """The reply that is being written."""
        self.height = 0
        self._dropped: Block | None = None  # the mark below what was dropped

    # Changes

    def add(self, number: int, message: ChatMessage, source: Source | None, branch: str = "") -> str:
        """Add a finished message, the conversation's `number`th, with what was read of a reply. Returns why it ended."""
        heading = message.model or _NAMES.get(message.role, message.role)
        if message.role == "assistant" and (message.rounds or not message.content):
            self.add_reply(heading, number, source or Source(message.rounds), branch)
            return message.stop_note(to_drop=number > 2)
        kind = _KINDS.get(message.role, TEXT)  # the rounds of a reply may be damaged
        text = Source(text=message.content.strip("\n"), kind=kind, folds=True)
        self._add(heading, text, number, branch, of_reply=message.role == "assistant")
        return ""

    def add_reply(self, heading: str, number: int, source: Source, branch: str = "") -> Block:
        """Add a reply, the conversation's `number`th message."""
        reply = self._add(heading, source, number, branch, of_reply=True)
        source.earlier = partial(self._said_before, reply)
        return reply

    def _said_before(self, reply: Block) -> list[str]:
        above = self.blocks[: self.blocks.index(reply)] if reply in self.blocks else []
        said = [block.source.text for block in above if block.is_said and block.source.kind != HEADING]
        return said[-KEPT_IN_MIND:]

    def _add(self, heading: str, source: Source, number: int, branch: str, *, of_reply: bool) -> Block:
        above = "\n" if self.blocks else ""
        self._insert(len(self.blocks), Source(text=above + heading, kind=HEADING, branch=branch), number, of_reply)
        return self._insert(len(self.blocks), source, number, of_reply)

    def add_remark(self, text: str, kind: int, *, above: bool = False) -> int:
        """Add a notice or an error; `above` the reply that is being written, if there is one."""
        at = len(self.blocks)
        if above and self.growing is not None:
            at = next(at for at, block in enumerate(self.blocks) if block.message == self.growing.message)
        before = self.blocks[at - 1] if at else None
        number, of_reply = (before.message, before.of_reply) if before is not None else (-1, False)
        self._insert(at, Source(text=text, kind=kind), number, of_reply, is_said=False)
        return at

    def _insert(self, at: int, source: Source, number: int, of_reply: bool, *, is_said: bool = True) -> Block:
        drawing = Drawing(Source() if source.is_reply else source, View(self.width))
        if source.is_reply:
            drawing.append([Piece("…", NOTICE, 0, ASIDE)])
        block = Block(source, number, of_reply, drawing, is_said)
        self.blocks.insert(at, block)
        return block

    def mark_dropped(self, number: int, mark: str) -> bool:
        """Write this mark above the prompt with this number, below what was dropped; 0: remove it. Returns whether that changes
        anything."""
        first = self._start_of_prompt(number)
        if self._dropped is (self.blocks[first - 1] if first else None):
            return False
        if self._dropped is not None:
            self.blocks.remove(self._dropped)
            first, self._dropped = self._start_of_prompt(number), None
        if first:
            mark = f"\n{mark}"
            self._dropped = self._insert(first, Source(text=mark, kind=DROPPED), number, of_reply=False, is_said=False)
        return True

    def _start_of_prompt(self, number: int) -> int:
        """The block that is the last such prompt's heading; 0 if there is none above which something stands."""
        starts = (
            at
            for at in range(len(self.blocks) - 1, 0, -1)
            if self.blocks[at].message == number > 0 and self.blocks[at].source.kind == HEADING and not self.blocks[at].of_reply
        )
        return next(starts, 0)

    def is_dropped(self, row: int) -> bool:
        """Whether a row is above the mark of what was dropped."""
        return self._dropped is not None and row < self._dropped.top

    def continue_reply(self) -> int | None:
        """Let the last reply grow again, without the notices under it. None if it has no rounds."""
        for at in range(len(self.blocks) - 1, -1, -1):
            block = self.blocks[at]
            if block.message != self.blocks[-1].message:
                break
            if block.source.rounds:
                del self.blocks[at + 1 :]
                self.growing = block
                return at
        return None

    def cut(self, length: int) -> int:
        """Remove all messages after the first `length`, and the notices under them, but for those of a reply that has no text:
        they tell why, or came while it was waited for."""
        first = next((at for at, block in enumerate(self.blocks) if block.message >= length), len(self.blocks))
        removed = self.blocks[first:]
        if not removed:
            return first
        del self.blocks[first:]
        self.growing = None
        if self._dropped in removed:
            self._dropped = None
        if removed[0].of_reply and not any(block.source.rounds for block in removed):
            for block in removed:
                if not block.is_said:
                    self.add_remark(block.source.text, block.source.kind)
        return first

    def lay_out(self, index: int) -> int:
        """Give the blocks from this index on their rows. Returns the first of these rows."""
        first = self.height = self.blocks[index - 1].end if index else 0
        for block in self.blocks[index:]:
            block.top = self.height
            self.height = block.end
        return first

    @property
    def replies(self) -> list[Block]:
        """The replies that rounds have written."""
        return [block for block in self.blocks if block.source.is_reply]

    def stale(self, view: View, inspected: Block | None, seen: range) -> list[tuple[Block, View]]:
        """The blocks that should be drawn in another way, with that: those nearest to the rows that are seen first. What is
        `inspected` is tokens in any view, and of what is being written the last block."""
        stale = []
        for block in self.blocks:
            as_text = view.as_text and block is not inspected
            wanted = view._replace(as_text=as_text, turned=block.turned, grows=block is self.growing)
            if not block.is_drawn or block.drawing.view != wanted.of(block.source):
                stale.append((block, wanted))
        return sorted(stale, key=lambda place: max(seen.start - place[0].end, place[0].top - seen.stop, 0))

    # Places

    def block_at(self, row: int) -> Block | None:
        """The block with a row."""
        if not 0 <= row < self.height:
            return None
        return self.blocks[bisect_right(self.blocks, row, key=lambda block: block.top) - 1]

    def heading_at(self, row: int) -> Block | None:
        """The heading in a row; None if there is none."""
        block = self.block_at(row)
        if block is None or block.source.kind != HEADING or (row == block.top and block.source.text.startswith("\n")):
            return None
        return block

    def last_above(self, row: int) -> int:
        """The number of the last message that begins above a row; -1 if there is none."""
        return max((block.message for block in self.blocks if block.top < row), default=-1)

    def branched_above(self, row: int) -> Block | None:
        """The last heading above a row with branches; None if there is none."""
        return next((block for block in reversed(self.blocks) if block.source.branch and block.top < row), None)

    # Text

    @property
    def text(self) -> str:
        """All messages with their headings, as they were written, without what is folded and without notices."""
        return "\n".join(block.drawing.copied() for block in self.blocks if block.is_said)

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
                begins = block.drawing.begins(first - block.top, start[0] - block.indent)
            if end and end[1] == last < block.end:
                ends = block.drawing.ends(last - block.top, end[0] - block.indent)
            parts.append(block.drawing.copied(begins, ends))
        return "\n".join(parts)
