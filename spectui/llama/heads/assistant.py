"""Gemma 4's assistant: a small model that foresees the target's tokens with the target's own cells.

It has no cells. It attends to those of the target's last two layers, so it never has anything to read: only the target's last
token but one round, and then those that it drafts, each at the same position, behind the target's. Its embedding is the
target's; its output matrix is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spectui.llama.context import Context
from spectui.llama.heads.context import Heads
from spectui.llama.heads.rows import Rows
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model


class Assistant(Heads):
    """The context of an assistant, beside the target's. `tokens` are those that it could draft behind, and drafted ones."""

    def __init__(self, model: Model, target: Context, interrupt: Interrupt, **settings: Any) -> None:
        """As `Heads`. The target's cells have to be those that the assistant's keys name: llama.cpp would end the process."""
        super().__init__(model, target, interrupt, **settings)
        target.clear()  # llama.cpp has emptied its cells' table
        self.max_drafted = None

    def clear(self) -> None:
        self.truncate(0)

    def _truncate(self, length: int, broken: bool = False) -> None:
        del self.tokens[length:]  # the cells are the target's

    def _read_along(self) -> None:
        """Only the target's last row is read, and rejected tokens of one pass are behind it."""
        self._hidden.drop_before(len(self._target.tokens) - self._target.rows)

    def _read_tokens(self, tokens: Sequence[int], rows: int) -> Rows:
        self.tokens.extend(tokens[:-1] if rows else tokens)
        found = Context.evaluate(self, tokens[-1:], 1) if rows else np.empty((0, self.n_vocab), np.float32)
        self._read = len(self.tokens)
        self._own = [self._row()] if rows else []
        return found

    def _decode(self, tokens: Sequence[int], rows: int, at: int | None = None) -> None:
        super()._decode(tokens, rows, len(self._target.tokens))
