"""The value of drafts, as it is defined; and what rounds take."""

from dataclasses import replace
from itertools import accumulate
from operator import mul
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.chat.figures.estimates import break_even, needed
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.draft import Acceptance, Draft, RoundTimes
from spectui.speculation.records import Candidate


@given(st.integers(0, 10_000), st.integers(1, 24), st.integers(0, 5))
def test_a_growing_draft_says_what_the_definition_says(seed: int, limit: int, least: int):
    """V(m) = 1 + S_1 + .. + S_m - rate * passes(m), at the best m; and what drafting on is expected to reach."""
    numbers = Random(seed)
    costs = CostModel({1: 1.0, 2: 1.3, 9: 1.6 + numbers.random()}, first=0.2, next=0.1)
    acceptance, times, rate = Acceptance(), RoundTimes.of(costs, 100, limit), 1.0 + numbers.random()
    draft = Draft(times, rate)
    for _ in range(limit):
        by_suffix = numbers.random() < 0.3
        candidate = Candidate(1, numbers.random(), "suffix" if by_suffix else "model", match=3 if by_suffix else 0)
        draft.add(candidate, acceptance.expected(candidate))
        survival = list(accumulate((acceptance.expected(each) for each in draft.tokens), mul, initial=1.0))
        tokens = list(accumulate(survival))
        models = sum(each.source == "model" for each in draft.tokens)
        values = [tokens[m] - rate * times.passes[m] for m in range(len(tokens))]
        assert draft.values == pytest.approx(values)
        allowed = [0, *range(max(1, least), len(tokens))]
        assert draft.values[draft.best(least)] == pytest.approx(max(values[m] for m in allowed))
        assert draft.best(least) in allowed
        value, reached, yields, sent, reaches = 0.0, 1.0, tokens[-1], max(values), [float("-inf")]
        for more in range(1, limit - len(draft.tokens) + 1):
            value -= reached * rate * (times.drafting[models + more] - times.drafting[models + more - 1])
            value += reached * (1 - acceptance.undrafted()) * sent
            reached *= acceptance.undrafted()
            yields += survival[-1]
            sent = max(sent, yields - rate * times.passes[len(draft.tokens) + more])
            reaches.append(value + reached * sent)
        assert draft.with_model(acceptance.undrafted()) == pytest.approx(max(reaches))


def test_the_repetitions_that_are_added_are_those_of_the_greatest_value():
    times = RoundTimes((1.0, 1.3, 1.6, 1.9, 2.2), (0.0,) * 5)
    draft, copied = Draft(times, 1.0), (0.9, 0.8, 0.4, 0.9)
    for length, value in enumerate((0.0, 0.9 - 0.3, 0.9 + 0.72 - 0.6)):
        assert draft.with_copy(copied[:length]) == (length, pytest.approx(value))
    draft.add(Candidate(1, 0.9, "suffix"), 0.9)
    assert draft.with_copy(copied[2:]) == (2, pytest.approx(0.9 + 0.36 + 0.324 - 0.9))
    assert draft.with_copy([0.3]) == (0, pytest.approx(0.6))


@given(st.floats(0.0, 0.3), st.floats(0.0, 0.5), st.floats(1.0, 3.0), st.integers(1, 16))
def test_the_model_is_asked_exactly_from_the_acceptance_that_is_said_to_be_needed(
    row: float, drafting: float, rate: float, longest: int
):
    times = RoundTimes.of(CostModel({1: 1.0, 17: 1.0 + 16 * row}, first=drafting, next=drafting), 0, longest)
    least = needed(times, rate)
    for acceptance in (0.0, 0.3, 0.6, 0.9, 1.0):
        asks = Draft(times, rate).with_model(acceptance) > 1 - rate
        assert asks == (least is not None and acceptance >= least) or abs(acceptance - (least or 2)) < 0.001


def test_break_even_is_where_a_draft_yields_what_its_round_takes():
    times = RoundTimes((1.0, 1.2, 1.4, 1.6, 1.9), (0.0, 0.1, 0.2, 0.3, 0.4))
    for length in range(1, 5):
        least = break_even(times, length)
        assert least is not None
        assert times.speed_up(least, length) == pytest.approx(1.0, abs=0.001)
    assert break_even(times, 4) == pytest.approx(0.5989, abs=0.001)
    assert break_even(times) == min(break_even(times, length) or 1.0 for length in range(1, 5))
    assert break_even(RoundTimes((1.0, 2.0, 3.0), (0.0, 0.0, 0.0))) is None
    falling = RoundTimes((1.0, 1.9, 1.9), (0.0,) * 3)
    assert break_even(falling) == break_even(falling, 2)


def test_nothing_is_expected_of_tokens_that_cannot_be_drafted():
    """Two tokens for the time of 2.5 passes cannot pay, and sixteen could."""
    costs = CostModel({1: 1.0, 17: 1.2}, first=2.5, next=0.001, max_drafted=2)
    bounded, free = RoundTimes.of(costs, 0, 16), RoundTimes.of(replace(costs, max_drafted=None), 0, 16)
    assert (len(bounded.passes), len(bounded.drafting), len(free.drafting)) == (17, 3, 17)
    assert needed(bounded, 1.0) is None and break_even(bounded) is None and bounded.best(0.9) < 1.0
    assert needed(free, 1.0) is not None and break_even(free) is not None and free.best(0.9) > 1.0


def test_the_tokens_of_a_round_are_those_of_leviathan():
    times = RoundTimes((1.0,) * 5, (0.0,) * 5)
    assert (times.speed_up(0.5, 3), times.speed_up(1.0, 4)) == pytest.approx((1.875, 5.0))


def test_times_are_in_plain_passes_behind_this_context():
    costs = CostModel({1: 1.0, 4: 1.6}, per_row=0.001, per_pass=0.002, first=0.3, next=0.2)
    times = RoundTimes.of(costs, 100, 3)
    assert times.passes == pytest.approx([1.0, 1.6 / 1.3, 1.9 / 1.3, 2.2 / 1.3])
    assert times.drafting == pytest.approx([0.0, 0.3 / 1.3, 0.5 / 1.3, 0.7 / 1.3])
