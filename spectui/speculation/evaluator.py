"""What the algorithm needs of a model: a KV cache that can be extended and cut back, and logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spectui.speculation.top_k import TopK

Cancelled = Callable[[], bool]
"""Asked between passes: has a person stopped the reply?"""

Ends = Callable[[int], bool]
"""Asked of a token: does it end the reply?"""


class Interrupted(Exception):
    """A pass was given up because a person stopped the reply; the KV cache is as before."""


class Evaluator(Protocol):
    """A model with its KV cache. `llama.context.Context` is the real one; the tests have toys.

    `ring`: number of cells of a KV cache that is filled over and over; a draft must not extend over its end. `max_drafted`:
    most tokens that it may draft in a round; None for any number. One whose device may compute by itself has a method `submit`
    too, and `asynchronous`, which says whether it does.
    """

    n_vocab: int
    n_ctx: int
    """Most tokens that the KV cache holds."""
    chunk: int
    """Most tokens to evaluate at once: between two chunks of a prompt the caller asks whether to continue."""
    tokens: list[int]
    """The tokens in the KV cache, in order. Read it; only `evaluate` and `truncate` change it."""

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        """Append the tokens to the KV cache and return the logits after each of the last `rows` of them.

        float32 [rows, n_vocab], a view that the next call makes invalid. Raises SpectuiError; the KV cache is then as before.
        """

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens; recurrent models, which cannot drop single tokens, may keep fewer (see `tokens`)."""


class Submit(Protocol):
    """`Evaluator.submit`, of evaluators that have it."""

    def __call__(self, tokens: Sequence[int], rows: int, k: int | None) -> Callable[[], NDArray[np.float32] | TopK]:
        """Append the tokens as `evaluate` does. A device of its own computes them while Python continues.

        The returned function waits for it, and returns the logits after each of the last `rows` tokens: the k likeliest of
        each row, if k is given and the device can find them, else whole rows. It is to be called before the next evaluation.
        Both raise what `evaluate` raises.
        """


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens a and b begin with in common."""
    end = min(len(a), len(b))
    common = 0
    # Slices compare in C: each step is half of the one before.
    for step in (1 << bit for bit in range(end.bit_length() - 1, -1, -1)):
        if common + step <= end and a[common : common + step] == b[common : common + step]:
            common += step
    return common


def feed(model: Evaluator, tokens: Sequence[int], cancelled: Cancelled, progress: Callable[[int], None] | None = None) -> None:
    """Evaluate these tokens, keeping the common prefix in the KV cache. Returns early when cancelled.

    `progress` gets the length of the KV cache after each chunk.
    """
    model.truncate(common_prefix(model.tokens, tokens))
    while len(model.tokens) < len(tokens) and not cancelled():
        start = len(model.tokens)
        model.evaluate(tokens[start : start + model.chunk], rows=0)
        if progress is not None:
            progress(len(model.tokens))
