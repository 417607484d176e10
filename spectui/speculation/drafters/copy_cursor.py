"""The position in the conversation that the reply is being copied from, across small edits.

An edited file equals its original except for a few tokens. Just after an edit the longest match is one or two tokens, which
occur at many positions; the position before the edit is the likelier one.
"""

from __future__ import annotations

from collections.abc import Sequence

_WINDOW = 24
"""Tokens that an edit may leave out of the original."""

_EDIT_DIVISOR = 3
"""After an edit the match length counts a third."""


class CopyCursor:
    """A position in the text that advances with every token."""

    def __init__(self) -> None:
        self.run = 0
        """The length of the match that this position counts as: tokens copied without an edit, fewer after each edit; 0 for no
        position."""
        self._position = 0
        self._missed = 0

    @property
    def position(self) -> int:
        """Where the next token is expected. Tokens that were not found count as replacements, one for one."""
        return self._position + self._missed

    def start(self, position: int, run: int) -> None:
        """Continue copying at `position`: the `run` tokens before it were copied."""
        self._position, self.run, self._missed = position, run, 0

    def follow(self, text: Sequence[int]) -> None:
        """Advance by the last token of `text`, which is new."""
        if not self.run:
            return
        new = len(text) - 1
        if text[self.position] == text[new]:
            self.start(self.position + 1, self.run + 1)
            return
        self.run //= _EDIT_DIVISOR
        # Found later in the original: tokens were left out or, after tokens that were not found, inserted.
        for position in range(self._position, min(self._position + _WINDOW, new)):
            if text[position] == text[new]:
                self.start(position + 1, self.run + 1)
                return
        self._missed += 1
        if self.position >= new:
            self.run = 0
