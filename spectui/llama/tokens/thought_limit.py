"""Ends a model's thinking after a number of tokens: llama.cpp's --reasoning-budget."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.knobs import Knobs
from spectui.llama.tokens.reply_text import ReplyMarks, ReplyText


class ThoughtLimit:
    """Says which token must come next: those of the closing mark, once the budget is used up.

    That follows from the tokens before it and the budget alone, so no draft changes it.
    """

    def __init__(self, marks: ReplyMarks, prompt: Sequence[int]) -> None:
        """`prompt`: the tokens before the reply."""
        self._marks = marks
        self._read = len(prompt)
        self._closing = marks.open_at(prompt)  # the mark that closes what the prompt has opened
        self.opened = self._closing is not None
        """Whether the prompt ends within thinking, so that the reply begins there."""
        self._text = ReplyText(marks, thinking=self.opened)
        self._thought = 0
        self._forced: list[int] = []
        self._tried = False

    def forced(self, knobs: Knobs, tokens: Sequence[int]) -> int | None:
        """The token that must come behind these, of prompt and reply; None if the target chooses it."""
        if knobs.reasoning_budget < 0:
            return None
        for token in tokens[self._read :]:
            self._push(token)
        self._read = len(tokens)
        used_up = self._text.thinking and self._thought >= knobs.reasoning_budget and self._text.complete
        # A mark is tried once: what it does not close goes on.
        if used_up and not self._tried and not self._forced:
            self._tried, self._forced = True, self._marks.tokens(self._closing or self._marks.closing(self._text))
        return self._forced[0] if self._forced else None

    def _push(self, token: int) -> None:
        self._forced = self._forced[1:] if self._forced[:1] == [token] else []
        before = self._text.thinking
        self._text.push(token)
        if before and self._text.thinking:
            self._thought += 1
        else:
            self._thought, self._tried = 0, False
        if not self._text.thinking:
            self._closing = None
