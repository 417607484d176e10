"""A target's own heads (multi-token prediction): what they need of the target, and the context in which they draft.

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

from spectui.llama.context import Context, EvaluationError
from spectui.llama.heads.rows import Rows, extension
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import llama
from spectui.llama.model import Model
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
        self._states = np.zeros((self._size, model.width), np.float32)
        self._batch.embd = self._states.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        extension.llama_set_embeddings_nextn(self.handle, True, True)
        number = llama.llama_model_n_layer_nextn(model.handle)
        self.max_drafted = number if number > 1 else None
        target.on_hidden = self._read_along

    def evaluate(self, tokens: Sequence[int], rows: int) -> Rows:
        """As `Context.evaluate`, for one row at most. Tokens that lie more than one behind the target's are drafted ones."""
        start, found = len(self.tokens), np.empty((0, self.n_vocab), np.float32)
        known = max(0, len(self._target.tokens) + 1 - start)
        if not self._target.tokens:  # it has no rows: costs are being measured, of tokens read and then of drafted ones
            known = 0 if start else len(tokens)
        if read := tokens[:known]:
            found = self._read_tokens(read, rows or len(read) < len(tokens))
        for token in tokens[known:]:
            found = self._follow(token)
        return found

    def submit(self, tokens: Sequence[int], rows: int, k: int | None) -> Any:
        found = self.evaluate(tokens, rows)
        return lambda: found

    def truncate(self, length: int) -> None:
        """As `Context.truncate`. Drafted tokens are dropped whatever the length: they are to be read with the target's rows."""
        super().truncate(min(length, self._read))
        self._own = self._own[: len(self.tokens) == self._read]
        self._read = len(self.tokens)

    def clear(self) -> None:
        super().clear()
        self._read, self._own = 0, []

    def close(self) -> None:
        if self.handle:
            self._batch.embd = None  # numpy's
            self._target.on_hidden = None
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
        found = np.empty((0, self.n_vocab), np.float32)
        for head in reversed(range(self.max_drafted or 1)):
            super().truncate(start)
            self._select(head)
            found = super().evaluate(tokens, rows if head == 0 else 0)
        self._read = len(self.tokens)
        self._own = [self._row()] if rows else []
        self._hidden.drop_before(self._read - 2)  # the last token is read again where a pass behind it was given up
        return found

    def _follow(self, token: int) -> Rows:
        """The logits behind a drafted token."""
        if self.max_drafted is None:
            found = super().evaluate([token], 1)
        else:  # the next head has no cells of this draft yet
            drafted = [*self.tokens[self._read :], token]
            super().truncate(self._read)
            self._select(min(len(drafted), self.max_drafted - 1))
            found = super().evaluate(drafted, 1)
        self._own.append(self._row())
        return found

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
