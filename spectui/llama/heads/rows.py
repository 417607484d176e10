"""What a target keeps for its own heads (multi-token prediction)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from llama_cpp import llama_cpp_ext
except (ImportError, AttributeError):  # names of C++ that move from version to version, which it looks up
    extension: Any = None
else:
    extension = llama_cpp_ext

Rows = NDArray[np.float32]


def available() -> bool:
    """Whether this llama.cpp lets heads draft."""
    return extension is not None


class HiddenRows:
    """The target's hidden rows (llama.cpp's h_nextn) of the last tokens that it has evaluated."""

    def __init__(self, context: Any, width: int) -> None:
        """`context`: llama_context *. `width`: of a row."""
        extension.llama_set_embeddings_nextn(context, True, False)
        self.width = width
        self._context = context
        self.first = 0
        """The position of the first row that is kept."""
        self._rows = np.empty((0, width), np.float32)

    def append(self, position: int, n: int) -> None:
        """Keep the rows of the pass over n tokens from this position on that was computed last."""
        pointer = extension.llama_get_embeddings_nextn(self._context)
        rows = np.ctypeslib.as_array(pointer, (n, self.width))
        kept = position - self.first  # a recurrent target may have gone back further than it was asked to
        if 0 <= kept <= len(self._rows):
            self._rows = np.concatenate([self._rows[:kept], rows])
        else:
            self.first, self._rows = position, rows.copy()

    def row(self, position: int) -> Rows | float:
        """float32 [width]; 0.0 if it is not kept."""
        index = position - self.first
        return self._rows[index] if 0 <= index < len(self._rows) else 0.0

    def drop_before(self, position: int) -> None:
        """They have been read."""
        drop = min(position - self.first, len(self._rows))
        if drop > 0:
            self.first += drop
            self._rows = self._rows[drop:]

    def truncate(self, length: int) -> int:
        """Drop what lies behind the first `length` tokens; the length from which the target has to go on.

        The heads need the row of the last token that stays. Where it is not kept, the target reads that token again.
        """
        kept = length - self.first
        if length and not 0 < kept <= len(self._rows):
            length -= 1
            kept = 0
            self.first = length
        self._rows = self._rows[:kept]
        return length


@contextmanager
def none_kept(target: Any) -> Iterator[None]:
    """This target (a `Context`) keeps no hidden rows meanwhile. It is to be empty before and behind it."""
    hidden, target.hidden = target.hidden, None
    extension.llama_set_embeddings_nextn(target.handle, False, False)
    try:
        yield
    finally:
        extension.llama_set_embeddings_nextn(target.handle, True, False)
        target.hidden = hidden
