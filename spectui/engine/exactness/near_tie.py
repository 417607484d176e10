"""The sentence for a token that differs between decoding with and without drafts, although no knob may change the text."""

from __future__ import annotations

import math

import numpy as np

from spectui.knobs import Knobs
from spectui.speculation.choice import gumbel
from spectui.speculation.records import Token

_NEAR = 1.0
"""Logits between two tokens of a near-tie. The differences that kernels make were measured: 0.6 to 0.8 for most models."""


def is_near_tie(one: Token, other: Token, knobs: Knobs) -> bool:
    """Whether two tokens at one position are so nearly equally good that the roundings of kernels may decide between them.

    Compares what the choice compares, from each token's probability in its own pass. A repeat penalty is left out.
    """
    noise = gumbel(knobs.seed, one.position, np.array([one.id, other.id])) * max(knobs.temperature, 0.0)
    logits = [math.log(max(token.p_target, 1e-30)) for token in (one, other)]
    return bool(abs(logits[0] + noise[0] - logits[1] - noise[1]) < _NEAR)


def kernels_sentence(drafted: float, plain: float, knobs: Knobs, strict: bool) -> str:
    """The sentence if rounding decided. Takes the probabilities of one token in a drafted pass and of the other in a plain
    one."""
    advice = "please report this, because --strict should avoid it" if strict else "--strict avoids it"
    return (
        f"a near-tie{_noise(knobs)}, {_decimals(drafted)} and {_decimals(plain)}: this machine's kernels round differently in"
        f" passes of one and of several rows; {advice}"
    )


def far_sentence(drafted: float, plain: float, knobs: Knobs) -> str:
    """The sentence if the tokens are too far apart for rounding to decide."""
    return (
        f"no near-tie{_noise(knobs)}, {_decimals(drafted)} and {_decimals(plain)}: spectui run --verify tells whether kernels"
        " explain it"
    )


def _noise(knobs: Knobs) -> str:
    return " with this seed's noise" if knobs.temperature > 0 else ""


def _decimals(p: float) -> str:
    """A probability as .312."""
    return f"{p:.3f}".removeprefix("0")
