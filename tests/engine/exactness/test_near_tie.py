"""The sentence for a token that differs names both probabilities, and blames the kernels only for what they may have done."""

import math
from array import array

import numpy as np
import pytest

from spectui.engine.near_tie import is_near_tie, rounding, why
from spectui.knobs import Knobs
from spectui.speculation.noise import gumbel
from spectui.speculation.records import Likeliest, Round, Token

GREEDY = Knobs(temperature=0.0)


def token(id: int, p: float) -> Token:
    return Token(id, "x", "plain", None, 0, 300, None, p)


def row(*shares: float, chosen: int = 1) -> Round:
    """A round of one token; the tokens 1, 2, ... have these probabilities, and the two likeliest are stored of all rows."""
    best = sorted(range(len(shares)), key=lambda n: -shares[n])[:2]
    likeliest = Likeliest(2, array("i", [n + 1 for n in best]).tobytes(), array("f", [shares[n] for n in best]).tobytes(),
                          ("x", "x"))  # fmt: skip
    return Round(0, 300, GREEDY, (), (token(chosen, shares[chosen - 1]),), 0.0, 0.1, 0.0, 0.1, 1, None, likeliest)


def test_the_sentence():
    likely, less = token(5, 0.312), token(9, 0.309)
    assert why(likely, less, GREEDY, 0.25, strict=False) == (
        "a near-tie, .312 and .309: this machine's kernels round differently in passes of one and of several rows; "
        "--strict avoids it"
    )
    warm = why(likely, less, Knobs(temperature=0.7, seed=4), 9.0, strict=False)
    assert warm.startswith("a near-tie with this seed's noise, .312 and .309")
    assert why(likely, less, GREEDY, 0.25, strict=True).endswith("--strict compared such passes they were equal")
    assert why(token(5, 0.9), token(9, 0.01), GREEDY, 0.2, strict=False).endswith("so please report it")
    for unknown in (None, 0.0):
        said = why(token(5, 0.9), token(9, 0.01), GREEDY, unknown, strict=False)
        assert said.startswith("perhaps a near-tie, .900 and .010: no row tells")


def test_what_kernels_differ_by_is_measured_in_the_rows_before():
    plain = [row(0.6, 0.3), row(0.5, 0.4), row(0.9, 0.01)]
    assert rounding(plain, plain, 3) == 0.0
    drafted = [row(0.6, 0.3), row(0.5, 0.2), row(0.01, 0.9)]
    assert rounding(drafted, plain, 1) == 0.0
    assert rounding(drafted, plain, 2) == pytest.approx(math.log(2)), "the third row is that of the difference"
    assert rounding(drafted, plain, 0) is None
    lone = [row(1.0, 0.0001)]
    assert rounding(lone, [row(0.9, 0.0004)], 1) is None, "a token that is always chosen tells nothing"
    unlikely = [row(0.6, 0.3, 0.02, chosen=3)], [row(0.6, 0.3, 0.01, chosen=3)]
    assert rounding(*unlikely, 1) == pytest.approx(math.log(2)), "what was chosen counts too"


def test_a_machine_with_large_differences_has_wider_near_ties():
    one, other = token(5, 0.3), token(9, 0.1)
    assert not is_near_tie(one, other, GREEDY, None)
    assert [is_near_tie(one, other, GREEDY, moved) for moved in (0.0, 0.1, 0.3, 1.5)] == [False, False, True, True]


@pytest.mark.parametrize(("p", "near"), [(0.309, True), (0.2, True), (0.01, False)])
def test_without_noise_the_probabilities_decide(p: float, near: bool):
    assert is_near_tie(token(5, 0.312), token(9, p), GREEDY, 0.25) is near
    assert is_near_tie(token(5, p), token(9, 0.312), GREEDY, 0.25) is near


def test_with_noise_unlikely_tokens_tie_with_likely_ones():
    knobs = Knobs(temperature=0.7, seed=4)
    noise = gumbel(4, 300, np.array([5, 9]))
    tied = 0.3 * math.exp(0.7 * (noise[0] - noise[1]))
    assert is_near_tie(token(5, 0.3), token(9, tied), knobs, 0.25)
    for wrong in (tied / 4, tied * 4):
        assert not is_near_tie(token(5, 0.3), token(9, wrong), knobs, 0.25)
