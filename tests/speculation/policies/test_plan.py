"""The value of drafts, as it is defined; and what rounds take."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from operator import mul
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.plan import Draft, Rounds, expected_tokens
from spectui.speculation.records import Candidate


@given(st.integers(0, 10_000), st.integers(1, 24), st.integers(0, 5))
def test_a_growing_draft_says_what_the_definition_says(seed: int, limit: int, least: int):
    """V(m) = 1 + S_1 + .. + S_m - rate * passes(m), at the best m; and what drafting on is expected to reach."""
    numbers = Random(seed)
    costs = CostModel({1: 1.0, 2: 1.3, 9: 1.6 + numbers.random()}, first=0.2, next=0.1)
    acceptance, rounds, rate = Acceptance(), Rounds.of(costs, 100, limit), 1.0 + numbers.random()
    draft = Draft(rounds, acceptance, rate, 100.0, 1.0)
    for _ in range(limit):
        by_suffix = numbers.random() < 0.3
        draft.add(Candidate(1, numbers.random(), "suffix" if by_suffix else "model", match=3 if by_suffix else 0))
        survival = list(accumulate((acceptance.expected(each) for each in draft.tokens), mul, initial=1.0))
        tokens = list(accumulate(survival))
        models = sum(each.source == "model" for each in draft.tokens)
        values = [tokens[m] - rate * rounds.passes[m] for m in range(len(tokens))]
        assert [draft.value(m) for m in range(len(tokens))] == pytest.approx(values)
        allowed = [0, *range(max(1, least), len(tokens))]
        assert draft.value(draft.best(least)) == pytest.approx(max(values[m] for m in allowed))
        assert draft.best(least) in allowed
        value, reached, yields, sent, reaches = 0.0, 1.0, tokens[-1], max(values), [float("-inf")]
        for more in range(1, limit - len(draft.tokens) + 1):
            value -= reached * rate * (rounds.drafting[models + more] - rounds.drafting[models + more - 1])
            value += reached * (1 - acceptance.undrafted()) * sent
            reached *= acceptance.undrafted()
            yields += survival[-1]
            sent = max(sent, yields - rate * rounds.passes[len(draft.tokens) + more])
            reaches.append(value + reached * sent)
        assert draft.asks(max(reaches) - 1e-6) == (len(reaches) > 1)
        assert not draft.asks(max(reaches) + 1e-6)


@given(st.floats(0.0, 0.3), st.floats(0.0, 0.5), st.floats(1.0, 3.0), st.integers(1, 16))
def test_the_model_is_asked_exactly_from_the_acceptance_that_is_said_to_be_needed(
    row: float, drafting: float, rate: float, longest: int
):
    rounds = Rounds.of(CostModel({1: 1.0, 17: 1.0 + 16 * row}, first=drafting, next=drafting), 0, longest)
    needed = rounds.needed(rate)
    for acceptance in (0.0, 0.3, 0.6, 0.9, 1.0):
        asks = rounds.pays(1 - rate, acceptance, rate, 1.0, 1.0, 1 - rate)
        assert asks == (needed is not None and acceptance >= needed) or abs(acceptance - (needed or 2)) < 0.001


def test_break_even_is_where_a_draft_yields_what_its_round_takes():
    rounds = Rounds((1.0, 1.2, 1.4, 1.6, 1.9), (0.0, 0.1, 0.2, 0.3, 0.4))
    for length in range(1, 5):
        needed = rounds.break_even(length)
        assert needed is not None
        assert rounds.speed_up(needed, length) == pytest.approx(1.0, abs=0.001)
    assert rounds.break_even(4) == pytest.approx(0.5989, abs=0.001)
    assert rounds.break_even() == min(rounds.break_even(length) or 1.0 for length in range(1, 5))
    assert Rounds((1.0, 2.0, 3.0), (0.0, 0.0, 0.0)).break_even() is None
    assert Rounds((1.0, 1.9, 1.9), (0.0,) * 3).break_even() == Rounds((1.0, 1.9, 1.9), (0.0,) * 3).break_even(2)


def test_nothing_is_expected_of_tokens_that_cannot_be_drafted():
    """Two tokens for the time of 2.5 passes cannot pay, and sixteen could."""
    costs = CostModel({1: 1.0, 17: 1.2}, first=2.5, next=0.001, foresees=2)
    bounded, free = Rounds.of(costs, 0, 16), Rounds.of(replace(costs, foresees=None), 0, 16)
    assert (len(bounded.passes), len(bounded.drafting), len(free.drafting)) == (17, 3, 17)
    assert bounded.needed(1.0) is None and bounded.break_even() is None and bounded.best(0.9) < 1.0
    assert free.needed(1.0) is not None and free.break_even() is not None and free.best(0.9) > 1.0


def test_expected_tokens_are_those_of_leviathan():
    assert expected_tokens(0.5, 3) == pytest.approx(1.875)
    assert expected_tokens(1.0, 4) == 5.0


def test_times_are_in_plain_passes_behind_this_context():
    costs = CostModel({1: 1.0, 4: 1.6}, per_row=0.001, per_pass=0.002, first=0.3, next=0.2)
    rounds = Rounds.of(costs, 100, 3)
    assert rounds.passes == pytest.approx([1.0, 1.6 / 1.3, 1.9 / 1.3, 2.2 / 1.3])
    assert rounds.drafting == pytest.approx([0.0, 0.3 / 1.3, 0.5 / 1.3, 0.7 / 1.3])
