"""A head that reads the rows of several of its target's layers (EAGLE-3), in a file of its own.

Its encoder makes one row of those of a token, and its one layer reads that together with the token behind it. So it is used as
the target's own heads are (`heads.context`). The way of a round is that of draft-eagle3 in llama.cpp's common/speculative.cpp.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectui.llama.context import Context
from spectui.llama.heads.context import Heads
from spectui.llama.heads.rows import extension
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import llama
from spectui.llama.model import Model


class Eagle(Heads):
    """The head's KV cache, beside the target's context. It foresees any number of tokens, each from its own hidden row."""

    source = "eagle3"

    def __init__(self, model: Model, target: Context, interrupt: Interrupt, **settings: Any) -> None:
        """As `Heads`. `target`: keeps the rows of the layers that the head reads."""
        super().__init__(model, target, interrupt, rows=target.rows, **settings)
        self._features = np.zeros((self._size, self._hidden.width), np.float32)
        self._encoded = llama.llama_batch(
            pos=self._batch.pos, n_seq_id=self._batch.n_seq_id, seq_id=self._batch.seq_id, logits=self._batch.logits,
            embd=self._features.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
        )  # fmt: skip

    def _decode(self, tokens: Sequence[int], rows: int, at: int | None = None) -> None:
        if not self.tokens and self._target.tokens and len(tokens) > 1:
            # No row lies before the first token, so the head was trained without it.
            self.tokens.append(tokens[0])
            tokens = tokens[1:]
        # Its graph gives the first rows where the last ones are asked for, so all are.
        asked = min(len(tokens), self.rows) if rows else 0
        if len(tokens) > asked:
            super()._decode(tokens[: len(tokens) - asked], 0)
        if asked:
            super()._decode(tokens[-asked:], asked)

    def _logits(self, rows: int) -> NDArray[np.float32]:
        return super()._logits(self._batch.n_tokens)[-rows:] if rows else super()._logits(0)

    def _fill_states(self, start: int, n: int) -> None:
        if start >= len(self._target.tokens) and 0 <= start + 1 - self._read < len(self._own):  # behind a drafted token
            super()._fill_states(start, n)
            return
        for index in range(n):
            self._features[index] = self._hidden.row(start + index)
        self._encoded.n_tokens = n
        self._fields.pos[:n] = range(start + 1, start + 1 + n)
        self._compute(llama.llama_encode, self._encoded)
        found = extension.llama_get_embeddings_nextn(self.handle)
        self._states[:n] = np.ctypeslib.as_array(found, (n, self.model.width))
