"""Where in the conversation the reply is being copied from, over small edits.

An edited file is its original but for a few tokens. Just behind an edit the longest match is a token or two, which stand in
many places; the place where the copying was before the edit is the likelier one.
"""

from __future__ import annotations

from collections.abc import Sequence

_WINDOW = 24
"""Tokens that an edit may leave out of the original."""

_DOUBT = 3
"""An edit leaves a third of the trust that the copying had earned."""


class CopyCursor:
    """A place in the text that moves on with every token, and how far it can be trusted."""

    def __init__(self) -> None:
        self.run = 0
        """Tokens copied without an edit, fewer after each edit; 0 for no place."""
        self._place = 0
        self._missed = 0
        self._replaces = True

    @property
    def match(self) -> int:
        """How far the place can be trusted, as the length of a match: hardly within an edit, if the last was no replacement."""
        return self.run if self._replaces or not self._missed else min(self.run, 1)

    @property
    def place(self) -> int:
        """Where the next token is expected. What was not found is held for a replacement, token for token."""
        return self._place + self._missed

    def start(self, place: int, run: int) -> None:
        """Copying goes on at `place`, as `run` tokens before it show."""
        self._place, self.run, self._missed = place, run, 0

    def follow(self, text: Sequence[int]) -> None:
        """The last token of `text` is new: move on."""
        if not self.run:
            return
        new = len(text) - 1
        found = text[self.place] == text[new]
        if self._missed:
            self._replaces = found
        if found:
            self.start(self.place + 1, self.run + 1)
            return
        self.run //= _DOUBT
        # Found further on: something was left out, or, behind tokens that were not found, put in.
        for place in range(self._place, min(self._place + _WINDOW, new)):
            if text[place] == text[new]:
                self.start(place + 1, self.run + 1)
                return
        self._missed += 1
        if self.place >= new:
            self.run = 0
