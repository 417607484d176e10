"""Saved states of a context whose memory cannot be cut back to any length: recurrent layers, and sliding windows.

llama.cpp saves such layers apart from the cells of the others, which stay where they are and are only cut back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectui.llama.heads.rows import HiddenRows, Rows
from spectui.llama.library import llama

WHOLE, PARTIAL_ONLY = 0, 1
"""LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: without the cells that can be cut back (llama.h)."""

MOST_BYTES = 1 << 30
"""Of the states that are kept at the ends of messages. One takes some megabytes, and 150 MB for a 27B of Qwen3.5."""

_HEAD = 16
"""Bytes before the tokens of a window: two words of llama.cpp's, the number of streams, and that of the tokens."""

_Bytes = NDArray[np.uint8]
_pointer = ctypes.POINTER(ctypes.c_uint8)


class Checkpoint(NamedTuple):
    """The state after `length` tokens. `hidden`: the last one's hidden row, for heads."""

    length: int
    state: _Bytes
    hidden: Rows | float = 0.0


def saved(context: Any, flags: int, memory: _Bytes | None = None) -> _Bytes | None:
    """The state of a llama_context *, in this memory if its size is right; None if llama.cpp does not save all of it."""
    size = llama.llama_state_seq_get_size_ext(context, 0, flags)
    state: _Bytes = memory if memory is not None and memory.nbytes == size else np.empty(size, np.uint8)
    done = llama.llama_state_seq_get_data_ext(context, state.ctypes.data_as(_pointer), size, 0, flags)
    return state if done == size else None


def restored(context: Any, state: _Bytes, flags: int) -> bool:
    """Whether the context has taken the state."""
    size = state.nbytes
    return bool(size) and llama.llama_state_seq_set_data_ext(context, state.ctypes.data_as(_pointer), size, 0, flags) == size


class Checkpoints:
    """A context's saved states. Those that lie behind a truncation are dropped."""

    def __init__(self, context: Any, rounds: int, ring: int) -> None:
        """`context`: llama_context *. `rounds`: the number of states before the last drafts that are needed: one, or two
        where drafts are made ahead. `ring`: see `Context.ring`."""
        self._context, self._most, self._ring = context, rounds, ring
        self._kept: list[Checkpoint] = []
        self._rounds: list[Checkpoint] = []

    def save(self, length: int) -> None:
        """Save the state before a draft, in the memory of an earlier one: it is tens of megabytes, and a round makes one."""
        oldest = self._rounds.pop(0).state if len(self._rounds) >= self._most else None
        if (state := saved(self._context, PARTIAL_ONLY, oldest)) is not None:
            self._rounds.append(Checkpoint(length, state))

    def keep(self, length: int, hidden: HiddenRows | None) -> None:
        """Keep the state for the prompts of later turns, and as many of the earlier ones as there is room for. `hidden`: what
        the target keeps for heads."""
        if (state := saved(self._context, PARTIAL_ONLY)) is not None:
            self._kept.append(Checkpoint(length, state, hidden.row(length - 1) if hidden is not None else 0.0))
            while sum(checkpoint.state.nbytes for checkpoint in self._kept) > MOST_BYTES:
                del self._kept[0]

    def kept(self, length: int) -> tuple[Checkpoint, ...]:
        """What is to be saved beside the cells of so many tokens: the kept states, and where its cells lie in a ring."""
        now = saved(self._context, PARTIAL_ONLY) if self._ring else None
        return (*self._kept, *((Checkpoint(length, now),) if now is not None else ()))

    def adopt(self, checkpoints: Sequence[Checkpoint]) -> None:
        """These were saved."""
        self._kept = list(checkpoints)

    def restore(self, length: int, hidden: HiddenRows | None) -> int:
        """Restore the last state of at most so many tokens. Returns its length; 0 without one.

        The rest of the context is then to be cut back to that length.
        """
        self.truncate(length)
        for checkpoint in sorted((*self._kept, *self._rounds), key=lambda saved: -saved.length):
            state = _in_ring(checkpoint, self._ring) if self._ring else checkpoint.state
            if restored(self._context, state, PARTIAL_ONLY):
                if hidden is not None:
                    hidden.put(checkpoint.length - 1, checkpoint.hidden)
                return checkpoint.length
        return 0

    def truncate(self, length: int) -> None:
        """Drop the states of more than so many tokens."""
        self._kept = [checkpoint for checkpoint in self._kept if checkpoint.length <= length]
        self._rounds = [checkpoint for checkpoint in self._rounds if checkpoint.length <= length]


def _in_ring(checkpoint: Checkpoint, ring: int) -> _Bytes:
    """The saved tokens of a sliding window, each for the cell that it lay in; empty if the state is of another form.

    llama.cpp saves the window alone, and would put it side by side from the first cell on: attention, which adds in the order
    of the cells, would round otherwise. So the cells of earlier tokens, which the window hides, are restored with zeros, and
    that of the next token as if it were there: it is freed when the context is cut back, and llama.cpp goes on from there.
    """
    state, length = checkpoint.state, checkpoint.length
    begin = state[:_HEAD].view(np.uint32)
    saved = int(begin[-1])
    at = _HEAD + 12 * saved
    tokens = state[_HEAD:at].view(np.int32).reshape(saved, 3)  # position, number of sequences, sequence
    transposed = state[at : at + 4].view(np.uint32).any()
    if begin[-2] != 1 or transposed or (tokens[:, 1] != 1).any():
        return np.empty(0, np.uint8)
    cells = np.zeros((min(length, ring), 3), np.int32)
    cells[:, 0] = length - 1 - (length - 1 - np.arange(len(cells))) % ring
    if length >= ring:
        cells[length % ring, 0] = length
    cells[:, 1] = 1
    parts: list[NDArray[Any]] = [begin[:-1], np.array([len(cells)], np.uint32), cells.ravel(), state[at : at + 8]]
    at += 8
    while at < len(state):  # the type and the bytes of a row, and the rows, of each layer's keys and then values
        size = int(state[at + 4 : at + 12].view(np.uint64)[0])
        rows = np.zeros((len(cells), size), np.uint8)
        rows[tokens[:, 0] % ring] = state[at + 12 : at + 12 + saved * size].reshape(saved, size)
        parts += [state[at : at + 12], rows.ravel()]
        at += 12 + saved * size
    return np.concatenate([part.view(np.uint8) for part in parts])
