"""From a row of logits to the probabilities that a token is chosen by: llama.cpp's sampler chain, in numpy.

Order and meaning are those of llama.cpp's default chain (common/sampling.cpp): penalties, top-k, top-p, min-p,
temperature. It is written here rather than called there because the draft, the target and the toy models of the tests must
share it, and because it need not build an object for each of 150,000 tokens: a test holds it against llama.cpp's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spectui.knobs import Knobs

Row = NDArray[np.float32]
"""Logits of one position: float32 [n_vocab]."""

PENALTY_WINDOW = 64
"""Tokens that the repeat penalty looks back at (llama.cpp's default penalty_last_n)."""

CONFIDENCE_TOKENS = 10
"""llama.cpp measures p-min on the softmax over the 10 likeliest tokens (common/speculative.cpp)."""

_BLOCK = 128


def likeliest(row: Row, k: int) -> NDArray[np.intp]:
    """The ids of the k largest logits, largest first; equal logits in the order of their ids. [min(k, n_vocab)]

    The k-th largest of the maxima of columns is no larger than the k-th largest logit, so only columns that reach it have to
    be looked into: 0.02 ms instead of 1.5 ms for a partition of 150,000 logits. Column j of n holds the ids j, j + n,
    j + 2n ...: taken down such columns, maxima are computed many at once.
    """
    n = row.shape[0]
    if n > 4 * _BLOCK and k * 4 <= n // _BLOCK:
        columns = n // _BLOCK
        whole = columns * _BLOCK
        maxima = row[:whole].reshape(_BLOCK, columns).max(axis=0)
        bound = np.partition(maxima, -k)[-k]
        held = (np.arange(0, whole, columns)[:, None] + np.flatnonzero(maxima >= bound)).ravel()
        ids = np.concatenate([held, np.arange(whole, n)])
        ids = ids[row[ids] >= bound]
    elif k < n:
        ids = np.flatnonzero(row >= np.partition(row, -k)[-k])
    else:
        ids = np.arange(n)
    return ids[np.argsort(-row[ids], kind="stable")][:k]


def probability(row: Row, token: int) -> float:
    """The token's probability at temperature 1 over the whole vocabulary."""
    return 1.0 / float(np.exp(row - row[token]).sum())


def confidence(row: Row, token: int) -> float:
    """The token's share among the 10 likeliest at temperature 1: what p-min is compared with. 0 outside those ten."""
    best = row[likeliest(row, CONFIDENCE_TOKENS)]
    if row[token] < best[-1]:
        return 0.0
    return float(1.0 / np.exp((best - row[token]).astype(np.float64)).sum())


def penalised(row: Row, penalty: float, history: Sequence[int]) -> Row:
    """The row with the logits of the last 64 tokens divided by the penalty (multiplied where negative); a copy."""
    if penalty == 1.0 or not len(history):
        return row
    row = row.copy()
    ids = np.unique(np.asarray(history[-PENALTY_WINDOW:], dtype=np.intp))
    ids = ids[ids < row.shape[0]]
    logits = row[ids]
    row[ids] = np.where(logits <= 0, logits * penalty, logits / penalty)
    return row


def distribution(row: Row, knobs: Knobs) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The tokens that the chain leaves, likeliest first, and their log probabilities. (ids [m], log p [m])

    `row` is already penalised; `knobs.temperature` is above 0.
    """
    if knobs.top_k:
        ids = likeliest(row, knobs.top_k)
    elif knobs.top_p < 1.0:
        ids = _nucleus(row, knobs.top_p)
    else:
        ids = np.arange(row.shape[0])
    logits = row[ids].astype(np.float64)
    top = logits.max()
    if knobs.top_p < 1.0:
        share = np.exp(logits - top)
        # With top-k the share is of what top-k left, without it of everything: each sampler sees what the last one left.
        total = share.sum() if knobs.top_k else np.exp(row - np.float32(top)).sum(dtype=np.float64)
        last = int(np.searchsorted(np.cumsum(share), knobs.top_p * total)) + 1
        ids, logits = ids[:last], logits[:last]
    if knobs.min_p > 0.0:
        kept = logits >= top + np.log(knobs.min_p)
        ids, logits = ids[kept], logits[kept]
    logits = (logits - top) / knobs.temperature
    return ids, logits - np.log(np.exp(logits).sum())


def _nucleus(row: Row, top_p: float) -> NDArray[np.intp]:
    """Enough of the likeliest tokens to hold the share top_p of the whole vocabulary, largest first."""
    total = np.exp(row - row.max()).sum(dtype=np.float64)
    k = 256
    while True:
        ids = likeliest(row, k)
        held = np.exp(row[ids] - row[ids[0]]).sum(dtype=np.float64)
        if held >= top_p * total or len(ids) < k:
            return ids
        k *= 8
