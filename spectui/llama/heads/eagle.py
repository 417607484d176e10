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

from spectui.gguf_files.check import layers_read, vocabulary_of
from spectui.gguf_files.judgement import EAGLE3
from spectui.llama.context import Context, EvaluationError
from spectui.llama.devices import context_memory
from spectui.llama.heads.context import Heads
from spectui.llama.heads.rows import extension
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import first_error, llama
from spectui.llama.model import Model
from spectui.pin import LAST_ROWS, LAYER_ROWS
from spectui.speculation.evaluator import Interrupted


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
        code = llama.llama_encode(self.handle, self._encoded)
        if code == 2:
            raise Interrupted
        if code:
            raise EvaluationError(context_memory.failure(self.model, n, code, first_error()))
        found = extension.llama_get_embeddings_nextn(self.handle)
        self._states[:n] = np.ctypeslib.as_array(found, (n, self.model.width))


def misfit(path: str, target: Model) -> str:
    """Why the head in this file cannot draft for this target, as a sentence; "" if it may.

    llama.cpp asserts what is asked here, when the target's context is told to keep rows, or when the head computes.
    """
    architecture, layers = target.metadata("general.architecture") or "", target.layers - 1
    if architecture not in LAYER_ROWS.split():
        return (
            f"The head (EAGLE-3) in {path!r} cannot draft: this llama.cpp does not give it the rows of a {architecture}'s "
            "layers; use a small model of the target's family as the draft."
        )
    file = vocabulary_of(path)
    if file is None:
        return f"The head (EAGLE-3) in {path!r} cannot be read: check the file."
    wide, own = (int(file.values.get(f"{EAGLE3}.{key}", 0)) for key in ("target_hidden_size", "embedding_length"))
    read, last = layers_read(path), layers if architecture in LAST_ROWS.split() else layers - 1
    shares, why = not {"token_embd.weight", "output.weight"} <= set(file.tensors.apart), ""
    if wide != target.width:
        why = f"it reads rows of {wide} numbers instead of {target.width}"
    elif any(not 0 <= layer <= last for layer in read):
        why = f"it reads the layers {', '.join(map(str, read))}, and those of this one are 0 to {last}"
    elif shares and (own, file.n_tokens) != (target.width, target.n_vocab):
        why = f"it uses the target's embeddings, as {own} numbers of {file.n_tokens} tokens"
    if why:
        why = f"The head (EAGLE-3) in {path!r} is that of another model ({why}): choose the file that was made for this target."
    return why
