"""Counts what a reply thinks while it is written: the tokens of each section, and what they took."""

from __future__ import annotations

from dataclasses import dataclass

from spectui.speculation.records import Round, Token
from spectui.thinking import CLOSE, OPEN, ThoughtStream


@dataclass(slots=True, eq=False)
class Section:
    """A stretch of a reply's text that is thinking, with the marks around it. `end` is None while it lasts.

    `tokens` are those of the rounds, and `seconds` what they took.
    """

    start: int
    end: int | None = None
    tokens: int = 0
    seconds: float = 0.0


class Thinking:
    """The sections of a reply that grows by rounds."""

    __slots__ = ("_length", "_seconds", "_stream", "_tokens", "sections")

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self._length = self._tokens = 0
        self._seconds = 0.0
        self._stream = ThoughtStream()

    def begin(self) -> None:
        """The prompt had opened the thinking of a reply whose tokens do not note it."""
        self._stream = ThoughtStream(opened=True)

    def add(self, round: Round) -> list[Section]:
        """One more round. Returns the sections that it has closed."""
        return [section for token in round.tokens for section in self._add(token, round.seconds / len(round.tokens))]

    def _add(self, token: Token, seconds: float) -> list[Section]:
        text, start = token.text, self._length
        self._length += len(text)
        self._tokens, self._seconds = self._tokens + 1, self._seconds + seconds
        section = self.sections[-1] if self.sections and self.sections[-1].end is None else None
        thought, opens = self._noted(token)
        if section is None and thought and text:
            if opens or self.sections:
                section = Section(start + max(0, text.find(OPEN)))
            else:  # it began before the text
                section = Section(0, tokens=self._tokens - 1, seconds=self._seconds - seconds)
            self.sections.append(section)
        if section is None:
            return []
        if thought or not text:
            section.tokens, section.seconds = section.tokens + 1, section.seconds + seconds
        closes = text.rfind(CLOSE) if thought else -1
        if closes < 0 and (thought or not text):
            return []
        section.end = start + (closes + len(CLOSE) if closes >= 0 else 0)
        return [section]

    def _noted(self, token: Token) -> tuple[bool, bool]:
        """Whether the token is thinking, and whether it opens that."""
        if token.thought is not None:
            return token.thought, OPEN in token.text
        pieces = self._stream.push(token.text)
        thought = any(thought for thought, _ in pieces) if pieces else self._stream.thinking
        return thought, any(OPEN in text for _, text in pieces)
