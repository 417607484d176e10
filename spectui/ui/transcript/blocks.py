"""The transcript's blocks of rows. Each is a flow of pieces that know their token."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from spectui.chat.text.thinking import Section, Thinking
from spectui.speculation.records import Round, Token
from spectui.store.rounds.packed import PackedRounds, same
from spectui.ui.transcript.markdown.page import Page
from spectui.ui.transcript.wrap import Flow

KINDS = (
    "text",
    "accepted",
    "correction",
    "bonus",
    "plain",
    "rejected",
    "heading",
    "user",
    "notice",
    "error",
    "cursor",
    "fold",
    "dropped",
    "title",
    "subtitle",
    "strong",
    "emphasis",
    "stressed",
    "struck",
    "code",
    "sign",
    "keyword",
    "string",
    "number",
    "comment",
    "name",
)
"""Kinds of pieces; a piece stores the index. All but `text` are component classes `transcript--...`.

Those from `title` on are Markdown's: headings, inline marks (`stressed`: strong and emphasis), signs drawn in place of marks,
and what code consists of.
"""

TEXT, REJECTED, HEADING, USER, NOTICE, ERROR, CURSOR, FOLD, DROPPED = (
    KINDS.index(kind)
    for kind in ("text", "rejected", "heading", "user", "notice", "error", "cursor", "fold", "dropped")
)
THOUGHT = 0x80
"""Flag in a piece's kind: it is part of the model's thinking."""
ASIDE = frozenset((REJECTED, FOLD, DROPPED))
"""Kinds that are drawn within the conversation and are no part of its text."""
ORIGINS = range(KINDS.index("accepted"), KINDS.index("plain") + 1)
INDENT = 3
_REJECTED_SIGNS = str.maketrans({"\n": "⏎", "\t": "⇥"})
_NO_TEXT = "∅"
"""Drawn for a rejected token without text: a special token, such as the end of the reply."""


@dataclass(slots=True, eq=False)
class Block:
    """Rows that belong together: a heading, a text, a notice, or the empty row between messages."""

    flow: Flow
    """The text as it was written: the tokens of a reply."""
    page: Page | None = None
    """A reply's text laid out, if that was done."""
    is_reply: bool = False
    is_read: bool = False
    """The page is drawn, as soon as there is one."""
    shows_rejected: bool = False
    """The flow was written with rejected drafts."""
    indent: int = INDENT
    copied: bool = True
    mark: str = ""
    """Drawn in the indentation of the first row."""
    top: int = 0
    rounds: PackedRounds = field(default_factory=PackedRounds)
    """The conversation's list of the rounds that made the text; empty for a text that no round made."""
    _indexes: array[int] = field(default_factory=lambda: array("b"))
    """For each piece of the flow: the index of its token in the round; -1 if it is none of the reply."""
    _starts: array[int] = field(default_factory=lambda: array("I"))
    """For each round: its first piece."""
    has_rejected: bool = False
    """Tokens were drafted and rejected, which can be shown."""
    thinking: Thinking = field(default_factory=Thinking)
    folds: dict[int, Section] = field(default_factory=dict)
    """For each piece that is a heading: its section."""
    _length: int = 0
    """Characters of the rounds' text, folded parts included."""
    _needs_newline: bool = False
    """The next text is below a folded heading, so a newline comes before it."""

    def draw(self, round: Round, rejected: bool) -> tuple[int, list[Section]]:
        """Draw the next of `rounds`. Returns the first changed row of the block, and sections of thinking that have ended."""
        self.has_rejected = self.has_rejected or bool(round.count("rejected"))
        closed = self.thinking.add(round)
        return self._write(round, rejected), closed

    def rewritten(self, width: int, rejected: bool) -> Block:
        """A copy with all rounds written again, with or without rejected drafts, and thinking folded as now. It decodes all
        rounds; any thread may call it.
        """
        block = replace(
            self,
            flow=Flow(width),
            page=None,
            shows_rejected=False,
            _indexes=array("b"),
            folds={},
            _starts=array("I"),
            _length=0,
            _needs_newline=False,
        )
        for round in self.rounds.between(0, len(self._starts)):
            block._write(round, rejected)
        return block

    def take_text(self, rewritten: Block, rejected: bool) -> None:
        """Take the text of a rewritten copy, and append the rounds that came since it was begun."""
        written = len(self._starts)
        self.page, self.shows_rejected = rewritten.page, rewritten.shows_rejected
        self.flow, self.folds, self._indexes = rewritten.flow, rewritten.folds, rewritten._indexes
        self._starts, self._length, self._needs_newline = rewritten._starts, rewritten._length, rewritten._needs_newline
        for number in range(len(self._starts), written):
            self._write(self.rounds[number], rejected)

    @property
    def undrawn(self) -> list[Round]:
        """Those of `rounds` that have come since the last was drawn."""
        return self.rounds.between(len(self._starts), len(self.rounds))

    @property
    def pieces(self) -> int:
        """Number of pieces of the rounds."""
        return len(self._indexes)

    def pieces_of(self, number: int) -> range:
        """The pieces of a round."""
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self._indexes)
        return range(self._starts[number], end)

    def index_of(self, piece: int) -> tuple[int, int] | None:
        """The round's number and the token's index in it for a piece; None if it shows no token."""
        if piece >= len(self._indexes) or (index := self._indexes[piece]) < 0:
            return None
        return bisect_right(self._starts, piece) - 1, index

    def piece_of(self, number: int, index: int) -> int | None:
        """The piece that shows a round's token; None while it is folded."""
        return next((piece for piece in self.pieces_of(number) if self._indexes[piece] == index), None)

    def token_at(self, piece: int) -> Token | None:
        """The token that a piece shows."""
        found = self.index_of(piece)
        return self.rounds[found[0]].tokens[found[1]] if found else None

    def number_of(self, round: Round) -> int | None:
        """The round's number, if it is one of these: a reply's rounds are numbered from its first on. Else None."""
        number = round.index
        return number if number < len(self.rounds) and same(self.rounds[number], round) else None

    @property
    def shown(self) -> Flow:
        """What is drawn: the page, or the flow."""
        return self.page if self.is_read and self.page is not None else self.flow

    def begins_at(self, row: int, index: int) -> int:
        """The flow's offset where that begins which is drawn from the index-th character of a row on."""
        shown = self.shown
        offset = shown.offset_at(row, index)
        return shown.begins(offset) if isinstance(shown, Page) else offset

    def ends_at(self, row: int, index: int) -> int:
        """The flow's offset where that ends which is drawn before the index-th character of a row."""
        shown = self.shown
        offset = shown.offset_at(row, index)
        return shown.ends(offset) if isinstance(shown, Page) else offset

    def piece_at(self, row: int, cell: int) -> int | None:
        """The flow's piece that is drawn at a cell of a row, or None where nothing is drawn."""
        shown = self.shown
        offset = shown.at_cell(row, cell)
        if offset is not None and isinstance(shown, Page):
            offset = shown.at(offset)
        return None if offset is None else self.flow.piece_of(offset)

    def row_of(self, offset: int) -> int:
        """The row that draws the character at an offset of the flow."""
        shown = self.shown
        return shown.row_of(shown.offset_of(offset) if isinstance(shown, Page) else offset)

    def _write(self, round: Round, rejected: bool) -> int:
        self.shows_rejected = self.shows_rejected or (rejected and bool(round.count("rejected")))
        self._starts.append(len(self._indexes))
        drawn: list[tuple[str, int]] = []
        for text, kind, index in _pieces(round, rejected):
            start = self._length
            self._length += len(text) if index >= 0 else 0
            section = self.thinking.at(start, self._length)
            if section is not None and section.end is not None and start <= section.start < self._length:
                self.folds[len(self._indexes)] = section
                self._draw(drawn, section.heading if section.folded else f"{section.heading}\n", FOLD, -1)
                self._needs_newline = section.folded
            if section is not None and section.folded and section.end is not None:
                text = text[: max(0, section.start - start)] + text[section.end - start :] if index >= 0 else ""
            elif section is not None and index >= 0:
                kind |= THOUGHT
            if text and self._needs_newline:
                self._needs_newline = False
                if not text.startswith("\n"):
                    self._draw(drawn, "\n", FOLD, -1)
            # A folded token has an empty piece, since pieces are counted, but the cursor cannot be on it.
            self._draw(drawn, text, kind, index if text or section is None or not section.folded else -1)
        return self.flow.append(drawn)

    def _draw(self, drawn: list[tuple[str, int]], text: str, kind: int, index: int) -> None:
        drawn.append((text, kind))
        self._indexes.append(index)


@dataclass(slots=True)
class MessageStart:
    """Where a message's blocks start in the list of blocks."""

    first: int
    is_reply: bool
    index: int = 0
    """The message's index in the conversation. A prompt without a reply has the same index as the next one."""


def index_at(blocks: Sequence[Block], row: int) -> int:
    """The index of the block with a row of the transcript."""
    return bisect_right(blocks, row, key=lambda block: block.top) - 1


def _pieces(round: Round, rejected: bool) -> Iterator[tuple[str, int, int]]:
    """A round's texts, kinds and token indices. The rejected draft (-1) comes before the correction."""
    texts = [token.text for token in round.drafted if token.fate == "rejected"] if rejected else []
    struck = [(text.translate(_REJECTED_SIGNS) or _NO_TEXT, REJECTED, -1) for text in texts]
    for index, token in enumerate(round.tokens):
        if token.origin != "accepted":
            yield from struck
            struck = []
        # With the drafter off all tokens are plain, so colours have no meaning.
        yield token.text, TEXT if round.knobs.drafter == "off" else KINDS.index(token.origin), index
    yield from struck
