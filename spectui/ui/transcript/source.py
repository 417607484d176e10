"""What the transcript draws, as it was written: a text, where its tokens end, and what of it folds. No widgets."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from sys import intern
from typing import NamedTuple

from spectui.chat.figures.format import about_tokens, count, decimal
from spectui.chat.messages import ChatMessage
from spectui.chat.text.edits import edits
from spectui.chat.text.thinking import Section, Thinking
from spectui.speculation.records import Round
from spectui.store.rounds.packed import PackedRounds, same
from spectui.text import safe

KINDS = (
    *("text", "accepted", "correction", "bonus", "plain", "rejected", "heading", "user", "notice", "error", "cursor"),
    *("fold", "dropped", "title", "subtitle", "strong", "emphasis", "stressed", "struck", "code", "sign", "keyword"),
    *("string", "number", "comment", "name", "guess", "added", "removed", "fence"),
)
"""Kinds of pieces; a piece stores the index. All but `text` are component classes `transcript--...`.

Those from `title` on are Markdown's: headings, inline marks (`stressed`: strong and emphasis), signs drawn in place of marks,
and what code consists of.
"""

TEXT, REJECTED, HEADING, USER, NOTICE, ERROR, CURSOR, FOLD, DROPPED, GUESS, FENCE, SIGN = map(
    KINDS.index,
    ("text", "rejected", "heading", "user", "notice", "error", "cursor", "fold", "dropped", "guess", "fence", "sign"),
)
CHANGES = {"+": KINDS.index("added"), "-": KINDS.index("removed"), " ": SIGN}
"""The kinds of an edit's lines, by how they begin."""
THOUGHT = 0x80
"""Flag in a piece's kind: it is part of the model's thinking."""

LONG_LINES, SEEN_LINES = 30, 3
"""Lines from which a prompt folds, and those that are seen then at either end."""
LONG_TEXT, SEEN_TEXT = 3_000, 240
"""The same in characters: a line may be as long as a file."""

SIGNS = str.maketrans({"\n": "⏎", "\t": "⇥"})
"""What stands for these in drafts that are no text."""
_NO_TEXT = "∅"
"""Drawn for a rejected token without text: a special token, such as the end of the reply."""
_NO_ROUNDS = PackedRounds()


class Fold(NamedTuple):
    """A part of a text that folds under a line, which says what it is. A thought has no end while it is written."""

    start: int
    end: int | None
    says: str
    is_thought: bool
    lines: tuple[str, ...] = ()
    """Drawn in place of an edit."""


class Source:
    """A text of the transcript. That of a reply grows by rounds, and what is kept for each token is its text, five bytes, and
    the rejected tokens beside it."""

    def __init__(
        self, rounds: PackedRounds = _NO_ROUNDS, *, text: str = "", kind: int = TEXT, folds: bool = False, branch: str = ""
    ) -> None:
        """`rounds` is the conversation's list of the rounds that make a reply. Any other `text` is of one kind, and `folds`
        where it is long. `branch`: that of a heading."""
        self.rounds = rounds
        self.is_reply = rounds is not _NO_ROUNDS
        self.kind = kind
        self.text = safe(text)
        self._fold = _fold_of_prompt(self.text) if folds else None
        self.branch = branch
        """Which of the branches here is read, and of how many: `‹ 2/3 ›`. Drawn behind the text."""
        self.earlier: Callable[[], Sequence[str]] = tuple
        """Gives what stood in the conversation before."""
        self.read = 0
        """How many rounds were read."""
        self.kinds = bytearray()
        """The kind of each token."""
        self.ends = array("I")
        """Where each token ends in the text."""
        self.rejected: list[str] = []
        """The rejected tokens, as they are drawn."""
        self.rejected_at = array("I")
        """Where each of these stands in the text: before the first token of its round that was not drafted."""
        self._firsts = array("I")  # for each round, its first token
        self._thinking = Thinking()

    def grow(self, rounds: Iterable[Round] | None = None) -> None:
        """Read the rounds that have come since, or these."""
        if rounds is None:
            rounds = self.rounds.between(self.read, len(self.rounds)) if self.read else self.rounds
        self.__dict__.pop("edits", None)
        text = [self.text]
        end = len(self.text)
        for round in rounds:
            self.read += 1
            self._thinking.add(round)
            self._firsts.append(len(self.kinds))
            # With the drafter off all tokens are plain, so colours have no meaning.
            off = round.knobs.drafter == "off"
            self.kinds.extend(TEXT if off else KINDS.index(token.origin) for token in round.tokens)
            rejected = [token.text for token in round.drafted if token.fate == "rejected"]
            for token in round.tokens:
                if token.origin != "accepted":
                    self._reject(rejected, end)
                text.append(safe(token.text))
                end += len(text[-1])
                self.ends.append(end)
            self._reject(rejected, end)
        self.text = "".join(text)

    def _reject(self, texts: list[str], at: int) -> None:
        """Note these rejected tokens, and empty the list."""
        self.rejected += (intern(text.translate(SIGNS)) or _NO_TEXT for text in texts)
        self.rejected_at.extend([at] * len(texts))
        texts.clear()

    # What folds

    @property
    def folds(self) -> list[Fold]:
        """The parts that fold, in order: what a model thought, and what is between the ends of a long prompt."""
        if self.is_reply:
            return [_fold_of_thought(section) for section in self._thinking.sections]
        return [self._fold] if self._fold is not None else []

    @cached_property
    def edits(self) -> list[Fold]:
        """The code blocks that repeat most of what stood before, which fold where the reply is drawn as text."""
        thoughts = self.folds
        return [
            Fold(start, end, f"{count(changed)} line{'' if changed == 1 else 's'} changed: Enter opens the whole", False, lines)
            for start, end, changed, lines in (edits(self.text, self.earlier()) if self.is_reply else ())
            if not any(fold.start <= start and (fold.end is None or start < fold.end) for fold in thoughts)
        ]

    @property
    def closed(self) -> int:
        """How many of these have an end."""
        return sum(fold.end is not None for fold in self.folds)

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
        return number if number < self.read and same(self.rounds[number], round) else None


def _fold_of_thought(section: Section) -> Fold:
    """The fold of a section: `thinking: 312 tokens, 4.1 s`."""
    tokens = f"{count(section.tokens)} token{'' if section.tokens == 1 else 's'}"
    return Fold(section.start, section.end, f"thinking: {tokens}, {decimal(section.seconds)} s", True)


def _fold_of_prompt(text: str) -> Fold | None:
    """The fold between a long prompt's first and last lines, since a question may stand behind a paste:
    `1 997 more lines, about 28 300 tokens in all`."""
    if text.count("\n") < LONG_LINES and len(text) <= LONG_TEXT:
        return None
    start, end = _length_seen(text), len(text) - _length_seen(text[::-1])
    lines = text.count("\n", start, end) + 1
    more = f"{count(lines)} more lines" if lines > 1 else f"{count(end - start)} more characters"
    return Fold(start, end, f"{more}, {about_tokens(len(text.encode()))} in all", False)


def _length_seen(text: str) -> int:
    """How many characters of a folded text are seen at its beginning."""
    length = sum(len(line) + 1 for line in text.split("\n", SEEN_LINES)[:SEEN_LINES])
    return length if length <= SEEN_TEXT else text.rfind(" ", 0, SEEN_TEXT) + 1 or SEEN_TEXT


class SourceReader:
    """Makes the sources of a conversation's replies while it is read, in whatever thread reads it."""

    def __init__(self, progress: Callable[[float], None]) -> None:
        self.progress = progress
        self.sources: dict[ChatMessage, Source] = {}

    def __call__(self, message: ChatMessage, rounds: Iterator[Round], share: float) -> None:
        """Take a message and its rounds, which are unpacked one by one. `share`: of the messages before it."""
        self.progress(share)
        if message.role == "assistant":
            self.sources[message] = Source(message.rounds)
            self.sources[message].grow(rounds)
