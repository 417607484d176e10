"""The rule that says which of two is faster, on numbers."""

from math import exp, log

import pytest

from spectui.measure.verdict import Pairs, judge, quantile


def said(pairs: Pairs) -> str:
    return judge(pairs).of("auto", "plain")


@pytest.mark.parametrize(
    ("chance", "free", "t"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 3, 3.182), (0.975, 8, 2.306), (0.995, 10, 3.169), (0.975, 100, 1.984)],
)
def test_the_quantiles_are_those_of_students_table(chance, free, t):
    assert quantile(chance, free) == pytest.approx(t, abs=5e-4)


def test_the_interval_of_a_few_pairs_is_students():
    found = judge({"a": [0.1, 0.2, 0.3]})
    half = 4.303 * 0.1 / 3**0.5
    assert (found.ratio, found.low, found.high) == pytest.approx((exp(0.2), exp(0.2 - half), exp(0.2 + half)), rel=1e-3)
    many = judge({"a": [0.1, 0.2, 0.3]}, among=10)
    assert many.ratio == found.ratio and log(many.high / many.low) > 3 * log(found.high / found.low)


def test_prompts_that_differ_are_no_noise_if_each_has_two_pairs():
    assert judge({"a": [0.50, 0.52], "b": [-0.20, -0.18]}).faster
    assert not judge({"a": [0.51], "b": [-0.19]}).told
    once = judge({"a": [0.51], "b": [-0.19], "c": [0.2]})
    assert (once.low, once.high) == pytest.approx(judge({"": [0.51, -0.19, 0.2]})[1:3])


def test_every_prompt_counts_the_same():
    assert judge({"a": [0.3, 0.3, 0.3, 0.3], "b": [0.1, 0.1]}).ratio == pytest.approx(exp(0.2))


def test_one_disturbed_reply_decides_nothing():
    steady = {prompt: [0.09, 0.10, 0.11, 0.10, 0.09] for prompt in "abcd"}
    spoilt = steady | {"a": [0.09, 0.10, 0.11, 0.10, -0.6]}
    assert judge(spoilt).faster and judge(spoilt).ratio == pytest.approx(exp(0.1), rel=0.01)
    assert (judge(steady).pairs, judge(spoilt).pairs) == (20, 19)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_of_few_pairs_none_is_dropped(count):
    """The farthest of three pairs of a noisy prompt is far by chance, and the other two are alike by choice."""
    steady = {prompt: [0.09, 0.10, 0.11, 0.10][:count] for prompt in "abcd"}
    assert judge(steady | {"a": [*steady["a"][:-1], -0.6]}).pairs == 4 * count


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({"a": [0.05, 0.07, 0.06], "b": [0.06, 0.08, 0.05]}, "is faster than plain by 5 to 8 %"),
        ({"a": [-0.05, -0.07, -0.06], "b": [-0.06, -0.08, -0.05]}, "is slower than plain by 4 to 7 %"),
        ({"a": [0.7, 0.7]}, "is faster than plain by 101 %"),
        ({"a": [0.003, 0.004, 0.0035, 0.0035]}, "is faster than plain by 0.3 to 0.4 %"),
        ({"a": [0.05, -0.01, 0.06], "b": [0.01, 0.08, -0.05]}, "cannot be told from plain after 6 pairs; some 50 would"),
        ({"a": [0.05]}, "cannot be told from plain after one pair"),
        ({"a": [0.05, -0.05]}, "cannot be told from plain after 2 pairs"),
        ({}, "cannot be told from plain after 0 pairs"),
    ],
)
def test_it_says_by_how_much_or_how_many_pairs_would_tell(pairs, words):
    assert said(pairs) == f"auto {words}"


def test_one_noisy_prompt_makes_no_certainty_of_the_quiet_ones():
    """Its pairs are no disturbed ones, and the noise is that of one prompt: as of a reply that is shorter than the others."""
    quiet = {prompt: [0.00, 0.01, 0.02] for prompt in "abc"}
    noisy = judge(quiet | {"d": [0.01, 0.4, 0.2]})
    assert noisy.pairs == 12 and not noisy.told
    middle, half = 0.0583, 0.0282 * 4.28
    assert (noisy.low, noisy.high) == pytest.approx((exp(middle - half), exp(middle + half)), rel=0.05), "2 degrees"


@pytest.mark.parametrize("pairs", [{"a": [0.1, 0.3]}, {"a": [600.0, -600.0]}, {"a": [1500.0, 1499.0, 1498.0]}])
def test_bounds_stay_numbers_whatever_was_measured_and_however_many_verdicts_are_spoken(pairs):
    found = judge(pairs, among=1_000_000)
    assert 0 < found.low <= found.ratio <= found.high < float("inf") and 1 / found.low < float("inf")
    assert said({"a": [1500.0, 1500.0]}).endswith(" by over 900 %")


def test_equal_pairs_tell_nothing_where_they_are_level():
    assert said({"a": [0.0, 0.0, 0.0]}).endswith("after 3 pairs")
    assert said({"a": [0.1, 0.1], "b": [0.1, 0.1]}).endswith(" by 11 %")
