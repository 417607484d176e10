"""The tokens of one llama_decode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectui.llama.library import llama


class Batch:
    """A llama_batch with numpy views of its arrays: filling them takes microseconds at any size."""

    def __init__(self, size: int) -> None:
        """Room for so many tokens."""
        self.size = size
        self.handle = llama.llama_batch_init(size, 0, 1)
        self.token = np.ctypeslib.as_array(self.handle.token, (size,))
        self.pos = np.ctypeslib.as_array(self.handle.pos, (size,))
        self.logits = np.ctypeslib.as_array(self.handle.logits, (size,))
        np.ctypeslib.as_array(self.handle.n_seq_id, (size,))[:] = 1
        for index in range(size):
            self.handle.seq_id[index][0] = 0

    def fill(self, tokens: Sequence[int], start: int, rows: int) -> None:
        """The tokens, from position `start` on, with logits for the last `rows`."""
        n = self.handle.n_tokens = len(tokens)
        assert n <= self.size
        self.token[:n] = tokens
        self.pos[:n] = range(start, start + n)
        self.logits[: n - rows] = 0
        self.logits[n - rows : n] = 1

    def close(self) -> None:
        """Free it."""
        llama.llama_batch_free(self.handle)
