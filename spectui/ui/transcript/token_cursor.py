"""The cursor on one token of the transcript, and the round that is marked. No widgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectui.speculation.records import Round, Token
from spectui.ui.transcript.blocks import Block, index_at


class TokenCursor:
    """The cursor is on a token of one of the blocks, or nowhere. A round is marked with it, or alone."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """`blocks` is the transcript's own list, so the cursor can move to what is appended later."""
        self._blocks = blocks
        self.block: Block | None = None
        """The block with the token or the marked round."""
        self._number = 0
        self._index: int | None = None
        self.token: Token | None = None
        self.round: Round | None = None

    @property
    def is_folded(self) -> bool:
        """The token under the cursor is in a folded section."""
        return self.token is not None and self._piece() is None

    def put(self, block: Block, piece: int) -> bool:
        """Move to the token that this piece shows. False if it shows none."""
        found = block.index_of(piece)
        if found is not None:
            self.block, (self._number, self._index) = block, found
            self.round = block.rounds[self._number]
            self.token = self.round.tokens[self._index]
        return found is not None

    def put_last(self) -> bool:
        """Move to the last token. False if there is none."""
        return self._go(reversed(self._blocks), -1)

    def mark(self, round: Round) -> bool:
        """Mark a round without a cursor. False if the transcript does not have it."""
        self.clear()
        for block in reversed(self._blocks):
            if (number := block.number_of(round)) is not None:
                self.block, self._number, self.round = block, number, round
                return True
        return False

    def clear(self) -> None:
        """Remove the cursor and the mark."""
        self.block = self._index = self.token = self.round = None

    def step(self, by: int) -> bool:
        """Move to the next (1) or the previous (-1) token. False at the end."""
        piece = self._piece()
        if self.block is None or piece is None:
            return False
        rest = range(piece + 1, self.block.pieces) if by > 0 else range(piece - 1, -1, -1)
        if any(self.put(self.block, each) for each in rest):
            return True
        index = self._blocks.index(self.block)
        return self._go(self._blocks[index + 1 :] if by > 0 else reversed(self._blocks[:index]), by)

    def step_round(self, by: int) -> bool:
        """Move to the first token of the next (1) or the previous (-1) round."""
        here = self.block, self._number
        while self.step(by):
            if (self.block, self._number) != here:
                while by < 0 and self._index and self.step(-1):
                    pass
                return True
        return False

    def step_row(self, by: int) -> bool:
        """Move to the token below (1) or above (-1)."""
        piece = self._piece()
        if self.block is None or piece is None:
            return False
        row, cell = self.block.flow.cell_of(piece)
        cell += self.block.indent
        end = self._blocks[-1].top + self._blocks[-1].shown.height
        for y in range(self.block.top + row + by, end if by > 0 else -1, by):
            block = self._blocks[index_at(self._blocks, y)]
            for x in range(cell, block.indent - 1, -1) if block.rounds else ():
                under = block.piece_at(y - block.top, x - block.indent)
                if under is not None and self.put(block, under):
                    return True
        return False

    def rows(self) -> range:
        """The transcript's rows that have a mark."""
        if self.block is None or self.round is None:
            return range(0)
        start, end = self._span(self.block.pieces_of(self._number))
        flow, top = self.block.flow, self.block.top
        return range(top + flow.row_of(start), top + flow.row_of(max(start, end - 1)) + 1)

    def row(self) -> int | None:
        """The transcript's row with the cursor."""
        piece = self._piece()
        return None if self.block is None or piece is None else self.block.top + self.block.flow.cell_of(piece)[0]

    def spans(self, block: Block, row: int) -> Iterator[tuple[int, int, bool]]:
        """The marked ranges in a row of a block: first drawn character, end, and whether it is the token under the cursor."""
        if block is not self.block or self.round is None:
            return
        pieces = self.block.pieces_of(self._number)
        own = self._piece()
        for wanted, is_token in ((pieces, False), (range(own, own + 1) if own is not None else range(0), True)):
            if not wanted:
                continue
            start, end = self._span(wanted)
            first, behind = block.flow.source(row)
            if (start < behind and end > first) or (start == end and block.flow.row_of(start) == row):
                drawn = block.flow.drawn_at(row, max(start, first)), block.flow.drawn_at(row, min(end, behind))
                # A token without text, such as the end of the reply, still needs a cell for the cursor to be seen.
                yield drawn[0], max(drawn[1], drawn[0] + is_token), is_token

    def _piece(self) -> int | None:
        """The piece under the cursor; None if there is no cursor, or its token is in a folded section."""
        if self.block is None or self._index is None:
            return None
        return self.block.piece_of(self._number, self._index)

    def _span(self, pieces: range) -> tuple[int, int]:
        assert self.block is not None
        return self.block.flow.span_of(pieces[0])[0], self.block.flow.span_of(pieces[-1])[1]

    def _go(self, blocks: Iterator[Block] | Sequence[Block], by: int) -> bool:
        for block in blocks:
            pieces = range(block.pieces)
            if any(self.put(block, piece) for piece in (pieces if by > 0 else reversed(pieces))):
                return True
        return False
