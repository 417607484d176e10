"""Turns a row of logits into the probabilities that a token is sampled with: llama.cpp's sampler chain, in numpy.

Order and meaning are those of llama.cpp's default chain (common/sampling.cpp): penalties, top-k, top-p, min-p,
temperature. It is written here rather than called there because the draft, the target and the toy models of the tests must
share it, and because it need not build an object for each of 150,000 tokens: a test holds it against llama.cpp's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from spectui.knobs import Knobs
from spectui.speculation.top_k import Row, TopK, top_k

PENALTY_WINDOW = 64
"""Tokens that the penalties look back at (llama.cpp's default penalty_last_n)."""

CONFIDENCE_TOKENS = 10
"""llama.cpp measures p-min on the softmax over the 10 likeliest tokens (common/speculative.cpp)."""


def confidence(likeliest: TopK, token: int) -> float:
    """The token's share among the 10 likeliest of a single row at temperature 1, or 0. p-min is compared with it."""
    ids, best = likeliest.ids[0, :CONFIDENCE_TOKENS].tolist(), likeliest.logits[0, :CONFIDENCE_TOKENS].tolist()
    if token not in ids:
        return 0.0
    own = best[ids.index(token)]
    return 1.0 / sum(exp(logit - own) for logit in best)


def penalties(knobs: Knobs) -> tuple[float, float, float]:
    """The knobs' repeat, presence and frequency penalty."""
    return knobs.repeat_penalty, knobs.presence_penalty, knobs.frequency_penalty


NO_PENALTIES = 1.0, 0.0, 0.0


def penalised(row: Row, knobs: Knobs, history: Sequence[int]) -> Row:
    """The row with the knobs' penalties on the logits of the last 64 tokens; a copy.

    They are divided by the repeat penalty (multiplied where negative). Then the presence penalty is taken from each, and the
    frequency penalty as many times as the token is among the 64.
    """
    row = row.copy()
    ids, counts = np.unique(np.asarray(history[-PENALTY_WINDOW:], dtype=np.intp), return_counts=True)
    ids, counts = ids[ids < row.shape[0]], counts[ids < row.shape[0]]
    row[ids] = _lowered(row[ids], counts, *penalties(knobs))
    return row


def penalised_top_k(likeliest: TopK, knobs: Knobs, history: Sequence[int]) -> TopK:
    """The likeliest tokens of a single row under the knobs' penalties, in their new order.

    Where those only lower logits, all but the last 64 are those of the penalised row. Penalties that raise logits, or no top-k,
    need the whole row.
    """
    if likeliest.whole is not None and whole_vocabulary(knobs):
        return top_k(penalised(likeliest.whole[0], knobs, history)[None], likeliest.ids.shape[1])
    ids, logits = likeliest.ids[0], likeliest.logits[0].copy()
    recent = np.asarray(history[-PENALTY_WINDOW:], dtype=np.intp)
    held = np.isin(ids, recent)
    counts = (ids[held, None] == recent).sum(axis=1)
    logits[held] = _lowered(logits[held], counts, *penalties(knobs))
    order = np.lexsort((ids, -logits))
    return likeliest._replace(ids=ids[order][None], logits=logits[order][None], whole=None)


def whole_vocabulary(knobs: Knobs) -> bool:
    """Whether tokens that are none of the likeliest can be chosen: without top-k, or where a penalty raises logits."""
    raised = knobs.repeat_penalty < 1.0 or knobs.presence_penalty < 0.0 or knobs.frequency_penalty < 0.0
    return raised or (knobs.temperature > 0.0 and not knobs.top_k)


def _lowered(logits: Row, counts: NDArray[np.intp], repeat: float, presence: float, frequency: float) -> Row:
    """The logits of tokens that are among the last 64 so many times, in float32 as llama.cpp computes them."""
    lowered: Row = np.where(logits <= 0, logits * np.float32(repeat), logits / np.float32(repeat))
    lowered -= counts.astype(np.float32) * np.float32(frequency) + np.float32(presence)
    return lowered


def distribution(row: Row, knobs: Knobs) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The tokens that the chain leaves, and their log probabilities. (ids [m], log p [m])

    `row` is already penalised; `knobs.temperature` is above 0.
    """
    # With top-k the share is of what top-k left, without it of everything: each sampler sees what the last one left.
    whole = None
    if knobs.top_k:
        ids = top_k(row[None], knobs.top_k).ids[0]
    elif knobs.top_p < 1.0:
        whole = np.exp(row - row.max()).sum(dtype=np.float64)
        ids = _nucleus(row, knobs.top_p * whole)
    elif knobs.min_p > 0.0:
        bound = np.float32(float(row.max()) + log(knobs.min_p))
        ids = (row >= np.nextafter(bound, np.float32(-np.inf))).nonzero()[0]  # the chain compares in float64
    else:
        ids = np.arange(row.shape[0])
    scores = chain(row[None, ids], knobs, whole)[0]
    left = np.isfinite(scores)
    ids, scores = ids[left], scores[left]
    return ids, scores - np.log(np.exp(scores).sum())


def chain(logits: Row, knobs: Knobs, whole: float | None = None) -> NDArray[np.float64]:
    """What top-p, min-p and temperature make of these tokens' logits: log p but for a constant for each row, -inf for none.

    [rows, m] like `logits`. With top-p the logits are likeliest first, and `whole` is the sum of exp(logit - largest) that
    top-p is a share of, where that is not the sum over these tokens.
    """
    scores = logits.astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    left = np.isfinite(scores)
    if knobs.top_p < 1.0:
        share = np.exp(scores)
        total = share.sum(axis=1, keepdims=True) if whole is None else whole
        left[:, 1:] &= np.cumsum(share, axis=1)[:, :-1] < knobs.top_p * total
    if knobs.min_p > 0.0:
        left &= scores >= np.log(knobs.min_p)
    return np.where(left, scores / knobs.temperature, -np.inf)


def _nucleus(row: Row, share: float) -> NDArray[np.intp]:
    """Enough of the likeliest tokens for a sum of exp(logit - largest) of this much, largest first."""
    k = 256
    ids: NDArray[np.intp]
    while True:
        likeliest = top_k(row[None], k)
        ids, logits = likeliest.ids[0], likeliest.logits[0]
        if np.exp(logits - logits[0]).sum(dtype=np.float64) >= share or len(logits) < k:
            return ids
        k *= 8
