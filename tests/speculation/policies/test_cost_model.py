"""What passes cost: a first bad sample, an outlier, kernels in steps, and the cost of context."""

import numpy as np
import pytest

from spectui.knobs import Knobs
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Candidate
from tests.toys import ToyModel, decode, toy_drafter

STEPS = {1: 1.0, 2: 1.51, 3: 1.73, 4: 1.31, 5: 1.84, 8: 2.21, 9: 2.52, 12: 3.01, 15: 3.95, 16: 3.03, 17: 3.57}
"""Q4_0 on a CPU with AVX-512: 4 rows cost less than 2, and 16 less than 15."""

PROMPT = [3, 1, 4, 1, 5]


def after(costs: CostModel, *passes: tuple[int, float], context: int = 0, drafted: tuple[Candidate, ...] = ()) -> CostModel:
    """The costs after passes over so many rows that took so many seconds."""
    for n, seconds in passes:
        costs = costs.learned(n, seconds, context, drafted)
    return costs


def drafting(costs: CostModel, *seconds: float) -> CostModel:
    """The costs after a draft whose tokens took so long, in a round whose pass takes what is expected."""
    drafted = tuple(Candidate(1, 0.9, "model", seconds=each) for each in seconds)
    return after(costs, (1, costs.verify(1)), drafted=drafted)


# The draft


@pytest.mark.parametrize("bad", [0.2, 2.0, 1e-6])
def test_one_bad_first_sample_is_outweighed_within_150_observations(bad: float):
    costs = drafting(CostModel({1: 1.0}), bad, bad)
    for _ in range(150):
        costs = drafting(costs, 0.02, 0.02)
    assert (costs.first, costs.next) == pytest.approx((0.02, 0.02), rel=0.3)


def test_a_token_that_took_no_time_does_not_make_drafting_free():
    """The retokenising drafter makes several tokens of one: all but the first take zero seconds."""
    costs = CostModel({1: 1.0})
    for _ in range(40):
        costs = drafting(costs, 0.02, 0.0, 0.02)
    assert costs.next == pytest.approx(0.01, rel=0.3)
    assert costs.drafting(3) == pytest.approx(0.04, rel=0.3)


@pytest.mark.parametrize("share", [0.05, 20.0])
def test_one_token_at_quite_another_speed_hardly_moves_what_drafting_costs(share: float):
    costs = CostModel({1: 1.0}, first=0.2, next=0.2)
    costs = drafting(costs, 0.2, share * 0.2)
    assert 0.85 < costs.next / 0.2 < 1.31


def test_the_first_token_of_a_draft_has_a_cost_of_its_own():
    costs = CostModel({1: 1.0})
    for _ in range(10):
        costs = drafting(costs, 0.05, 0.02)
    assert [costs.drafting(n) for n in (0, 1, 3)] == pytest.approx([0.0, 0.05, 0.09])
    assert CostModel(next=0.02).drafting(2) == pytest.approx(0.04)


def test_each_run_of_the_models_tokens_begins_with_a_first_one():
    """In a mixed draft the model reads what the suffix drafted before it drafts on."""
    drafted = tuple(Candidate(1, 0.9, source, seconds=s) for source, s in (("model", 0.3), ("suffix", 0.0), ("model", 0.5)))
    costs = after(CostModel({1: 1.0, 4: 1.0}), (4, 1.0), drafted=drafted)
    assert 0.3 < costs.first < 0.5
    assert costs.next == 0.0


# The target


def test_between_the_measured_sizes_are_lines():
    costs = CostModel(STEPS)
    assert costs.verify(4) == 1.31
    assert costs.verify(6) == pytest.approx(1.84 + 0.37 / 3)
    assert costs.verify(19) == pytest.approx(3.57 + 2 * 0.54), "behind them the last slope goes on"
    assert costs.verify(100) == pytest.approx(3.57 + 83 * 0.54)
    assert CostModel({1: 1.0, 17: 2.0}, 0.001, 0.002).verify(1, 100) == pytest.approx(1.3)


@pytest.mark.parametrize("size", [1, 4])
def test_a_machine_that_is_slower_from_now_on_is_slower_at_all_sizes(size: int):
    costs = after(CostModel(STEPS, 0.001, first=0.2, next=0.1), *[(size, 1.6 * STEPS[size])] * 40)
    assert costs.verify(size) == pytest.approx(1.6 * STEPS[size], rel=0.01)
    assert costs.verify(8) > 1.25 * STEPS[8]
    assert costs.per_row > 0.00125


@pytest.mark.parametrize("times", [0.6, 3.0, 12.0])
def test_the_first_pass_corrects_a_table_that_is_not_trusted(times: float):
    """It was measured at another time, or on a busy machine."""
    costs = after(CostModel(STEPS, first=0.2, next=0.2, trusted=0).scaled(times), (1, 1.0), (1, 1.0))
    assert (costs.verify(1), costs.verify(8), costs.drafting(2)) == pytest.approx((1.0, STEPS[8], 0.4))


@pytest.mark.parametrize("times", [0.4, 1.0, 2.5])
def test_the_fastest_of_the_first_passes_tells_how_fast_the_machine_is_now(times: float):
    """Whatever their sizes. The first one was disturbed, as where a GPU's driver compiles kernels."""
    passes = (5, 40.0), (4, STEPS[4]), (5, STEPS[5]), (1, 1.1)
    costs = after(CostModel(STEPS, first=0.2, next=0.2).scaled(times), *passes)
    assert (costs.verify(1), costs.verify(8), costs.drafting(2)) == pytest.approx((1.0, STEPS[8], 0.4))


def test_what_an_unmeasured_machine_showed_in_its_first_pass_is_not_counted_twice():
    """t(6) is a guess until it is seen: a large error is its own, not the whole machine's."""
    costs = after(CostModel(), (1, 1.0))
    assert costs.verify(6) == pytest.approx(1.5)
    costs = after(costs, (6, 9.0))
    assert costs.verify(1) == pytest.approx(1.0)
    assert costs.verify(6) > 2.0


def test_a_step_that_is_seen_again_and_again_is_learned():
    costs = after(CostModel({1: 1.0, 17: 4.2}), *[(1, 1.0), (4, 1.0)] * 100)
    assert costs.verify(4) == pytest.approx(1.0, rel=0.05)
    assert costs.verify(1) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(("per_pass", "per_row"), [(0.0, 0.0004), (0.0004, 0.0), (0.0002, 0.0002)])
def test_rounds_learn_what_passes_cost_behind_a_long_context(per_pass: float, per_row: float):
    """Within a conversation of 2,000 tokens, with nothing known at load of what context costs."""
    sizes = {n: 1.0 + 0.1 * (n - 1) for n in (1, 2, 4, 8, 16)}
    costs, numbers = CostModel(sizes), np.random.default_rng(0)
    for context in range(0, 2000, 4):
        n = int(numbers.choice([1, 2, 4, 8]))
        costs = after(costs, (n, sizes[n] + (per_pass + per_row * n) * context), context=context)
    for n in (1, 2, 4, 8):
        truth = sizes[n] + (per_pass + per_row * n) * 2000
        assert costs.verify(n, 2000) == pytest.approx(truth, rel=0.08)


@pytest.mark.parametrize("times", [0.1, 3.0, 20.0])
def test_one_pass_at_quite_another_speed_is_soon_forgotten(times: float):
    numbers = np.random.default_rng(1)
    costs = other = CostModel(STEPS)
    for index in range(80):
        n = (1, 2, 4)[index % 3]
        seconds = STEPS[n] * float(numbers.normal(1.0, 0.03))
        costs = after(costs, (n, seconds))
        other = after(other, (n, times * seconds if index == 30 else seconds))
        if index == 30:
            assert 0.7 < other.verify(n) / costs.verify(n) < 1.6
    for n in (1, 2, 4):
        assert other.verify(n) == pytest.approx(costs.verify(n), rel=0.04) == pytest.approx(STEPS[n], rel=0.06)


@pytest.mark.parametrize("sizes", [[1], [5] * 9 + [1], [1, 5, 9]])
@pytest.mark.parametrize("share", [0.005, 0.02])
def test_slow_passes_move_no_size_for_good(share: float, sizes: list[int]):
    """A thousand passes over these sizes, a few of them three times as slow. No size seems cheaper than it is, nor dearer."""
    table = {1: 1.0, 2: 1.02, 3: 1.05, 5: 1.12, 9: 1.25, 17: 1.6}
    costs, numbers = CostModel(table), np.random.default_rng(4)
    for _ in range(1000):
        n = int(numbers.choice(sizes))
        costs = after(costs, (n, table[n] * (3.0 if numbers.random() < share else numbers.normal(1, 0.03))))
    for n in table:
        assert costs.verify(n) == pytest.approx(table[n], rel=0.15)


def test_a_plain_pass_is_wanted_after_a_hundred_rounds_without_one_and_counts_more():
    costs = after(CostModel({1: 2.0, 4: 1.3}), *[(4, 1.3)] * 100)
    assert costs.trusted == 1
    fresh = after(costs, (1, 1.0))
    assert fresh.trusted > 1
    assert fresh.verify(1) < 1.55


def test_costs_are_learned_under_all_policies():
    strategy = Strategy(toy_drafter(1, 0.2, ends=False), CostModel())
    knobs = Knobs(temperature=0.0, predict=40, policy="fixed", drafter="model", draft_max=4, p_min=0.0)
    decode(ToyModel(1, ends=False), PROMPT, knobs, strategy=strategy)
    assert strategy.costs.known and strategy.costs.next
