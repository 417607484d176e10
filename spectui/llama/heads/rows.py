"""What a target keeps for the heads that draft for it: what comes out of its last layer (MTP), or goes into some of them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectui.llama.library import llama, symbol

extension: Any = import_module("llama_cpp.llama_cpp_ext")  # behind `library`, which refuses other versions

Rows = NDArray[np.float32]


def _bound(name: str, on_windows: str, result: Any, *arguments: Any) -> Any:
    """A function of llama.cpp's src/llama-ext.h that llama_cpp does not bind, by its two names."""
    return symbol(on_windows if sys.platform == "win32" else name, result, *arguments)


set_layer = _bound(
    "_Z30llama_set_embeddings_layer_inpP13llama_contextjb", "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_bool,
)  # fmt: skip
get_layer = _bound(
    "_Z30llama_get_embeddings_layer_inpP13llama_contextj", "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
    ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_uint32,
)  # fmt: skip


class HiddenRows:
    """The target's hidden rows of the last tokens that it has evaluated: llama.cpp's h_nextn, or what goes into some layers."""

    def __init__(self, context: Any, width: int, layers: Sequence[int] = ()) -> None:
        """`context`: llama_context *. `width`: numbers of a layer's row. `layers`: those whose rows are kept, one behind the
        other; the one behind the last is h_nextn. () is h_nextn alone."""
        self._context, self._part = context, width
        last = llama.llama_model_n_layer(llama.llama_get_model(context))
        self._layers = [None if layer == last else layer for layer in layers] or [None]
        self.width = width * len(self._layers)
        self.first = 0
        """The position of the first row that is kept."""
        self._rows = np.empty((0, self.width), np.float32)  # the first of them are kept
        self._number = 0
        self.on_rows: Callable[[], None] | None = None
        """Called when there are more of them."""
        self.keep(True)

    def keep(self, on: bool) -> None:
        """Let the next passes give the rows, or not."""
        for layer in self._layers:
            if layer is None:
                extension.llama_set_embeddings_nextn(self._context, on, False)
            else:
                set_layer(self._context, layer, on)

    def append(self, position: int, n: int) -> None:
        """Keep the rows of the pass over n tokens from this position on that was computed last."""
        kept = position - self.first  # a recurrent target may have gone back further than it was asked to
        if not 0 <= kept <= self._number:
            self.first, kept = position, 0
        self._number = kept + n
        if self._number > len(self._rows):  # and more, so that a token more seldom moves those before it
            before, self._rows = self._rows, np.empty((self._number + self._number // 4, self.width), np.float32)
            self._rows[:kept] = before[:kept]
        for index, layer in enumerate(self._layers):
            nextn = layer is None
            pointer = extension.llama_get_embeddings_nextn(self._context) if nextn else get_layer(self._context, layer)
            part = slice(index * self._part, (index + 1) * self._part)
            self._rows[kept : self._number, part] = np.ctypeslib.as_array(pointer, (n, self._part))
        if self.on_rows is not None:
            self.on_rows()

    def row(self, position: int) -> Rows | float:
        """float32 [width]; 0.0 if it is not kept."""
        index = position - self.first
        return self._rows[index] if 0 <= index < self._number else 0.0

    def put(self, position: int, row: Rows | float) -> None:
        """Keep this row alone: the target has gone back to a state that was saved behind it."""
        self.first, self._number = position, 1
        self._rows = np.full((1, self.width), row, np.float32)

    def drop_before(self, position: int) -> None:
        """They have been read."""
        drop = min(position - self.first, self._number)
        if drop > 0:
            self.first += drop
            self._number -= drop
            self._rows[: self._number] = self._rows[drop : drop + self._number].copy()

    def truncate(self, length: int) -> int:
        """Drop what lies behind the first `length` tokens; the length from which the target has to go on.

        The heads need the row of the last token that stays. Where it is not kept, the target reads that token again.
        """
        kept = length - self.first
        if length and not 0 < kept <= self._number:
            length -= 1
            kept = 0
            self.first = length
        self._number = max(0, kept)
        return length
