"""All that a context holds of its tokens, outside of llama.cpp, so that it can go on behind them later with the same bits."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectui.llama.cells.checkpoints import Checkpoint
from spectui.llama.context import Context
from spectui.llama.library import llama

_Bytes = NDArray[np.uint8]
_pointer = ctypes.POINTER(ctypes.c_uint8)


class SavedState(NamedTuple):
    """`cells`: what llama.cpp saves of the tokens. `checkpoints`: of a context that cannot be cut back to any length. `hidden`:
    the last token's hidden row, float32 [width], for heads; [0] without heads."""

    tokens: NDArray[np.int32]
    cells: _Bytes
    hidden: NDArray[np.float32]
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        kept = sum(checkpoint.state.nbytes for checkpoint in self.checkpoints)
        return self.tokens.nbytes + self.cells.nbytes + self.hidden.nbytes + kept


def save(context: Context) -> SavedState | None:
    """The present state, copied from the devices; None if llama.cpp does not save all of it."""
    context.truncate(len(context.tokens))  # heads drop what they have drafted
    size = llama.llama_state_seq_get_size(context.handle, 0)
    cells: _Bytes = np.empty(size, np.uint8)
    if not context.tokens or llama.llama_state_seq_get_data(context.handle, cells.ctypes.data_as(_pointer), size, 0) != size:
        return None
    length = len(context.tokens)
    hidden = context.hidden.row(length - 1) if context.hidden is not None else 0.0
    row = hidden.copy() if isinstance(hidden, np.ndarray) else np.empty(0, np.float32)
    return SavedState(np.array(context.tokens, np.int32), cells, row, context.checkpoints.kept(length))


def restore(context: Context, state: SavedState) -> bool:
    """Go on behind these tokens. False where llama.cpp does not take the state: the context is then empty."""
    context.clear()
    size = state.cells.nbytes
    if len(state.tokens) > context.n_ctx:
        return False
    if llama.llama_state_seq_set_data(context.handle, state.cells.ctypes.data_as(_pointer), size, 0) != size:
        context.clear()
        return False
    context.adopt(state.tokens.tolist(), state.checkpoints)
    if context.hidden is not None and len(state.hidden):
        context.hidden.put(len(state.tokens) - 1, state.hidden)
    return True
