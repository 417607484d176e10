"""The blocks that a transcript draws, without the widget: a long conversation's are made in a worker thread."""

from __future__ import annotations

from spectui.store.rounds.packed import PackedRounds
from spectui.ui.transcript.blocks import HEADING, INDENT, NOTICE, TEXT, USER, Block, MessageStart
from spectui.ui.transcript.wrap import Flow

_NAMES = {"user": "you"}
_KINDS = {"user": USER, "system": NOTICE}


class Document:
    """Messages as blocks of rows, wrapped to `width` cells."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.blocks: list[Block] = []
        self.messages: list[MessageStart] = []

    def rewrap(self, width: int) -> None:
        """Wrap everything to another width."""
        self.width = width
        for block in self.blocks:
            block.flow.rewrap(width)

    def add_message(self, role: str, text: str, name: str | None = None, index: int = 0) -> int:
        """Add a message, the conversation's `index`th, under a heading. Returns its first block's index."""
        first = self.begin(name or _NAMES.get(role, role), is_reply=role == "assistant", index=index)
        self.add_block().flow.append([(text.strip("\n"), _KINDS.get(role, TEXT))])
        return first

    def add_reply(
        self, name: str, index: int, rounds: PackedRounds, *, opened_thinking: bool, ghosts: bool, show_thinking: bool
    ) -> None:
        """Add a finished reply with all its rounds. `opened_thinking`: the prompt had begun the model's thinking."""
        self.begin(name, is_reply=True, index=index)
        block = self.add_block(rounds=rounds)
        if opened_thinking:
            block.thinking.begin()
        folded = False
        for round in rounds:
            for section in block.add(round, ghosts)[1]:
                section.folded = not show_thinking
                folded |= section.folded
        if folded:
            block.take_text(block.rewritten(self.width, ghosts), ghosts)

    def add_remark(self, text: str, kind: int, mark: str = "") -> int:
        """Add a notice or an error. Returns its block's index."""
        block = self.add_block(copied=False)
        block.mark = mark
        block.flow.append([(text, kind)])
        return len(self.blocks) - 1

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
        block = Block(Flow(self.width), indent, copied, rounds=PackedRounds() if rounds is None else rounds)
        self.blocks.append(block)
        return block
