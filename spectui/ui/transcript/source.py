"""A reply as it was written, in the order of its tokens: what each way to draw it stands for. No widgets."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from sys import intern
from threading import Lock

from spectui.chat.messages import ChatMessage
from spectui.chat.text.thinking import Section, Thinking
from spectui.speculation.records import Round
from spectui.store.rounds.packed import PackedRounds, same
from spectui.text import safe

KINDS = (
    *("text", "accepted", "correction", "bonus", "plain", "rejected", "heading", "user", "notice", "error", "cursor"),
    *("fold", "dropped", "title", "subtitle", "strong", "emphasis", "stressed", "struck", "code", "sign", "keyword"),
    *("string", "number", "comment", "name"),
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

_REJECTED_SIGNS = str.maketrans({"\n": "⏎", "\t": "⇥"})
_NO_TEXT = "∅"
"""Drawn for a rejected token without text: a special token, such as the end of the reply."""


class Source:
    """The text of a reply that grows by rounds, where its tokens end, and what of it is thinking. What it keeps for a token
    is its text, five bytes, and the rejected tokens beside it. Any thread may let it grow, or read what is `written`.
    """

    def __init__(self, rounds: PackedRounds, *, thinking: bool = False) -> None:
        """`rounds` is the conversation's list of the rounds that make the text. `thinking`: the prompt had opened it,
        which the tokens do not note."""
        self.rounds = rounds
        self.written: tuple[int, str] = 0, ""
        """How many rounds were read, and their text."""
        self.kinds = bytearray()
        """The kind of each token."""
        self.ends = array("I")
        """Where each token ends in the text."""
        self.rejected: list[str] = []
        """The rejected tokens, as they are drawn."""
        self.rejected_at = array("I")
        """Where each of these stands in the text: before the first token of its round that was not drafted."""
        self._lock = Lock()
        self._firsts = array("I")  # for each round, its first token
        self._thinking = Thinking()
        if thinking:
            self._thinking.begin()

    def grow(self, rounds: Iterable[Round] | None = None) -> int:
        """Read the rounds that have come since, or these. Returns how many sections of thinking they close."""
        with self._lock:
            return self._grow(rounds)

    def _grow(self, rounds: Iterable[Round] | None) -> int:
        read, text = self.written
        closed = 0
        if rounds is None:
            rounds = self.rounds.between(read, len(self.rounds)) if read else self.rounds
        for round in rounds:
            read += 1
            closed += len(self._thinking.add(round))
            self._firsts.append(len(self.kinds))
            # With the drafter off all tokens are plain, so colours have no meaning.
            off = round.knobs.drafter == "off"
            self.kinds.extend(TEXT if off else KINDS.index(token.origin) for token in round.tokens)
            rejected = [token.text for token in round.drafted if token.fate == "rejected"]
            for token in round.tokens:
                if token.origin != "accepted":
                    self._reject(rejected, len(text))
                text += safe(token.text)
                self.ends.append(len(text))
            self._reject(rejected, len(text))
        self.written = read, text
        return closed

    def _reject(self, texts: list[str], at: int) -> None:
        """Note these rejected tokens, and empty the list."""
        self.rejected += (intern(text.translate(_REJECTED_SIGNS)) or _NO_TEXT for text in texts)
        self.rejected_at.extend([at] * len(texts))
        texts.clear()

    @property
    def text(self) -> str:
        """The text that was read."""
        return self.written[1]

    @property
    def sections(self) -> list[Section]:
        """The sections of thinking. The last one may not have ended."""
        return self._thinking.sections

    @property
    def closed(self) -> int:
        """How many sections of thinking have ended."""
        return sum(section.end is not None for section in self.sections)

    # Tokens, by their number in the reply

    @property
    def count(self) -> int:
        """How many tokens were read."""
        return len(self.ends)

    def span(self, token: int) -> tuple[int, int]:
        """Where a token starts and ends in the text."""
        return self.ends[token - 1] if token else 0, self.ends[token]

    def token_at(self, offset: int) -> int | None:
        """The token that has the character at an offset of the text."""
        token = bisect_right(self.ends, offset)
        return token if token < len(self.ends) else None

    def round_of(self, token: int) -> tuple[int, int]:
        """The number of a token's round, and its index there."""
        number = bisect_right(self._firsts, token) - 1
        return number, token - self._firsts[number]

    def tokens_of(self, number: int) -> range:
        """The tokens of a round."""
        end = self._firsts[number + 1] if number + 1 < len(self._firsts) else len(self.kinds)
        return range(self._firsts[number], end)

    def number_of(self, round: Round) -> int | None:
        """The round's number, if it is one of these: a reply's rounds are numbered from its first on. Else None."""
        number = round.index
        return number if number < self.written[0] and same(self.rounds[number], round) else None


class SourceReader:
    """Makes the sources of a conversation's replies while it is read, in whatever thread reads it."""

    def __init__(self, progress: Callable[[float], None]) -> None:
        self.progress = progress
        self.sources: dict[ChatMessage, Source] = {}

    def show(self, index: int, message: ChatMessage, rounds: Iterator[Round]) -> None:
        """Take a message and its rounds, which are unpacked one by one."""
        if message.role == "assistant":
            self.sources[message] = Source(message.rounds, thinking=message.reply.thinking)
            self.sources[message].grow(rounds)
