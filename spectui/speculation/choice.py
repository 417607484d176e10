"""The choice rule: one token from a row of logits, by the target and the seed alone.

At temperature 0 the likeliest token. Above it `argmax_i(log p_i + G(seed, position, i))` with Gumbel noise from a
counter-based hash: an exact sample of p (the Gumbel-max trick; Maddison et al. 2014, arXiv:1411.0030), and the *same*
sample however many tokens were evaluated in the pass. A draft that chooses with the same noise at the same positions
agrees with probability at least (1-TV)/(1+TV) (Daliri et al. 2024, arXiv:2408.07978), and no knob of speculation can
change the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.candidates import Candidates, Row, candidates
from spectui.speculation.sampling import CONFIDENCE_TOKENS, chain, confidence, distribution, penalised

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

LIKELIEST = 5
"""Tokens that are recorded of each row: 60 bytes."""

_LOOKED_AT = 40
"""Least number of candidates, for the sum over the vocabulary (see `candidates`)."""

_TOGETHER = 4
"""Rows that are chosen at once: rows behind the first disagreement are wasted work."""


class NumericsError(SpectuiError):
    """The model's logits are not numbers."""


class Choice(NamedTuple):
    """The target's token at a position, its probability at temperature 1, and the same of the likeliest tokens."""

    token: int
    p: float
    ids: NDArray[np.intp]
    shares: NDArray[np.float64]


def choose(row: Row, knobs: Knobs, position: int, history: Sequence[int]) -> int:
    """The token at this absolute position. `history`: the tokens before it, for the repeat penalty.

    Raises NumericsError if the logits hold a NaN or nothing finite.
    """
    row = penalised(row, knobs.repeat_penalty, history)
    if knobs.temperature <= 0.0:
        best = int(row.argmax())  # a NaN if there is one
        _check(row[best])
        return best
    if knobs.top_k:
        found = candidates(row[None], knobs.top_k, totals=False)
        _check(found.logits[0, 0])
        return int(_pick(found, knobs, position)[0])
    _check(row.max())
    ids, log_p = distribution(row, knobs)
    return int(ids[(log_p + gumbel(knobs.seed, position, ids)).argmax()])


def choose_rows(rows: NDArray[np.float32], knobs: Knobs, history: Sequence[int]) -> Iterator[Choice]:
    """The choices after `history` from the rows of a pass, [rows, n_vocab], to be asked for one after the other.

    Before the next one is asked for, `history` must have got the token. Raises NumericsError as `choose` does.
    """
    k = max(_LOOKED_AT, knobs.top_k if knobs.temperature > 0.0 else 0)
    for start in range(0, len(rows), _TOGETHER):
        block, position = rows[start : start + _TOGETHER], len(history)
        found = candidates(block, k)
        shares = np.exp(found.logits[:, :LIKELIEST] - found.log_total[:, None])
        likeliest = found.logits[:, 0].tolist()
        tokens = _pick(found, knobs, position).tolist() if _independent(knobs) else None
        for index, row in enumerate(block):
            _check(likeliest[index])
            token = choose(row, knobs, position + index, history) if tokens is None else tokens[index]
            p = exp(row.item(token) - found.log_total.item(index))
            yield Choice(token, p, found.ids[index, :LIKELIEST], shares[index])


def choose_draft(row: Row, knobs: Knobs, position: int, history: Sequence[int]) -> tuple[int, float]:
    """What a draft model chooses, by the same rule, and its confidence in that. Raises what `choose` raises."""
    if not _independent(knobs):
        token = choose(row, knobs, position, history)
        return token, confidence(candidates(row[None], CONFIDENCE_TOKENS, totals=False), token)
    found = candidates(row[None], max(CONFIDENCE_TOKENS, knobs.top_k if knobs.temperature > 0.0 else 0), totals=False)
    _check(found.logits[0, 0])
    token = int(_pick(found, knobs, position)[0])
    return token, confidence(found, token)


def _independent(knobs: Knobs) -> bool:
    """Can the candidates of a row alone tell the choice?"""
    return knobs.repeat_penalty == 1.0 and (knobs.temperature <= 0.0 or knobs.top_k > 0)


def _pick(found: Candidates, knobs: Knobs, position: int) -> NDArray[np.intp]:
    """The choice from the candidates of each row; the first row is for this position. [rows]"""
    tokens: NDArray[np.intp] = found.ids[:, 0].copy()
    if knobs.temperature <= 0.0:
        return tokens
    ids, logits = found.ids[:, : knobs.top_k], found.logits[:, : knobs.top_k]
    if knobs.min_p > 0.0:  # mostly it leaves a single token
        rows = np.flatnonzero((logits[:, :2].astype(np.float64) - logits[:, :1] >= np.log(knobs.min_p)).all(axis=1))
    else:
        rows = np.arange(len(ids))
    if len(rows):
        ids = ids[rows]
        scores = chain(logits[rows], knobs) + gumbel(knobs.seed, rows + position, ids)
        tokens[rows] = ids[np.arange(len(rows)), scores.argmax(axis=1)]
    return tokens


def _check(logit: float) -> None:
    """Raise NumericsError if a row's largest logit is no number."""
    if not isfinite(logit):
        raise NumericsError(
            "The model computed logits that are not numbers: the file may be damaged, or the device may fail; "
            "try --flash-attn off, another device or another file."
        )


def gumbel(seed: int, position: int | NDArray[np.intp], ids: NDArray[np.intp]) -> NDArray[np.float64]:
    """Standard Gumbel noise for these token ids at this position: a pure function of its arguments. [m] like `ids`

    For ids [rows, m] there is a position for each row.
    """
    mixed = _mix(seed)
    if isinstance(position, int):
        bits = np.uint64(_mix(mixed + position * _GOLDEN))
    else:
        bits = np.array([_mix(mixed + each * _GOLDEN) for each in position.tolist()], np.uint64)[:, None]
    bits = bits + (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


def _mix(value: int) -> int:
    """One step of splitmix64 (Steele et al. 2014) on a Python integer."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
