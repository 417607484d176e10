"""The choice rule: one token from a row of logits, by the target and the seed alone.

At temperature 0 the likeliest token. Above it `argmax_i(log p_i + G(seed, position, i))` with Gumbel noise from a
counter-based hash: an exact sample of p (the Gumbel-max trick; Maddison et al. 2014, arXiv:1411.0030), and the *same*
sample however many tokens were evaluated in the pass. A draft that chooses with the same noise at the same positions
agrees with probability at least (1-TV)/(1+TV) (Daliri et al. 2024, arXiv:2408.07978), and no knob of speculation can
change the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.sampling import Row, distribution, penalised

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class NumericsError(SpectuiError):
    """The model's logits are not numbers."""


def choose(row: Row, knobs: Knobs, position: int, history: Sequence[int]) -> int:
    """The token at this absolute position. `history`: the tokens before it, for the repeat penalty.

    Raises NumericsError if the logits hold a NaN or nothing finite.
    """
    row = penalised(row, knobs.repeat_penalty, history)
    best = int(row.argmax())
    if not np.isfinite(row[best]):  # argmax finds a NaN if there is one
        raise NumericsError(
            "The model computed logits that are not numbers: the file may be damaged, or the device may fail; "
            "try --flash-attn off, another device or another file."
        )
    if knobs.temperature <= 0.0:
        return best
    ids, log_p = distribution(row, knobs)
    if len(ids) == 1:
        return int(ids[0])
    return int(ids[(log_p + gumbel(knobs.seed, position, ids)).argmax()])


def gumbel(seed: int, position: int, ids: NDArray[np.intp]) -> NDArray[np.float64]:
    """Standard Gumbel noise for these token ids at this position: a pure function of its arguments. [len(ids)]"""
    key = np.uint64(_mix(_mix(seed) + position * _GOLDEN))
    bits = key + (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
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
