"""What speculation may lose against plain decoding, of a reply and of a conversation, whatever its drafts do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.policies.automatic import AutoPolicy
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.policies.loss_budget import LossBudget
from tests.speculation.policies.simulation import Machine

REPLIES = st.lists(st.lists(st.floats(-1.0, 0.5), min_size=1, max_size=300), min_size=1, max_size=6)
"""Per reply and round: what its draft would gain, in plain passes."""

MACHINES = {
    "cheap rows": Machine(lambda n: 0.06 if n == 1 else 0.08 + 0.003 * n, 0.012, lambda p, token: 0.0),
    "dear rows": Machine(lambda n: 0.05 + 0.05 * n, 0.02, lambda p, token: 0.0),
    "a slow pair": Machine(lambda n: 0.3 + 0.1 * n, 0.15, lambda p, token: 0.0),
    "a GPU": Machine(lambda n: 0.008 + 0.0003 * n, 0.002, lambda p, token: 0.0),
}


class Fooled(AutoPolicy):
    """Expects every drafted token to be accepted, whatever it sees."""

    def __init__(self, costs: CostModel) -> None:
        super().__init__(costs)
        self.acceptance.chance = lambda candidate: 0.99  # type: ignore[method-assign]
        self.acceptance.expected_ahead = lambda confidence=None: 0.99  # type: ignore[method-assign]


def fooled(machine: Machine) -> Fooled:
    sizes = {n: machine.verify(n) for n in range(1, 18)}
    return Fooled(CostModel(VerifyCost(sizes, 1.0), DraftCost(machine.draft, machine.draft)))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("length", [32, 128, 500, 2000])
def test_a_conversation_whose_drafts_all_fail_loses_a_fiftieth_and_a_reply_half_a_second_or_a_twentieth(name, length):
    """In real seconds of the machine's clock, at each round from 500 tokens of the conversation on."""
    machine = MACHINES[name]
    policy, plain_s = fooled(machine), machine.verify(1)
    tokens, seconds, drafts = 0, 0.0, 0
    while tokens < 4000:
        reply, reply_s = 0, 0.0
        for round in machine.rounds(policy, Knobs(draft_max=16), length, seed=tokens):
            tokens, reply = tokens + len(round.tokens), reply + len(round.tokens)
            seconds, reply_s = seconds + round.seconds, reply_s + round.seconds
            drafts += bool(round.drafted)
            assert reply_s - reply * plain_s < max(0.5, 0.05 * reply * plain_s) + 1e-6
            if tokens >= 500:
                assert tokens * plain_s / seconds > 0.98
    assert drafts > 10, "it does try"
    assert tokens * plain_s / seconds < 0.999, "and it does lose"


@pytest.mark.parametrize("name", MACHINES)
def test_drafting_goes_on_in_later_replies(name):
    """A budget that is used up is filled again by plain rounds."""
    machine = MACHINES[name]
    policy = fooled(machine)
    for seed in range(8):
        drafted = [bool(round.drafted) for round in machine.rounds(policy, Knobs(draft_max=16), 400, seed)]
        assert any(drafted) and not all(drafted)


def lose(budget: LossBudget, gain: float, plain_s: float) -> float:
    """A round that gains so much, or loses no more than the budget allows, as the policy sees to it."""
    gain = max(gain, -max(0.0, budget.left(plain_s)))
    budget.add(plain_s, -gain)
    return -gain


@given(replies=REPLIES, plain_s=st.sampled_from([0.005, 0.05, 0.5]))
def test_no_reply_and_not_all_of_them_together_lose_more_than_is_said(replies: list[list[float]], plain_s: float):
    budget = LossBudget()
    total, passes = 0.0, 0
    for gains in replies:
        budget.begin_reply()
        lost = 0.0
        for number, gain in enumerate(gains, 1):
            lost += lose(budget, gain * plain_s, plain_s)
            assert lost <= max(0.5, 0.05 * number * plain_s) + 1e-6
            assert total + lost <= max(10.0, (passes + number) / 50) * plain_s + 1e-6
        total, passes = total + lost, passes + len(gains)


@pytest.mark.parametrize(("plain_s", "reply"), [(0.01, 10.0), (0.05, 10.0), (0.1, 5.0), (1.0, 0.5)])
def test_what_is_said_may_be_lost(plain_s: float, reply: float):
    """Of one reply `reply` passes at first; then a fiftieth of all that is written."""
    budget = LossBudget()
    lost = [lose(budget, -plain_s, plain_s) / plain_s for _ in range(2000)]
    assert sum(lost[:10]) == pytest.approx(reply, abs=0.1)
    assert sum(lost) == pytest.approx(40.0, abs=0.1)


def test_another_reply_has_its_own_half_second_and_another_conversation_both():
    budget = LossBudget()
    budget.add(10.0, 0.9)
    assert budget.left(0.1) == pytest.approx(0.5 - 0.9)
    budget.begin_reply()
    assert budget.left(0.1) == pytest.approx(1.0 - 0.9)
    budget.add(0.0, 0.6)
    budget.begin_conversation()
    assert budget.left(0.1) == 0.5


def test_what_one_reply_gained_may_be_lost_again_but_no_reply_loses_more_than_its_own():
    budget = LossBudget()
    budget.add(10.0, -5.0)
    assert budget.left(0.1) == pytest.approx(5.5)
    budget.begin_reply()
    assert budget.left(0.1) == 0.5
