"""The likeliest tokens of rows of logits, and the sum of exp(logit) over the vocabulary: what choosing and showing need.

A pass over 150,000 logits in numpy takes .02 ms for a maximum and .1 ms for exp, so that rows are looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
"""Logits of one position: float32 [n_vocab]."""

_LINES = 64
"""A row is looked at as so many lines; a column holds the ids j, j + n, j + 2n ... for n columns."""

_SAMPLED = slice(4, None, 8)
"""Lines that stand for all of them in the sum over a large vocabulary."""

_LARGE = 1 << 16
"""Vocabulary from which the sum is estimated. Measured on 448 rows of Qwen2.5-Coder 0.5B with 40 candidates: probabilities were
off by .003 at most and .0007 root mean square, for a tenth of the time."""


class Candidates(NamedTuple):
    """Of each row the k likeliest tokens, likeliest first, equal ones in the order of their ids.

    A row that holds a NaN or nothing finite has a first logit that is not finite.
    """

    ids: NDArray[np.intp]
    """[rows, k]"""
    logits: Row
    """[rows, k]"""
    log_total: NDArray[np.float64]
    """log of the sum of exp(logit) over the vocabulary; what was not asked for is NaN. [rows]"""


def candidates(rows: Sequence[Row] | Row, k: int, totals: bool = True) -> Candidates:
    """The candidates of these rows, float32 [rows, n_vocab]. `totals`: sum over the vocabulary too."""
    k = min(k, len(rows[0]))
    ids, logits = np.empty((len(rows), k), np.intp), np.empty((len(rows), k), np.float32)
    log_total = np.full(len(rows), np.nan)
    for place, row in enumerate(rows):  # row by row: half a megabyte stays in the processor's cache meanwhile
        ids[place], logits[place], log_total[place] = _of_row(row, k, totals)
    return Candidates(ids, logits, log_total)


def likeliest(row: Row, k: int) -> NDArray[np.intp]:
    """The ids of the k largest logits, largest first; equal logits in the order of their ids. [min(k, n_vocab)]"""
    ids: NDArray[np.intp] = candidates(row[None], k, totals=False).ids[0]
    return ids


def _of_row(row: Row, k: int, totals: bool) -> tuple[NDArray[np.intp], Row, float]:
    """Ids, logits, and the log of the sum of one row.

    The k-th largest of the maxima of columns is no larger than the k-th largest logit, so only columns that reach it have to
    be looked into: .03 ms instead of 1.5 ms for a partition of 150,000 logits.
    """
    columns = row.shape[0] // _LINES
    if columns < 4 * k:
        return _of_short_row(row, k, totals)
    whole = columns * _LINES
    lines, rest = row[:whole].reshape(_LINES, columns), row[whole:]
    maxima = lines.max(axis=0)
    top = np.maximum(maxima.max(), rest.max(initial=-np.inf))
    if not np.isfinite(top):
        return _no_numbers(k)
    bound = np.partition(maxima, -k)[-k]
    held = np.flatnonzero(maxima >= bound)
    found = np.concatenate([lines.take(held, axis=1).ravel(), rest])
    reach = np.flatnonzero(found >= bound)
    reach = reach[np.argsort(-found[reach], kind="stable")[:k]]
    line, column = np.divmod(reach, len(held))
    ids = np.where(line < _LINES, line * columns + held[column], reach - _LINES * len(held) + whole)
    if not totals:
        return ids, found[reach], np.nan
    if row.shape[0] < _LARGE:
        return ids, found[reach], _log_sum(row, top)
    # All of the columns with candidates, the largest of each other column, and of their others every eighth line.
    maxima[held] = -np.inf
    sample = lines[_SAMPLED]
    smaller = sample < maxima
    each = np.vdot(np.exp(sample - top), smaller) / max(1, np.count_nonzero(smaller))
    others = (columns - len(held)) * (_LINES - 1)
    total = np.exp(found - top).sum() + np.exp(maxima - top).sum() + others * each
    return ids, found[reach], float(top + np.log(total))


def _of_short_row(row: Row, k: int, totals: bool) -> tuple[NDArray[np.intp], Row, float]:
    """The same where columns would be too few."""
    top = row.max()
    if not np.isfinite(top):
        return _no_numbers(k)
    ids = np.flatnonzero(row >= np.partition(row, -k)[-k])
    ids = ids[np.argsort(-row[ids], kind="stable")[:k]]
    return ids, row[ids], _log_sum(row, top) if totals else np.nan


def _no_numbers(k: int) -> tuple[NDArray[np.intp], Row, float]:
    return np.zeros(k, np.intp), np.full(k, np.nan, np.float32), np.nan


def _log_sum(row: Row, top: np.float32) -> float:
    """The log of the sum of exp(logit) over the row, whose largest logit is `top`."""
    return float(top + np.log(np.exp(row - top).sum()))
