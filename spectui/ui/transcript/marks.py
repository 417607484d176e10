"""What is marked in the transcript: a token under the cursor with its round, and places where words were found. No widgets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spectui.speculation.records import Round, Token
from spectui.ui.transcript.document import Block, Document
from spectui.ui.transcript.source import HEADING


class TokenCursor:
    """The cursor is on a token of one of the document's replies, or nowhere. A round is marked with it, or alone."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.block: Block | None = None
        """The block with the token or the marked round."""
        self.token: Token | None = None
        self.round: Round | None = None
        self._at = 0  # the token's number in its reply
        self._round = 0  # the round's number

    @property
    def is_folded(self) -> bool:
        """The token under the cursor is in a folded section."""
        return self.token is not None and self.block is not None and not self.block.shows(self._at)

    def put(self, reply: Block, token: int) -> bool:
        """Move to a token of a reply. False if it is folded."""
        if not reply.shows(token):
            return False
        self.block, self._at = reply, token
        self._round, index = reply.source.round_of(token)
        self.round = reply.source.rounds[self._round]
        self.token = self.round.tokens[index]
        return True

    def put_last(self) -> bool:
        """Move to the last token. False if there is none."""
        self.token = None
        return any(self.put(*place) for place in self._places(-1))

    def mark(self, round: Round | None) -> None:
        """Mark a round, if the document has it, in place of the cursor and another round."""
        self.block = self.token = self.round = None
        for reply in reversed(self._document.replies):
            if round is not None and (number := reply.source.number_of(round)) is not None:
                self.block, self._round, self.round = reply, number, round
                return

    def step(self, by: int) -> bool:
        """Move to the next (1) or the previous (-1) token. False at the end."""
        return self.token is not None and any(self.put(*place) for place in self._places(by))

    def step_round(self, by: int) -> bool:
        """Move to the first token of the next (1) or the previous (-1) round."""
        here = self.block, self._round
        while self.step(by):
            if self.block is not None and (self.block, self._round) != here:
                tokens = self.block.source.tokens_of(self._round)
                return any(self.put(self.block, token) for token in tokens)
        return False

    def step_row(self, by: int) -> bool:
        """Move to the token below (1) or above (-1)."""
        if self.token is None or self.block is None:
            return False
        start = self.block.source.span(self._at)[0]
        row = self.block.row_of(start)
        cell = self.block.indent + self.block.drawing.column_of(row - self.block.top, start)
        row += by
        while (block := self._document.block_at(row)) is not None:
            tokens = (block.token_at(row, x) for x in range(cell, block.indent - 1, -1))
            if any(token is not None and self.put(block, token) for token in tokens):
                return True
            row += by
        return False

    def rows(self) -> range:
        """The transcript's rows that have a mark."""
        if self.block is None or not self.block.source.count:
            return range(0)
        start, end = self._span_of_round
        return range(self.block.row_of(start), self.block.row_of(max(start, end - 1)) + 1)

    def row(self) -> int | None:
        """The row to be seen: the cursor's, or the first that is marked."""
        if self.token is not None and self.block is not None:
            return self.block.row_of(self.block.source.span(self._at)[0])
        rows = self.rows()
        return rows.start if rows else None

    def spans(self, block: Block, row: int) -> Iterator[tuple[int, int, bool]]:
        """The marked ranges in a row of a block: first drawn character, end, and whether it is the token under the cursor."""
        if self.block is None or block is not self.block:
            return
        marked = [(self._span_of_round, False)]
        if self.token is not None:
            marked.append((block.source.span(self._at), True))
        for (start, end), is_token in marked:
            first, last = block.drawing.marked(row, start, end)
            # A token without text, such as the end of the reply, still needs a cell for the cursor to be seen.
            if first == last and is_token and block.drawing.row_of(start) == row:
                last += 1
            if first < last:
                yield first, last, is_token

    @property
    def _span_of_round(self) -> tuple[int, int]:
        """Where the source has the marked round."""
        assert self.block is not None
        tokens = self.block.source.tokens_of(self._round)
        return self.block.source.span(tokens[0])[0], self.block.source.span(tokens[-1])[1]

    def _places(self, by: int) -> Iterator[tuple[Block, int]]:
        """The tokens after the cursor (1) or before it (-1), the nearest first; all of them where there is no cursor."""
        beyond = self.token is None
        for reply in self._document.replies[::by]:
            tokens = range(reply.source.count)[::by]
            if beyond:
                yield from ((reply, token) for token in tokens)
            elif reply is self.block:
                beyond = True
                yield from ((reply, token) for token in tokens[tokens.index(self._at) + 1 :])


class Finder:
    """Finds words in what was said, as it was written: what is folded too."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._words = ""
        self._places: list[tuple[Block, int, int]] = []
        self._at = 0

    @property
    def place(self) -> tuple[Block, int] | None:
        """The block with the place that is looked at, and where it begins in its source; None if there is none."""
        return self._places[self._at][:2] if self._places else None

    @property
    def count(self) -> str:
        """`2 of 7`."""
        return f"{self._at + 1 if self._places else 0} of {len(self._places)}" if self._words else ""

    def look(self, words: str, row: int) -> None:
        """Find these words, and look at the first place that is not above a row, or else at the first of all."""
        self._words, self._at = words, 0
        self._find()
        below = (number for number, (block, start, _) in enumerate(self._places) if block.row_of(start) >= row)
        self._at = next(below, 0)

    def step(self, by: int) -> None:
        """Look at the next place, or at the one before. After the last comes the first."""
        before, self._at = self.place, 0
        self._find()
        same = (number for number, (block, start, _) in enumerate(self._places) if (block, start) == before)
        self._at = (next(same, -by) + by) % max(1, len(self._places))

    def _find(self) -> None:
        """Find them in all that was said by now."""
        pattern = re.compile(re.escape(self._words), re.IGNORECASE)
        said = [block for block in self._document.blocks if block.is_said and block.source.kind != HEADING]
        self._places = [
            (block, *match.span()) for block in said if self._words for match in pattern.finditer(block.source.text)
        ]

    def spans(self, block: Block, row: int) -> Iterator[tuple[int, int, bool]]:
        """The places in a row of a block: first drawn character, end, and whether it is the one that is looked at."""
        seen = block.drawing.part(row)
        for number, (of, begin, stop) in enumerate(self._places):
            if of is block and block.is_drawn and begin < seen.stop and stop > seen.start:
                first, last = block.drawing.marked(row, begin, stop)
                if first < last:
                    yield first, last, number == self._at
