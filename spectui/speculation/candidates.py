"""The likeliest tokens of rows of logits, and the sum of exp(logit) over the vocabulary, for choices and for display.

A pass over 150,000 logits in numpy takes .02 ms for a maximum and .1 ms for exp, so that rows are looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
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
"""Vocabulary from which the sum is estimated. Measured on 464 rows of Qwen2.5-Coder 0.5B with 40 candidates: probabilities were
off by .005 at most and .001 root mean square, for a tenth of the time."""


class Candidates(NamedTuple):
    """The k likeliest tokens of each row, sorted by probability, then id.

    A row that holds a NaN or nothing finite has a first logit that is not finite.
    """

    ids: NDArray[np.intp]
    """[rows, k]"""
    logits: Row
    """[rows, k]"""
    log_total: NDArray[np.float64]
    """log of the sum of exp(logit) over the vocabulary; what was not asked for is NaN. [rows]"""

    def of(self, index: int) -> Candidates:
        """Those of a single row."""
        rows = slice(index, index + 1)
        return Candidates(self.ids[rows], self.logits[rows], self.log_total[rows])

    @classmethod
    def ordered(cls, ids: NDArray[np.int32], logits: Row, p: Row) -> Candidates:
        """From the k likeliest tokens of each row in any order, and their probabilities. All [rows, k]."""
        order = np.lexsort((ids, -logits))
        rows, k = order.shape
        # Indices into the flat arrays: `take` is faster than an index for each axis.
        order += np.arange(0, rows * k, k)[:, None]
        best = order[:, 0]
        log_total = logits.take(best).astype(np.float64) - np.log(p.take(best))
        return cls(ids.take(order).astype(np.intp), logits.take(order), log_total)

    @classmethod
    def joined(cls, looks: Sequence[Likely]) -> Candidates:
        """Those of several rows, without sums."""
        if len(looks) == 1:
            ids, logits = looks[0].ids[None], looks[0].logits[None]
        else:
            ids, logits = np.array([each.ids for each in looks]), np.array([each.logits for each in looks])
        return cls(ids, logits, np.full(len(looks), nan))


class Likely(NamedTuple):
    """The candidates of a single row, and what the sum over its vocabulary needs."""

    ids: NDArray[np.intp]
    """[k], in the order of `Candidates`."""
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

        Of a large vocabulary exactly: the columns with candidates, and the largest of each other column. Of their others, every
        eighth line stands for all.
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


def candidates(rows: Sequence[Row] | Row, k: int, totals: bool = True) -> Candidates:
    """The candidates of these rows, float32 [rows, n_vocab]. `totals`: sum over the vocabulary too."""
    looks = [look(row, k) for row in rows]
    found = Candidates.joined(looks)
    return found._replace(log_total=np.array([each.log_total() for each in looks])) if totals else found


def likeliest(row: Row, k: int) -> NDArray[np.intp]:
    """The ids of the k largest logits, largest first; equal logits in the order of their ids. [min(k, n_vocab)]"""
    return look(row, k).ids


def look(row: Row, k: int) -> Likely:
    """The min(k, n_vocab) likeliest tokens of one row, float32 [n_vocab].

    The k-th largest of the maxima of columns is no larger than the k-th largest logit, so only columns that reach it have to
    be looked into: .02 ms beside the .025 ms for the maxima, instead of 1.5 ms for a partition of 150,000 logits.
    """
    k = min(k, len(row))
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
        return Likely(ids, found[reach], row, float(top))
    return Likely(ids, found[reach], row, float(top), maxima, held, found)


def _look_at_all(row: Row, k: int) -> Likely:
    """The same where columns would be too few."""
    top = float(row.max())
    if not isfinite(top):
        return _no_numbers(row, k)
    ids = (row >= np.partition(row, -k)[-k]).nonzero()[0]
    ids = ids[(-row[ids]).argsort(kind="stable")[:k]]
    return Likely(ids, row[ids], row, top)


def _no_numbers(row: Row, k: int) -> Likely:
    return Likely(np.zeros(k, np.intp), np.full(k, np.nan, np.float32), row, nan)
