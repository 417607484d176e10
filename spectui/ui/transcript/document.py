"""The blocks that a transcript draws, without the widget: a long conversation's are made in a worker thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from spectui.chat.messages import ChatMessage
from spectui.speculation.records import Round
from spectui.store.rounds.packed import PackedRounds
from spectui.ui.transcript.blocks import (
    ASIDE,
    DROPPED,
    HEADING,
    INDENT,
    NOTICE,
    TEXT,
    USER,
    Block,
    MessageStart,
    index_at,
)
from spectui.ui.transcript.wrap import Flow

_NAMES = {"user": "you"}
_KINDS = {"user": USER, "system": NOTICE}


class Document:
    """Messages as blocks of rows, wrapped to `width` cells. As a `MessageReader` it is filled while they are read."""

    def __init__(
        self, width: int, notes: Callable[[str], str], progress: Callable[[float], None] = lambda share: None
    ) -> None:
        """`notes` inserts keys into a sentence. It is called in the thread that fills the document, and so is `progress`."""
        self.width = width
        self.progress = progress
        self._notes = notes
        self.rejected = self.show_thinking = False
        """Show messages with rejected drafts, and with what was thought unfolded."""
        self.blocks: list[Block] = []
        self.messages: list[MessageStart] = []
        self.dropped_until: Block | None = None
        """The empty row behind the turns that are no part of the prompt: it has a line that says so."""

    def rewrap(self, width: int) -> None:
        """Wrap what is drawn to another width."""
        self.width = width
        for block in self.blocks:
            block.shown.rewrap(width)

    def show(self, index: int, message: ChatMessage, rounds: Iterable[Round]) -> None:
        """Add a finished message of the conversation, its `index`th, with all its `rounds` and the line that says why it
        ended."""
        is_reply = message.role == "assistant"
        self.begin(message.model or _NAMES.get(message.role, message.role), is_reply=is_reply, index=index)
        block = self.add_block(rounds=message.rounds)
        if is_reply:
            self._draw(message, rounds, block)
        if not is_reply or (message.content and not message.rounds):  # it has none, or they are damaged
            block = self.blocks[-1] = Block(Flow(self.width))
            block.flow.append([(message.content.strip("\n"), _KINDS.get(message.role, TEXT))])
        elif message.setup is not None and (note := self._notes(message.stop_note(to_drop=index > 2))):
            self.add_remark(note, NOTICE)
        block.is_reply = is_reply

    def _draw(self, message: ChatMessage, rounds: Iterable[Round], block: Block) -> None:
        if message.thinking:
            block.thinking.begin()
        folded = False
        for round in rounds:
            for section in block.draw(round, self.rejected)[1]:
                section.folded = not self.show_thinking
                folded |= section.folded
        if folded:
            block.take_text(block.rewritten(self.width, self.rejected), self.rejected)

    def add_remark(self, text: str, kind: int, mark: str = "") -> int:
        """Add a notice or an error. Returns its block's index."""
        block = self.add_block(copied=False)
        block.mark = mark
        block.flow.append([(text, kind)])
        return len(self.blocks) - 1

    def mark_dropped(self, index: int, mark: str) -> bool:
        """Write this mark before the message with this index, behind what was dropped; 0: remove it. Returns whether that
        changes anything."""
        starts = (each.first for each in reversed(self.messages) if each.index == index and not each.is_reply)
        first = next(starts, None) if index else None
        row = self.blocks[first] if first is not None else None
        if row is (before := self.dropped_until):
            return False
        if before is not None:
            before.flow = Flow(self.width)
        if row is not None:
            row.flow.append([(f"\n{mark}\n", DROPPED)])
        self.dropped_until = row
        return True

    def begin(self, heading: str, *, is_reply: bool, index: int) -> int:
        """Start a message with an empty row and its heading. Returns its first block's index."""
        first = len(self.blocks)
        self.messages.append(MessageStart(first, is_reply, index))
        if self.blocks:
            self.add_block()
        self.add_block(indent=1).flow.append([(heading, HEADING)])
        return first

    def add_block(self, *, indent: int = INDENT, copied: bool = True, rounds: PackedRounds | None = None) -> Block:
        """Add an empty block; `rounds` is the list of those that it draws, which belongs to the conversation."""
        block = Block(
            Flow(self.width), indent=indent, copied=copied, rounds=PackedRounds() if rounds is None else rounds
        )
        self.blocks.append(block)
        return block

    def lay_out(self, index: int) -> tuple[int, int]:
        """Give the blocks from this index on their rows. Returns the first of them, and the number of rows in all."""
        first = self.blocks[index - 1].top + self.blocks[index - 1].shown.height if index else 0
        top = first
        for block in self.blocks[index:]:
            block.top = top
            top += block.shown.height
        return first, top

    @property
    def text(self) -> str:
        """All messages with their headings, without rejected drafts, notices and wrapping."""
        return "\n".join(block.flow.extract(skip=ASIDE) for block in self.blocks if block.copied)

    def text_between(self, start: tuple[int, int] | None, end: tuple[int, int] | None) -> str:
        """The text between two cells (x, y), the second excluded, as it was written; None: from the start, to the end.

        Rejected drafts and indentation are left out, rows of a line joined, and a page's marks there. There must be a block.
        """
        last_row = self.blocks[-1].top + self.blocks[-1].shown.height - 1
        first = min(start[1], last_row) if start else 0
        last = min(end[1], last_row) if end else last_row
        parts = []
        for block in self.blocks[index_at(self.blocks, first) : index_at(self.blocks, last) + 1]:
            begins, ends = 0, None
            if start and block.top <= first:
                begins = block.begins_at(first - block.top, start[0] - block.indent)
            if end and end[1] == last < block.top + block.shown.height:
                ends = block.ends_at(last - block.top, end[0] - block.indent)
            parts.append(block.flow.extract(begins, ends, skip=ASIDE))
        return "\n".join(parts)
