"""The k likeliest tokens of rows of logits, for choices and for display, and the sum of exp(logit) over the vocabulary.

A pass over 150,000 logits in numpy takes .02 ms for a maximum and .1 ms for exp, so that rows are looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite, log, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
"""Logits of one position: float32 [n_vocab]."""

_LINES = 32
"""A row is looked at as so many lines; a column holds the ids j, j + n, j + 2n ... for n columns."""

_SAMPLED = slice(4, None, 8)
"""Lines that stand for all of them in the sum over a large vocabulary."""

LARGE = 1 << 16
"""Vocabulary from which the sum is estimated. Measured on 464 rows of Qwen2.5-Coder 0.5B with k = 40: probabilities were off by
.005 at most and .001 root mean square, for a tenth of the time."""


class TopK(NamedTuple):
    """The k likeliest tokens of each row, sorted by logit, then id.

    A row that holds a NaN or nothing finite has a first logit that is not finite.
    """

    ids: NDArray[np.intp]
    """[rows, k]"""
    logits: Row
    """[rows, k]"""
    sums: Sequence[Callable[[], float]]
    """Of each row: log of the sum of exp(logit) over the vocabulary, calculated when it is asked for. [rows]"""
    whole: NDArray[np.float32] | None = None
    """The rows, [rows, n_vocab]; None where a device kept the likeliest tokens alone."""

    def of(self, index: int) -> TopK:
        """Those of a single row."""
        if len(self.ids) == 1:
            return self
        rows = slice(index, index + 1)
        whole = None if self.whole is None else self.whole[rows]
        return TopK(self.ids[rows], self.logits[rows], self.sums[rows], whole)

    @classmethod
    def kept(cls, ids: NDArray[np.int32], logits: Row, p: Row) -> TopK:
        """From what a device kept: k tokens of each row in any order, and their probabilities. All [rows, k]."""
        order = np.lexsort((ids, -logits))
        rows, k = order.shape
        # Indices into the flat arrays: `take` is faster than an index for each axis.
        order += np.arange(0, rows * k, k)[:, None]
        best = order[:, 0]
        ordered = logits.take(order)
        log_total = ordered[:, 0].astype(np.float64) - np.log(p.take(best))
        if not isfinite(log_total.sum()):
            ordered[~np.isfinite(log_total), 0] = nan  # the softmax of a row without numbers
        return cls(ids.take(order).astype(np.intp), ordered, [partial(float, each) for each in log_total.tolist()])


def top_k(rows: NDArray[np.float32], k: int) -> TopK:
    """The min(k, n_vocab) likeliest tokens of these rows, float32 [rows, n_vocab]."""
    looks = [_look(row, min(k, len(row))) for row in rows]
    if len(looks) == 1:
        ids, logits = looks[0].ids[None], looks[0].logits[None]
    else:
        ids, logits = np.array([each.ids for each in looks]), np.array([each.logits for each in looks])
    return TopK(ids, logits, [each.log_total for each in looks], rows)


class _Look(NamedTuple):
    """The likeliest tokens of a single row, and what the sum over its vocabulary needs."""

    ids: NDArray[np.intp]
    """[k]"""
    logits: Row
    """[k]"""
    row: Row
    top: float
    """The largest logit; not finite if the row holds no numbers."""
    maxima: Row | None = None
    """Of each column; None if the row was not looked at by columns."""
    held: NDArray[np.intp] | None = None
    """The columns that were looked into."""
    found: Row | None = None
    """All logits of those columns, and those behind the last line."""

    def log_total(self) -> float:
        """log of the sum of exp(logit) over the vocabulary; NaN if the row holds no numbers.

        Of a large vocabulary exactly: the columns that were looked into, and the largest of each other column. Of their others,
        every eighth line stands for all.
        """
        top, maxima, held, found = np.float32(self.top), self.maxima, self.held, self.found
        if not isfinite(self.top):
            return nan
        if maxima is None or held is None or found is None:
            shares = self.row - top
            return self.top + log(np.exp(shares, out=shares).sum())
        columns = len(maxima)
        sample = self.row[: columns * _LINES].reshape(_LINES, columns)[_SAMPLED]
        maxima[held] = -np.inf
        smaller = sample < maxima
        shares = np.exp(sample - top)
        shares *= smaller
        each = float(shares.sum()) / max(1, int(np.count_nonzero(smaller)))
        others = (columns - len(held)) * (_LINES - 1)
        total = float(np.exp(found - top).sum()) + float(np.exp(maxima - top).sum()) + others * each
        return self.top + log(total)


def _look(row: Row, k: int) -> _Look:
    """The k likeliest tokens of one row, float32 [n_vocab].

    The k-th largest of the maxima of columns is no larger than the k-th largest logit, so only columns that reach it have to
    be looked into: .02 ms beside the .025 ms for the maxima, instead of 1.5 ms for a partition of 150,000 logits.
    """
    columns = len(row) // _LINES
    if columns < 4 * k:
        return _look_at_all(row, k)
    whole = columns * _LINES
    lines = row[:whole].reshape(_LINES, columns)
    maxima = lines.max(axis=0)
    largest = np.partition(maxima, -k)[-k:]  # a NaN is among the last
    bound = largest[0]
    held = (maxima >= bound).nonzero()[0]
    found = lines.take(held, axis=1).ravel()
    top = largest.max()
    if whole < len(row):
        found = np.concatenate([found, row[whole:]])
        top = np.maximum(top, row[whole:].max())
    if not isfinite(top):
        return _no_numbers(row, k)
    reach = (found >= bound).nonzero()[0]
    reach = reach[(-found[reach]).argsort(kind="stable")[:k]]
    line, column = np.divmod(reach, len(held))
    ids = line * columns + held[column]
    if whole < len(row):
        ids = np.where(line < _LINES, ids, reach - _LINES * len(held) + whole)
    if len(row) < LARGE:
        return _Look(ids, found[reach], row, float(top))
    return _Look(ids, found[reach], row, float(top), maxima, held, found)


def _look_at_all(row: Row, k: int) -> _Look:
    """The same where columns would be too few."""
    top = float(row.max())
    if not isfinite(top):
        return _no_numbers(row, k)
    ids = (row >= np.partition(row, -k)[-k]).nonzero()[0]
    ids = ids[(-row[ids]).argsort(kind="stable")[:k]]
    return _Look(ids, row[ids], row, top)


def _no_numbers(row: Row, k: int) -> _Look:
    return _Look(np.zeros(k, np.intp), np.full(k, np.nan, np.float32), row, nan)
