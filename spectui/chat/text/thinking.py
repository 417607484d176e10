"""Counts what a reply thinks while it is written: the tokens of each section, and what they took."""

from __future__ import annotations

from dataclasses import dataclass

from spectui.speculation.records import Round, Token
from spectui.thinking import CLOSE, OPEN


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

    __slots__ = ("_length", "_seconds", "_tokens", "sections")

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self._length = self._tokens = 0
        self._seconds = 0.0

    def add(self, round: Round) -> None:
        """One more round."""
        for token in round.tokens:
            self._add(token, round.seconds / len(round.tokens))

    def _add(self, token: Token, seconds: float) -> None:
        text, start = token.text, self._length
        self._length += len(text)
        self._tokens, self._seconds = self._tokens + 1, self._seconds + seconds
        section = self.sections[-1] if self.sections and self.sections[-1].end is None else None
        if section is None and token.thought and text:
            if OPEN in text or self.sections:
                section = Section(start + max(0, text.find(OPEN)))
            else:  # it began before the text
                section = Section(0, tokens=self._tokens - 1, seconds=self._seconds - seconds)
            self.sections.append(section)
        if section is None:
            return
        if token.thought or not text:
            section.tokens, section.seconds = section.tokens + 1, section.seconds + seconds
            if CLOSE in text:
                section.end = start + text.rindex(CLOSE) + len(CLOSE)
        else:
            section.end = start
