"""The contexts in which heads draft for a target: its own heads (multi-token prediction), and those in files of their own.

A head reads a token together with the target's hidden row of the position before it, and foresees the token behind it. So the
target keeps its hidden rows until its heads have read them; a drafted token has the head's own hidden row instead. `Heads` is
an evaluator as a draft model's context is: drafters, policy and costs need to know nothing of this.

The way of a round is that of draft-mtp in llama.cpp's common/speculative.cpp.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from spectui.gguf_files.check import metadata_of
from spectui.gguf_files.heads import BLOCK, DFLASH, MASK, READ_LAYERS, USUAL_BLOCK, borrows, layers_read
from spectui.llama.cells.checkpoints import Checkpoint
from spectui.llama.context import Context, EvaluationError
from spectui.llama.heads.rows import Rows, extension
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.pin import LAST_ROWS, LAYER_ROWS
from spectui.speculation.evaluator import Interrupted, common_prefix


class Heads(Context):
    """The KV cache of a model's heads, beside the target's context.

    One head foresees any number of tokens, each from its own hidden row. Several are chained: the first foresees the first
    token of a draft, the second the second one, and each has cells of its own.
    """

    source = "mtp"
    """What their tokens are called."""

    def __init__(self, model: Model, target: Context, interrupt: Interrupt, rows: int = 1, **settings: Any) -> None:
        """`model`: the target's, loaded with its heads, or one from a file of heads alone. `target`: keeps its hidden rows.
        `settings`: as `Context` takes them. Raises SpectuiError."""
        assert target.hidden is not None
        self._target, self._hidden = target, target.hidden
        # Tokens in the cells that were read with the target's hidden rows. Those behind them are drafted.
        self._read = 0
        # The heads' hidden rows of the last token read and of each drafted one: what the tokens behind these are read with.
        self._own: list[Rows] = []
        super().__init__(model, interrupt, rows=rows, heads_of=target, **settings)
        self.asynchronous = False  # a drafted token needs the row of the one before
        self._states = np.zeros((self._batch.size, model.width), np.float32)
        self._batch.handle.embd = _pointer(self._states)
        extension.llama_set_embeddings_nextn(self.handle, True, True)
        number = llama.llama_model_n_layer_nextn(model.handle)
        self.max_drafted = number if number > 1 else None
        self._hidden.on_rows = self._read_along

    def evaluate(self, tokens: Sequence[int], rows: int) -> Rows:
        """As `Context.evaluate`, for one row at most. Tokens that lie more than one behind the target's are drafted ones."""
        start, logits = len(self.tokens), np.empty((0, self.n_vocab), np.float32)
        known = max(0, len(self._target.tokens) + 1 - start)
        if not self._target.tokens:  # it has no rows: costs are being measured, of tokens read and then of drafted ones
            known = 0 if start else len(tokens)
        if read := tokens[:known]:
            logits = self._read_tokens(read, rows or len(read) < len(tokens))
        for token in tokens[known:]:
            logits = self._follow(token)
        return logits

    def submit(self, tokens: Sequence[int], rows: int, k: int | None) -> Any:
        logits = self.evaluate(tokens, rows)
        return lambda: logits

    def truncate(self, length: int) -> None:
        """As `Context.truncate`. Drafted tokens are dropped whatever the length: they are to be read with the target's rows."""
        super().truncate(min(length, self._read))
        self._own = self._own[: len(self.tokens) == self._read]
        self._read = len(self.tokens)

    def clear(self) -> None:
        super().clear()
        self._read, self._own = 0, []

    def adopt(self, tokens: Sequence[int], checkpoints: Sequence[Checkpoint]) -> None:
        super().adopt(tokens, checkpoints)
        self._read = len(tokens)

    def close(self) -> None:
        if self.handle:
            self._batch.handle.embd = None  # numpy's
            self._hidden.on_rows = None
        super().close()

    def _read_along(self) -> None:
        """Read what the target has read once it is a whole chunk: the rows would take more and more memory."""
        if len(self._target.tokens) - self._read <= self.chunk:
            return
        with suppress(Interrupted, EvaluationError):  # it is tried again when something is drafted
            self.truncate(common_prefix(self.tokens, self._target.tokens))
            while (start := len(self.tokens)) + self.chunk <= len(self._target.tokens):
                self.evaluate(self._target.tokens[start : start + self.chunk], 0)

    def _read_tokens(self, tokens: Sequence[int], rows: int) -> Rows:
        """Tokens with the target's hidden rows, in each head's cells; the first head's logits."""
        start = len(self.tokens)
        logits = np.empty((0, self.n_vocab), np.float32)
        for head in reversed(range(self.max_drafted or 1)):
            super().truncate(start)
            self._select(head)
            logits = super().evaluate(tokens, rows if head == 0 else 0)
        self._read = len(self.tokens)
        self._own = [self._row()] if rows else []
        self._hidden.drop_before(self._read - 2)  # the last token is read again where a pass behind it was given up
        return logits

    def _follow(self, token: int) -> Rows:
        """The logits behind a drafted token."""
        if self.max_drafted is None:
            logits = super().evaluate([token], 1)
        else:  # the next head has no cells of this draft yet
            drafted = [*self.tokens[self._read :], token]
            super().truncate(self._read)
            self._select(min(len(drafted), self.max_drafted - 1))
            logits = super().evaluate(drafted, 1)
        self._own.append(self._row())
        return logits

    def _select(self, head: int) -> None:
        if self.max_drafted is not None:
            extension.llama_set_nextn_layer_offset(self.handle, head)

    def _row(self) -> Rows:
        """The heads' hidden row of the token that was evaluated last: float32 [width]."""
        pointer = extension.llama_get_embeddings_nextn_ith(self.handle, -1)
        row: Rows = np.ctypeslib.as_array(pointer, (self.model.width,)).copy()
        return row

    def _decode(self, tokens: Sequence[int], rows: int, at: int | None = None) -> None:
        self._fill_states(len(self.tokens) - 1, len(tokens))
        super()._decode(tokens, rows, at)

    def _batch_of(self, rows: Rows, positions: Any) -> Any:
        """A llama_batch that reads these rows, at these positions, in place of tokens."""
        batch = self._batch.handle
        return llama.llama_batch(
            pos=positions, embd=_pointer(rows), n_seq_id=batch.n_seq_id, seq_id=batch.seq_id, logits=batch.logits
        )

    def _fill_states(self, start: int, n: int) -> None:
        """The rows of n positions from `start` on, with which the tokens behind them are read."""
        for index in range(n):
            self._states[index] = self._hidden_row(start + index)

    def _hidden_row(self, position: int) -> Rows | float:
        """The hidden row of this position: the target's, else the heads' own. Zeros before the first token, and where the
        row is lost."""
        drafted = position + 1 - self._read
        if position < len(self._target.tokens):
            return self._hidden.row(position)
        return self._own[drafted] if 0 <= drafted < len(self._own) else 0.0


class Eagle(Heads):
    """A head in a file of its own that reads the rows of several of its target's layers (EAGLE-3).

    Its encoder makes one row of those of a token, and its one layer reads that together with the token behind it. The way of a
    round is that of draft-eagle3 in llama.cpp's common/speculative.cpp.
    """

    source = "eagle3"

    def __init__(self, model: Model, target: Context, interrupt: Interrupt, **settings: Any) -> None:
        """As `Heads`. `target`: keeps the rows of the layers that the head reads."""
        super().__init__(model, target, interrupt, rows=target.rows, **settings)
        self._features = np.zeros((self._batch.size, self._hidden.width), np.float32)
        self._encoded = self._batch_of(self._features, self._batch.handle.pos)

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

    def _logits(self, rows: int) -> Rows:
        return super()._logits(self._batch.handle.n_tokens)[-rows:] if rows else super()._logits(0)

    def _fill_states(self, start: int, n: int) -> None:
        if start >= len(self._target.tokens) and 0 <= start + 1 - self._read < len(self._own):  # behind a drafted token
            super()._fill_states(start, n)
            return
        for index in range(n):
            self._features[index] = self._hidden.row(start + index)
        self._encoded.n_tokens = n
        self._batch.pos[:n] = range(start + 1, start + 1 + n)
        self._compute(llama.llama_encode, self._encoded)
        states = extension.llama_get_embeddings_nextn(self.handle)
        self._states[:n] = np.ctypeslib.as_array(states, (n, self.model.width))


class DFlash(Heads):
    """A head in a file of its own that foresees a block of tokens in one pass (DFlash).

    Its cells are made of the rows of several of its target's layers, for each token that the target has read. A pass over the
    text's last token and masks behind it foresees a token at each mask. So the first token of a draft costs that pass, and the
    others nothing. The way of a round is that of draft-dflash in llama.cpp's common/speculative.cpp. `tokens`: those in its
    cells, the text's last one, and drafted ones.
    """

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
        self._batch.handle.embd = None  # tokens alone are a block, rows alone become cells
        self._states = np.zeros((self._batch.size, self._hidden.width), np.float32)
        self._positions = np.zeros(4 * self._batch.size, np.int32)  # four for each row, where its target has four
        self._reading = self._batch_of(self._states, self._positions.ctypes.data_as(ctypes.POINTER(llama.llama_pos)))
        llama.llama_set_causal_attn(self.handle, model.metadata(f"{DFLASH}.attention.causal") == "true")

    def evaluate(self, tokens: Sequence[int], rows: int) -> Rows:
        """As `Heads.evaluate`."""
        start, logits = len(self.tokens), np.empty((0, self.n_vocab), np.float32)
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
            logits = self._follow(token)
        return logits

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
        self._batch.logits[:n] = 0
        self._reading.n_tokens = n
        self._compute(llama.llama_decode, self._reading)
        self.tokens.extend(tokens)


class Assistant(Heads):
    """Gemma 4's assistant: a small model that foresees the target's tokens with the target's own cells.

    It has no cells. It attends to those of the target's last two layers, so it never has anything to read: only the target's
    last token but one round, and then those that it drafts, each at the same position, behind the target's. Its embedding is
    the target's; its output matrix is its own. `tokens` are those that it could draft behind, and drafted ones.
    """

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
        logits = Context.evaluate(self, tokens[-1:], 1) if rows else np.empty((0, self.n_vocab), np.float32)
        self._read = len(self.tokens)
        self._own = [self._row()] if rows else []
        return logits

    def _decode(self, tokens: Sequence[int], rows: int, at: int | None = None) -> None:
        super()._decode(tokens, rows, len(self._target.tokens))


def misfit(path: str, target: Model) -> str:
    """Why the head in this file cannot draft for this target, as a sentence; "" if it may.

    llama.cpp asserts what is asked here, when the target's context is told to keep rows, or when the head computes.
    """
    architecture, layers = target.metadata("general.architecture") or "", target.layers - 1
    file = metadata_of(path)
    head = f"The head ({READ_LAYERS.get(file.architecture)}) in {path!r}"
    if architecture not in LAYER_ROWS.split():
        return (
            f"{head} cannot draft: this llama.cpp does not give it the rows of a {architecture}'s layers; use a small model "
            "of the target's family as the draft."
        )
    own = file.number("embedding_length")
    last = layers if architecture in LAST_ROWS.split() else layers - 1
    fits = (file.number("target_hidden_size") or own) == target.width
    fits = fits and all(0 <= layer <= last for layer in layers_read(file))
    if fits and (not borrows(file) or (own, file.n_tokens) == (target.width, target.n_vocab)):
        return ""
    return f"{head} is that of another model: choose the file that was made for this target."


def _pointer(rows: Rows) -> Any:
    return rows.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
