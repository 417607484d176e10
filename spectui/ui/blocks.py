"""What the transcript is made of: blocks of rows, each a flow of pieces that know which token they are."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spectui.speculation.records import Round, Token
from spectui.ui.thinking import Section, Thinking
from spectui.ui.wrap import Flow

KINDS = (
    "text",
    "accepted",
    "correction",
    "bonus",
    "plain",
    "ghost",
    "heading",
    "user",
    "notice",
    "error",
    "cursor",
    "fold",
)
"""What a piece of text is; a piece carries the index. All but `text` are component classes `transcript--...`."""

TEXT, GHOST, HEADING, USER, NOTICE, ERROR, CURSOR, FOLD = (
    KINDS.index(kind) for kind in ("text", "ghost", "heading", "user", "notice", "error", "cursor", "fold")
)
THOUGHT = 0x80
"""Added to the kind of what the model thinks."""
ASIDE = frozenset((GHOST, FOLD))
"""Kinds that are drawn among a reply's text and are no part of it."""
ORIGINS = range(KINDS.index("accepted"), KINDS.index("plain") + 1)
INDENT = 3
_GHOST_SIGNS = str.maketrans({"\n": "⏎", "\t": "⇥"})


@dataclass(slots=True, eq=False)
class Block:
    """Rows that belong together: a heading, a text, a notice, or the empty row between messages."""

    flow: Flow
    indent: int = INDENT
    copied: bool = True
    mark: str = ""
    """Stands in the indentation of the first row."""
    top: int = 0
    rounds: list[Round] = field(default_factory=list)
    tokens: list[Token | None] = field(default_factory=list)
    """By piece of the flow; None for a ghost. Empty for a text that no round made."""
    _starts: array[int] = field(default_factory=lambda: array("I"))
    """By round: its first piece."""
    thinking: Thinking = field(default_factory=Thinking)
    folds: dict[int, Section] = field(default_factory=dict)
    """By piece: the section of which it is the heading."""
    _length: int = 0
    """Characters of the rounds' text, drawn or folded away."""
    _line_owed: bool = False
    """What comes next must not stand on the line of a folded heading."""

    def add(self, round: Round, ghosts: bool) -> tuple[int, list[Section]]:
        """Append a round's tokens. Returns the first row of the block that changed, and what has ended of thinking."""
        self.rounds.append(round)
        closed = self.thinking.feed("".join(token.text for token in round.tokens))
        for section in closed:
            section.measure(self.rounds)
        return self._write(round, ghosts), closed

    def rewrite(self, width: int, ghosts: bool) -> None:
        """Write all rounds again: with ghosts or without, and thinking as it is folded now."""
        self.flow = Flow(width)
        self.tokens.clear()
        self.folds.clear()
        self._starts = array("I")
        self._length, self._line_owed = 0, False
        for round in self.rounds:
            self._write(round, ghosts)

    def pieces_of(self, round: Round) -> range:
        """The pieces that one of the block's rounds made."""
        number = round.index - self.rounds[0].index
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.tokens)
        return range(self._starts[number], end)

    def round_of(self, token: Token) -> Round:
        """The round that one of the block's tokens came from."""
        return self.rounds[token.round - self.rounds[0].index]

    def piece_of(self, token: Token) -> int:
        """Which piece one of the block's tokens is."""
        return next(piece for piece in self.pieces_of(self.round_of(token)) if self.tokens[piece] is token)

    def holds(self, round: Round) -> bool:
        """Is this very round one of the block's?"""
        number = round.index - self.rounds[0].index if self.rounds else -1
        return 0 <= number < len(self.rounds) and self.rounds[number] is round

    def _write(self, round: Round, ghosts: bool) -> int:
        self._starts.append(len(self.tokens))
        drawn: list[tuple[str, int]] = []
        for text, kind, token in _pieces(round, ghosts):
            start = self._length
            self._length += len(text) if token is not None else 0
            section = self.thinking.at(start, self._length)
            if section is not None and section.end is not None and start <= section.start < self._length:
                self.folds[len(self.tokens)] = section
                self._draw(drawn, section.heading if section.folded else f"{section.heading}\n", FOLD, None)
                self._line_owed = section.folded
            if section is not None and section.folded and section.end is not None:
                text = text[: max(0, section.start - start)] + text[section.end - start :] if token is not None else ""
            elif section is not None and token is not None:
                kind |= THOUGHT
            if text and self._line_owed:
                self._line_owed = False
                if not text.startswith("\n"):
                    self._draw(drawn, "\n", FOLD, None)
            # What is folded away has a piece, since a round's are counted, but no token where nobody could see a cursor.
            self._draw(drawn, text, kind, token if text or section is None or not section.folded else None)
        return self.flow.append(drawn)

    def _draw(self, drawn: list[tuple[str, int]], text: str, kind: int, token: Token | None) -> None:
        drawn.append((text, kind))
        self.tokens.append(token)


@dataclass(slots=True)
class MessageStart:
    """Where a message's blocks start in the list of blocks."""

    first: int
    is_reply: bool
    place: int = 0
    """Which message of the conversation it is, from 0. One that got no answer, and the next, have the same."""


def index_at(blocks: Sequence[Block], row: int) -> int:
    """The index of the block that a row of the transcript belongs to."""
    return bisect_right(blocks, row, key=lambda block: block.top) - 1


def _pieces(round: Round, ghosts: bool) -> Iterator[tuple[str, int, Token | None]]:
    """A round's text, kind and token, with the rejected draft where it stood: before the correction."""
    rejected = [token for token in round.drafted if token.fate == "rejected"] if ghosts else []
    for token in round.tokens:
        if token.origin != "accepted":
            yield from ((ghost.text.translate(_GHOST_SIGNS), GHOST, None) for ghost in rejected)
            rejected = []
        yield token.text, KINDS.index(token.origin), token
    yield from ((ghost.text.translate(_GHOST_SIGNS), GHOST, None) for ghost in rejected)
