"""All that a context holds of its tokens, outside of llama.cpp, so that it can go on behind them later with the same bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectui.llama.cells import checkpoints
from spectui.llama.cells.checkpoints import WHOLE, Checkpoint
from spectui.llama.context import Context


class SavedState(NamedTuple):
    """`key`: what the cells depend on beside the tokens. `checkpoints`: that of all tokens, with all cells, and those of a
    context that cannot be cut back to any length."""

    key: str
    tokens: NDArray[np.int32]
    checkpoints: tuple[Checkpoint, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.tokens.nbytes + sum(checkpoint.state.nbytes for checkpoint in self.checkpoints)


def save(context: Context, key: str) -> SavedState | None:
    """The present state, copied from the devices; None if llama.cpp does not save all of it."""
    context.truncate(len(context.tokens))  # heads drop what they have drafted
    length = len(context.tokens)
    if not length or (cells := checkpoints.saved(context.handle, WHOLE)) is None:
        return None
    hidden = np.array(context.hidden.row(length - 1) if context.hidden is not None else 0.0, np.float32)
    whole = Checkpoint(length, cells, hidden)
    return SavedState(key, np.array(context.tokens, np.int32), (whole, *context.checkpoints.kept(length)))


def restore(context: Context, state: SavedState) -> bool:
    """Go on behind these tokens. False where llama.cpp does not take the state: the context is then empty."""
    context.clear()
    whole, *others = state.checkpoints
    if len(state.tokens) > context.n_ctx or not checkpoints.restored(context.handle, whole.state, WHOLE):
        context.clear()
        return False
    context.adopt(state.tokens.tolist(), others)
    if context.hidden is not None and np.ndim(whole.hidden):
        context.hidden.put(whole.length - 1, whole.hidden)
    return True
