"""Gumbel noise from a counter-based hash: a pure function of seed, position and token."""

from __future__ import annotations

from functools import lru_cache
from math import exp, expm1

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Factors of splitmix64 (Steele et al. 2014)."""

_BLOCK = 1 << 14
"""Ids that are hashed at once: as many as the processor's cache holds."""


def gumbel(seed: int, position: int | NDArray[np.intp], ids: NDArray[np.intp]) -> NDArray[np.float64]:
    """Standard Gumbel noise for these token ids at this position. [m] like `ids`

    For ids [rows, m] there is a position for each row.
    """
    mixed = _mix(seed)
    positions = [position] if isinstance(position, int) else position.tolist()
    rows = np.array([_mix(mixed + position * _GOLDEN) for position in positions], np.uint64)[:, None]
    bits = _hashed((rows if ids.ndim > 1 else rows[0]) + (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN))
    bits ^= bits >> np.uint64(31)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


def perhaps_louder(seed: int, position: int, noise: float, n: int) -> NDArray[np.intp]:
    """The ids below n whose noise here is above this, and perhaps a few whose noise is a little below.

    Only their hashes are calculated. Noise rises with the hash, and the last step of the hash changes none of its upper 31
    bits, so that those decide.
    """
    share = -expm1(-exp(min(-noise, 30.0)))  # of ids whose noise is louder
    bound = np.uint64(max(0, int((1.0 - share) * 2.0**31) - 1) << 33)
    steps, counter = _steps(n), np.uint64(_mix(_mix(seed) + position * _GOLDEN))
    blocks = range(0, n, _BLOCK)
    louder = [(_hashed(steps[start : start + _BLOCK] + counter) >= bound).nonzero()[0] + start for start in blocks]
    return np.concatenate(louder)


def _hashed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's mixing of these bits, in place, but for its last step."""
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(_FIRST)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(_SECOND)
    return bits


@lru_cache(2)
def _steps(n: int) -> NDArray[np.uint64]:
    """What each of the ids below n adds to the counter of a position."""
    steps: NDArray[np.uint64] = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return steps


def _mix(value: int) -> int:
    """One step of splitmix64 on a Python integer."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)
