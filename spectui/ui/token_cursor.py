"""Where a person looks: the cursor on one token of the transcript, and the round whose tokens are marked. No widgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectui.speculation.records import Round, Token
from spectui.ui.blocks import Block, index_at


class TokenCursor:
    """Stands on a token of one of the blocks, or nowhere; `round` is marked with it, or alone."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """`blocks` is the transcript's own list: what is appended to it can be walked to."""
        self._blocks = blocks
        self._block: Block | None = None
        self.token: Token | None = None
        self.round: Round | None = None

    @property
    def is_folded(self) -> bool:
        """The token under it is not drawn any more."""
        if self._block is None or self.token is None:
            return False
        pieces = self._block.pieces_of(self._block.round_of(self.token))
        return all(self._block.tokens[piece] is not self.token for piece in pieces)

    def put(self, block: Block, token: Token) -> None:
        """Stand on this token."""
        self._block, self.token, self.round = block, token, block.round_of(token)

    def put_last(self) -> bool:
        """Stand on the last token of all. False if there is none."""
        return self._go(reversed(self._blocks), -1)

    def mark(self, round: Round) -> bool:
        """Mark a round without standing in it. False if the transcript does not hold it."""
        self.clear()
        for block in reversed(self._blocks):
            if block.holds(round):
                self._block, self.round = block, round
                return True
        return False

    def clear(self) -> None:
        """Stand nowhere."""
        self._block = self.token = self.round = None

    def step(self, by: int) -> bool:
        """Go to the next (1) or the last (-1) token. False at the end."""
        if self._block is None or self.token is None:
            return False
        here = self._block.tokens
        piece = self._block.piece_of(self.token) + by
        while 0 <= piece < len(here):
            if (token := here[piece]) is not None:
                self.put(self._block, token)
                return True
            piece += by
        index = self._blocks.index(self._block)
        return self._go(self._blocks[index + 1 :] if by > 0 else reversed(self._blocks[:index]), by)

    def step_round(self, by: int) -> bool:
        """Go to the first token of the next (1) or the last (-1) round."""
        if self._block is None or self.token is None:
            return False
        here = self.round
        while self.step(by):
            if self.round is not here:
                while by < 0 and self.token is not self.round.tokens[0]:
                    self.step(-1)
                return True
        return False

    def step_row(self, by: int) -> bool:
        """Go to the token that stands below (1) or above (-1)."""
        if self._block is None or self.token is None:
            return False
        row, cell = self._block.flow.place_of(self._block.piece_of(self.token))
        cell += self._block.indent
        end = self._blocks[-1].top + self._blocks[-1].flow.height
        for y in range(self._block.top + row + by, end if by > 0 else -1, by):
            block = self._blocks[index_at(self._blocks, y)]
            for x in range(cell, block.indent - 1, -1) if block.tokens else ():
                piece = block.flow.piece_at(y - block.top, x - block.indent)
                if piece is not None and (token := block.tokens[piece]) is not None:
                    self.put(block, token)
                    return True
        return False

    def rows(self) -> range:
        """The transcript's rows in which something is marked."""
        if self._block is None or self.round is None:
            return range(0)
        start, end = self._span(self._block.pieces_of(self.round))
        flow, top = self._block.flow, self._block.top
        return range(top + flow.row_of(start), top + flow.row_of(max(start, end - 1)) + 1)

    def row(self) -> int | None:
        """The row of the transcript on which the cursor stands."""
        if self._block is None or self.token is None:
            return None
        return self._block.top + self._block.flow.place_of(self._block.piece_of(self.token))[0]

    def spans(self, block: Block, row: int) -> Iterator[tuple[int, int, bool]]:
        """What is marked in a row of a block: (first, behind the last) drawn character, and whether it is the token itself."""
        if block is not self._block or self.round is None:
            return
        pieces = self._block.pieces_of(self.round)
        for wanted, is_token in ((pieces, False), (self._own(), True)):
            if not wanted:
                continue
            start, end = self._span(wanted)
            first, behind = block.flow.source(row)
            if (start < behind and end > first) or (start == end and block.flow.row_of(start) == row):
                drawn = block.flow.drawn_at(row, max(start, first)), block.flow.drawn_at(row, min(end, behind))
                # A token without text, such as the end of the reply, still needs a cell for the cursor to be seen.
                yield drawn[0], max(drawn[1], drawn[0] + is_token), is_token

    def _own(self) -> range:
        if self._block is None or self.token is None:
            return range(0)
        piece = self._block.piece_of(self.token)
        return range(piece, piece + 1)

    def _span(self, pieces: range) -> tuple[int, int]:
        assert self._block is not None
        return self._block.flow.span_of(pieces[0])[0], self._block.flow.span_of(pieces[-1])[1]

    def _go(self, blocks: Iterator[Block] | Sequence[Block], by: int) -> bool:
        for block in blocks:
            for token in block.tokens if by > 0 else reversed(block.tokens):
                if token is not None:
                    self.put(block, token)
                    return True
        return False
