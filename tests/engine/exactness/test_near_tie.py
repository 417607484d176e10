"""The sentence for a token that differs names both probabilities, and blames the kernels only for what they may have done."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spectui.engine.exactness.near_tie import far_sentence, is_near_tie, kernels_sentence
from spectui.knobs import Knobs
from spectui.speculation.choice import gumbel
from spectui.speculation.records import Token

GREEDY = Knobs(temperature=0.0)


def token(id: int, p: float) -> Token:
    return Token(id, "x", "plain", None, 0, 300, None, p)


def test_the_sentence():
    assert kernels_sentence(0.312, 0.309, GREEDY, strict=False) == (
        "a near-tie, .312 and .309: this machine's kernels round differently in passes of one and of several rows; "
        "--strict avoids it"
    )
    assert "a near-tie with this seed's noise, .8" in kernels_sentence(0.8, 0.1, Knobs(temperature=0.7), strict=False)
    assert kernels_sentence(0.3, 0.3, GREEDY, strict=True).endswith(
        "please report this, because --strict should avoid it"
    )
    assert far_sentence(0.9, 0.01, GREEDY).startswith("no near-tie, .900 and .010: spectui run --verify ")


@pytest.mark.parametrize(("p", "near"), [(0.309, True), (0.2, True), (0.01, False)])
def test_without_noise_the_probabilities_decide(p: float, near: bool):
    assert is_near_tie(token(5, 0.312), token(9, p), GREEDY) is near
    assert is_near_tie(token(5, p), token(9, 0.312), GREEDY) is near


def test_with_noise_unlikely_tokens_tie_with_likely_ones():
    knobs = Knobs(temperature=0.7, seed=4)
    noise = gumbel(4, 300, np.array([5, 9]))
    tied = 0.3 * math.exp(0.7 * (noise[0] - noise[1]))
    assert is_near_tie(token(5, 0.3), token(9, tied), knobs)
    for wrong in (tied / 4, tied * 4):
        assert not is_near_tie(token(5, 0.3), token(9, wrong), knobs)
