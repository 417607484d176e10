"""A head that foresees a block of tokens in one pass (DFlash), in a file of its own.

Its cells are made of the rows of several of its target's layers, for each token that the target has read. A pass over the
text's last token and masks behind it foresees a token at each mask. So the first token of a draft costs that pass, and the
others nothing. The way of a round is that of draft-dflash in llama.cpp's common/speculative.cpp.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from spectui.gguf_files.heads import BLOCK, DFLASH, MASK, USUAL_BLOCK
from spectui.llama.context import Context
from spectui.llama.heads.context import Heads
from spectui.llama.heads.rows import Rows
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import llama
from spectui.llama.model import Model


class DFlash(Heads):
    """The head's KV cache, beside the target's context. `tokens`: those in its cells, the text's last one, and drafted ones."""

    source = "dflash"

    def __init__(
        self, model: Model, target: Context, interrupt: Interrupt, *, n_ctx: int, batch: int = 2048, ubatch: int = 512,
        **settings: Any,
    ) -> None:  # fmt: skip
        """As `Heads`. `target`: keeps the rows of the layers that the head reads."""
        block = min(int(model.metadata(BLOCK) or USUAL_BLOCK), target.rows)
        super().__init__(  # llama.cpp ends the process where it would have to divide a block
            model, target, interrupt, rows=block, n_ctx=n_ctx + block, batch=max(batch, block), ubatch=max(ubatch, block),
            **settings,
        )  # fmt: skip
        self.n_ctx = n_ctx  # the block lies behind
        self.max_drafted = block - 1
        self._masks = [int(model.metadata(MASK) or 0)] * (block - 1)
        self._block = np.empty((0, self.n_vocab), np.float32)
        self._batch.embd = None  # tokens alone are a block, rows alone become cells
        self._states = np.zeros((self._size, self._hidden.width), np.float32)
        self._positions = np.zeros(4 * self._size, np.int32)  # four for each row, where its target has four
        self._reading = llama.llama_batch(
            pos=self._positions.ctypes.data_as(ctypes.POINTER(llama.llama_pos)),
            embd=self._states.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
            n_seq_id=self._batch.n_seq_id, seq_id=self._batch.seq_id, logits=self._batch.logits,
        )  # fmt: skip
        llama.llama_set_causal_attn(self.handle, model.metadata(f"{DFLASH}.attention.causal") == "true")

    def evaluate(self, tokens: Sequence[int], rows: int) -> Rows:
        """As `Heads.evaluate`."""
        start, found = len(self.tokens), np.empty((0, self.n_vocab), np.float32)
        known = len(tokens) - min(rows, 1)
        if start > self._read:
            known = 0
        elif self._target.tokens or start:  # else costs are being measured
            known = min(known, max(0, len(self._target.tokens) - start))
        if known:
            Context.evaluate(self, tokens[:known], 0)
            self._read = len(self.tokens)
            self._hidden.drop_before(self._read - 2)
        for token in tokens[known:]:
            found = self._follow(token)
        return found

    def _follow(self, token: int) -> Rows:
        """The logits behind the text's last token, or behind a drafted one."""
        if len(self.tokens) == self._read:
            self._block = Context.evaluate(self, [token, *self._masks], len(self._masks) + 1)
            Context.truncate(self, self._read)
        self.tokens.append(token)
        mask = min(len(self.tokens) - self._read, len(self._masks))
        return self._block[mask : mask + 1]

    def _decode(self, tokens: Sequence[int], rows: int, at: int | None = None) -> None:
        if rows:
            Context._decode(self, tokens, rows, at)
            return
        n, start = len(tokens), len(self.tokens)
        self._fill_states(start, n)
        self._positions[: 4 * n] = np.tile(np.arange(start, start + n), 4)
        self._fields.logits[:n] = 0
        self._reading.n_tokens = n
        self._compute(llama.llama_decode, self._reading)
        self.tokens.extend(tokens)
