"""What passes cost: a first bad sample, an outlier, kernels in steps, and the cost of context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.records import Candidate, Outcome, Round
from spectui.speculation.strategy import Strategy
from tests.toys import ToyModel, decode, toy_drafter

STEPS = {1: 1.0, 2: 1.51, 3: 1.73, 4: 1.31, 5: 1.84, 8: 2.21, 9: 2.52, 12: 3.01, 15: 3.95, 16: 3.03, 17: 3.57}
"""Q4_0 on a CPU with AVX-512: 4 rows cost less than 2, and 16 less than 15."""

PROMPT = [3, 1, 4, 1, 5]


# The draft


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("bad", [0.2, 2.0, 1e-6])
def test_one_bad_first_sample_is_outweighed_within_40_observations(index: int, bad: float):
    cost = DraftCost()
    cost.observe(index, bad)
    for _ in range(40):
        cost.observe(index, 0.02)
    assert (cost.next if index else cost.first) == pytest.approx(0.02, rel=0.4)


def test_a_token_that_took_no_time_is_not_the_first_sample():
    """The retokenising drafter makes several tokens of one: all but the first take zero seconds."""
    cost = DraftCost()
    for _ in range(40):
        cost.observe(0, 0.02)
        cost.observe(1, 0.0)
        cost.observe(2, 0.02)
    assert cost.next == pytest.approx(0.01, rel=0.3)
    assert cost.total(3) == pytest.approx(0.04, rel=0.3)


@pytest.mark.parametrize("share", [0.05, 20.0])
def test_one_token_at_quite_another_speed_hardly_moves_what_drafting_costs(share: float):
    cost = DraftCost()
    for _ in range(40):
        cost.observe(1, 0.2)
    cost.observe(1, share * 0.2)
    assert 0.94 < cost.next / 0.2 < 1.16


def test_the_first_token_of_a_draft_has_a_cost_of_its_own():
    cost = DraftCost()
    for _ in range(10):
        cost.observe(0, 0.05)
        cost.observe(1, 0.02)
    assert [cost.total(n) for n in (0, 1, 3)] == pytest.approx([0.0, 0.05, 0.09])
    assert DraftCost(next=0.02).total(2) == pytest.approx(0.04)


def test_each_run_of_the_models_tokens_begins_with_a_first_one():
    """In a mixed draft the model reads what the suffix drafted before it drafts on."""
    costs = CostModel(VerifyCost({1: 1.0, 4: 1.0}, 1.0))
    drafted = [Candidate(1, 0.9, source, seconds=s) for source, s in (("model", 0.3), ("suffix", 0.0), ("model", 0.5))]
    ones = [1.0] * 4
    times = {"draft_s": 0.8, "verify_s": 1.0, "choose_s": 0.0, "seconds": 1.8}
    costs.observe(Outcome(0, 0, Knobs(), drafted, 3, [1] * 4, ones, ones, pass_size=4, **times))
    assert costs.draft.first == pytest.approx(0.3 + 0.2 * 2 / 4)
    assert costs.draft.next == 0.0


# The target


def test_between_the_measured_sizes_are_lines():
    cost = VerifyCost(STEPS, 1.0)
    assert cost(4, 0) == 1.31
    assert cost(6, 0) == pytest.approx(1.84 + 0.37 / 3)
    assert cost(19, 0) == pytest.approx(3.57 + 2 * 0.54), "behind them the last slope goes on"
    assert VerifyCost({1: 1.0, 17: 2.0}, 2.0, 0.001, 0.002)(1, 100) == pytest.approx(2.0 * 1.3)


def test_drift_follows_the_machine_at_all_sizes():
    cost = VerifyCost(STEPS, 1.0)
    for _ in range(60):
        cost.observe(1, 0, 1.5)
    assert cost.drift * cost.table[1] == pytest.approx(1.5, rel=0.01)
    assert cost(8, 0) > 1.25 * STEPS[8]


@pytest.mark.parametrize("one_device", [True, False])
def test_a_draft_on_another_device_does_not_slow_down_with_the_target(one_device: bool):
    costs = CostModel(VerifyCost({1: 1.0, 4: 1.2}, 1.0), DraftCost(0.2, 0.1), one_device)
    for _ in range(60):
        costs.verify.observe(1, 0, 1.8)
    assert costs.drafting(3) == pytest.approx(0.4 * (costs.verify.drift if one_device else 1.0))
    assert costs.verify.drift > 1.3
    assert CostModel.of(costs.snapshot()).drafting(3) == pytest.approx(costs.drafting(3)), "as it is now"


def test_the_first_pass_of_a_busy_machine_tells_its_drift():
    cost = VerifyCost(STEPS)
    cost.observe(1, 0, 1.6)
    assert cost(8, 0) == pytest.approx(1.6 * STEPS[8])


def test_what_an_unmeasured_machine_showed_in_its_first_pass_is_not_counted_twice():
    """T(6) is a guess until it is seen: a large error is its own, not the whole machine's."""
    cost = VerifyCost()
    cost.observe(1, 0, 1.0)
    cost.observe(6, 0, 6 * cost(6, 0))
    assert cost(1, 0) == pytest.approx(1.0)


def test_an_outlier_at_an_unmeasured_size_moves_its_cost_by_a_quarter_at_most():
    """Nobody tries a size again that looks dear, so that the error stays."""
    cost = VerifyCost(STEPS, 1.0)
    cost.observe(1, 0, cost(1, 0))
    before = cost(10, 0)
    cost.observe(10, 0, 20 * before)
    assert 1.2 < cost(10, 0) / before < 1.26
    assert cost(9, 0) == STEPS[9] and cost(12, 0) == STEPS[12]


def test_what_is_not_seen_stays():
    """15 rows do cost more than their neighbours say."""
    cost = VerifyCost(STEPS, 1.0)
    for _ in range(300):
        cost.observe(1, 0, 1.0)
    assert cost.table == pytest.approx(STEPS, rel=1e-6)


def test_a_step_that_is_seen_again_and_again_is_learned():
    cost = VerifyCost({1: 1.0, 17: 4.2}, 1.0)
    for _ in range(100):
        cost.observe(1, 0, 1.0)
        cost.observe(4, 0, 1.0)
    assert cost(4, 0) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(("per_pass", "per_row"), [(0.0, 0.0004), (0.0004, 0.0), (0.0002, 0.0002)])
def test_rounds_learn_what_passes_cost_behind_a_long_context(per_pass: float, per_row: float):
    """Within a conversation of 2,000 tokens, with nothing known at load of what context costs."""
    sizes = {n: 1.0 + 0.1 * (n - 1) for n in (1, 2, 4, 8, 16)}
    cost, numbers = VerifyCost(sizes, 1.0), np.random.default_rng(0)
    for context in range(0, 2000, 4):
        n = int(numbers.choice([1, 2, 4, 8]))
        cost.observe(n, context, sizes[n] + (per_pass + per_row * n) * context)
    for n in (1, 2, 4, 8):
        truth = sizes[n] + (per_pass + per_row * n) * 2000
        assert cost(n, 2000) == pytest.approx(truth, rel=0.05)
        assert sizes[n] < 0.75 * truth or n == 1


def test_context_costs_at_most_what_was_ever_measured():
    """A moment in which the machine was busy at load would count for each token of a long context."""
    cost = VerifyCost({1: 0.01, 2: 0.011}, 1.0, 1.0, 1.0)
    assert cost.per_row == cost.per_pass == pytest.approx(0.01 / 200)


# Single slow passes


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("times", [0.1, 3.0, 20.0])
def test_one_pass_at_quite_another_speed_changes_nothing(size: int, times: float):
    """Not even where no pass of its size follows: then it would never be corrected."""
    cost = VerifyCost(STEPS, 1.0)
    for n in (1, 4, 1, 2, 4, 1):
        cost.observe(n, 0, STEPS[n])
    cost.observe(size, 0, times * STEPS[size])
    for n in (1, 2, 4):
        assert cost(n, 0) == pytest.approx(STEPS[n])
    for _ in range(100):
        cost.observe(8, 0, STEPS[8])
    for n in (1, 2, 4, 8):
        assert cost(n, 0) == pytest.approx(STEPS[n])


@pytest.mark.parametrize("known", [{}, {1: 1.0}, STEPS])
def test_one_slow_pass_among_noisy_ones_is_forgotten(known: dict[int, float]):
    numbers = np.random.default_rng(1)
    cost, other = VerifyCost(known, 1.0 if known else None), VerifyCost(known, 1.0 if known else None)
    for index in range(60):
        n = (1, 2, 4)[index % 3]
        seconds = STEPS[n] * float(numbers.normal(1.0, 0.05))
        cost.observe(n, 0, seconds)
        other.observe(n, 0, 3 * seconds if index == 30 else seconds)
    for n in (1, 2, 4):
        assert cost(n, 0) == pytest.approx(STEPS[n], rel=0.05)
        assert other(n, 0) == pytest.approx(cost(n, 0), rel=0.02)


@pytest.mark.parametrize("size", [1, 4])
def test_a_size_that_is_slower_from_now_on_is_learned(size: int):
    cost = VerifyCost(STEPS, 1.0)
    for _ in range(40):
        cost.observe(size, 0, 1.6 * STEPS[size])
    assert cost(size, 0) == pytest.approx(1.6 * STEPS[size], rel=0.01)


def test_a_slow_plain_pass_leaves_the_passes_plain_and_the_speed_up_true():
    """Without a draft, on a machine where four rows cost less than two: nothing is added to a pass."""
    now, slow = [0.0], [7]

    class Timed(ToyModel):
        def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
            now[0] += STEPS[len(tokens)] * (3.0 if len(self.passes) in slow else 1.0) if rows else 0.0
            return super().evaluate(tokens, rows)

    target = Timed(1, ends=False)
    strategy = Strategy(None, CostModel(VerifyCost(STEPS, 1.0)))
    knobs = Knobs(drafter="off", predict=40)
    _, rounds, _ = decode(target, PROMPT, knobs, strategy=strategy, clock=lambda: now[0])
    assert max(round.verify_s for round in rounds) == 3.0
    assert [round.pass_size for round in rounds] == [1] * 40
    assert [round.plain_s for round in rounds] == pytest.approx([1.0] * 40)


def frozen(table: dict[int, float], model: ModelDrafter | None = None) -> Strategy:
    """A strategy whose passes cost this whatever they take: a toy's take no time worth the name."""
    costs = CostModel(VerifyCost(table, 1.0), DraftCost(0.01, 0.01))
    costs.observe = lambda outcome: None  # type: ignore[method-assign]
    return Strategy(model, costs)


FIXED = Knobs(policy="fixed", drafter="model", draft_max=1, p_min=0.0, temperature=0.9, seed=2, predict=40)


def passes(strategy: Strategy, knobs: Knobs = FIXED, n_ctx: int = 96) -> tuple[list[int], list[Round]]:
    """Rows of each of the target's passes (the prompt's not), and the rounds; they say the same."""
    target = ToyModel(1, ends=False, n_ctx=n_ctx)
    _, rounds, _ = decode(target, PROMPT, knobs, strategy=strategy)
    sizes = target.passes[-len(rounds) :]
    assert sizes == [round.pass_size for round in rounds]
    return sizes, rounds


def test_passes_have_the_rows_that_somebody_reads():
    """Where four rows cost less than two, too."""
    sizes, rounds = passes(frozen(STEPS, toy_drafter(1, 0.5, ends=False)))
    assert sizes == [len(round.drafted) + 1 for round in rounds]
    assert set(sizes[:-1]) == {2}


def test_auto_drafts_on_to_the_cheaper_pass():
    """3 rows cost 1.73 plain passes and 4 rows 1.31: with two sure tokens a third one is worth drafting, and not before."""
    value = frozen(STEPS).auto.value(0, 4)
    assert value.passes == pytest.approx([1.0, 1.51, 1.73, 1.31, 1.84])
    value.follow([Candidate(1, 1.0, "model", seconds=0.01)] * 3)
    assert [value.stop(most).length for most in (1, 2, 3)] == [1, 2, 3]


def test_an_outlier_in_the_plain_passes_at_load_is_not_believed():
    """Else every round would draft, and no plain pass would ever correct it."""
    cost = VerifyCost({1: 1.0, 2: 0.15, 4: 0.2}, 1.0)
    assert cost(1, 0) == pytest.approx(0.15)


def test_a_model_of_a_snapshot_knows_what_the_other_knew():
    model = CostModel(VerifyCost({1: 1.0, 4: 1.5}, 1.1, 0.001, 0.002), DraftCost(0.3, 0.2))
    other = CostModel.of(model.snapshot())
    assert other.snapshot() == model.snapshot()
    assert [other.verify(n, 50) for n in (1, 2, 4, 9)] == [model.verify(n, 50) for n in (1, 2, 4, 9)]
    assert other.drafting(3) == model.drafting(3)
    assert not CostModel.of(CostModel().snapshot()).verify.known
