"""What speculation may lose against plain decoding, whatever its drafts do."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.drafters.suffix import SuffixDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import MAY_LOSE, LossBudget, Strategy
from spectui.speculation.records import Candidate, Round
from tests.speculation.policies.simulation import TEXT, Machine, sure_pair, timed_round
from tests.toys import ToyModel, decode

MACHINES = {
    "cheap rows": Machine(lambda n: 0.06 if n == 1 else 0.08 + 0.003 * n, 0.012, lambda p, token: 0.0),
    "dear rows": Machine(lambda n: 0.05 + 0.05 * n, 0.02, lambda p, token: 0.0),
    "a slow pair": Machine(lambda n: 0.3 + 0.1 * n, 0.15, lambda p, token: 0.0),
    "a GPU": Machine(lambda n: 0.008 + 0.0003 * n, 0.002, lambda p, token: 0.0),
}


def fooled(machine: Machine, slower: float) -> Strategy:
    """Expects every drafted token to be accepted, whatever it sees. Its costs were measured when all was so much slower."""
    strategy = machine.strategy(tuple(range(1, 18)), drafts=True)
    strategy.costs = strategy.costs.scaled(slower)
    strategy.acceptance.expected = lambda candidate: 0.99  # type: ignore[method-assign]
    strategy.acceptance.undrafted = lambda confidence=None: 0.99  # type: ignore[method-assign]
    return strategy


@pytest.mark.parametrize("slower", [0.4, 1.0, 2.5])
@pytest.mark.parametrize(("name", "length"), zip(MACHINES, (32, 500, 2000, 32), strict=True))
def test_a_conversation_whose_drafts_all_fail_loses_ten_passes_and_a_fiftieth_of_its_time(
    name: str, length: int, slower: float
):
    """In real seconds of the machine's clock, at each round; also where it had another speed when it was measured."""
    machine = MACHINES[name]
    strategy, plain_s = fooled(machine, slower), machine.verify(1)
    tokens, seconds, drafts = 0, 0.0, 0
    while tokens < 4000:
        for round in machine.rounds(strategy, Knobs(draft_max=16), length, seed=tokens):
            tokens, seconds = tokens + len(round.tokens), seconds + round.seconds
            drafts += bool(round.drafted)
            assert seconds / plain_s - tokens < MAY_LOSE + 0.02 * tokens + 1e-6
    assert drafts > 10, "it does try"
    assert seconds / plain_s - tokens > 0.5 * 0.02 * tokens, "and it does lose"


@given(st.lists(st.floats(-1.0, 0.5), min_size=1, max_size=600))
def test_no_stretch_of_a_conversation_loses_more(gains: list[float]):
    """Whatever was gained before it."""
    budget, worst, since = LossBudget(), 0.0, 0.0
    for gain in gains:
        gain = max(gain, -max(0.0, budget.balance))
        budget.count(1, 1.0, 1.0 - gain)
        since = max(0.0, since - gain - 0.02)  # what the worst stretch that ends here has lost beyond a fiftieth
        worst = max(worst, since)
    assert worst <= MAY_LOSE + 1e-6


def learned(outcome: tuple[Round, list[Candidate]], strategy: Strategy) -> float:
    """Plain passes by which the balance takes this round to have lost."""
    strategy.budget.balance = 4.0
    strategy.learn(*outcome, [1.0])
    return 4.0 + 0.02 * len(outcome[0].tokens) - strategy.budget.balance


def outcome(
    drafted: list[Candidate], draft_s: float, verify_s: float = 1.0, rows: int = 1, **knobs: str
) -> tuple[Round, list[Candidate]]:
    """A round at whose end the target chose another token than was drafted."""
    return timed_round(Knobs(**knobs), drafted, rows - 1, [2], draft_s, verify_s), drafted


DRAFTED = [Candidate(1, 0.3, "model", seconds=0.2)]
COSTS = CostModel({1: 1.0, 2: 1.2}, first=0.2, next=0.2)


def test_a_failed_draft_has_lost_its_real_time():
    assert learned(outcome(DRAFTED, 0.2, 1.2, 2), Strategy(None, COSTS)) == pytest.approx(0.4)


def test_a_look_for_repetitions_is_a_loss_too():
    assert learned(outcome([], 0.03), Strategy(None, COSTS)) == pytest.approx(0.03)


@pytest.mark.parametrize(("draft_s", "verify_s"), [(50.0, 1.2), (0.2, 90.0)])
def test_an_accident_counts_as_little_more_than_what_was_planned(draft_s: float, verify_s: float):
    strategy = Strategy(None, COSTS)
    assert learned(outcome(DRAFTED, draft_s, verify_s, 2), strategy) == pytest.approx(0.6, abs=0.2)


@pytest.mark.parametrize("policy", ["fixed", "expected"])
def test_what_another_policy_loses_is_a_persons_wish(policy: str):
    strategy = Strategy(None, COSTS)
    learned(outcome(DRAFTED, 0.2, 1.2, 2, policy=policy), strategy)
    assert strategy.budget.balance == 4.0


@pytest.mark.parametrize(("balance", "longest"), [(8.1, 16), (4.2, 8), (2.2, 4), (0.6, 1), (0.4, 0), (0.0, 0)])
def test_no_draft_is_longer_than_the_balance_allows(balance: float, longest: int):
    """A pass over n + 1 tokens costs n / 2 plain ones more, and a draft that fails whole gives one token."""
    strategy = sure_pair({1: 1.0, 17: 9.0}, 1e-6, 0.999, 1.0)
    strategy.budget.balance = balance
    found = strategy.draft(TEXT, Knobs(drafter="model"), 16)
    assert found.sent == len(found.tokens) == longest
    assert (found.reason.kind == "budget") == (longest == 0)


def test_while_the_balance_is_spent_nobody_looks(monkeypatch: pytest.MonkeyPatch):
    looks = []
    look = SuffixDrafter.cursor
    monkeypatch.setattr(SuffixDrafter, "cursor", lambda self, tokens: looks.append(1) or look(self, tokens))
    for balance, looked in ((-100.0, False), (MAY_LOSE, True)):
        looks.clear()
        strategy = Strategy(None, CostModel({1: 1.0, 2: 1.9}))
        strategy.budget = replace(strategy.budget, balance=balance)
        decode(ToyModel(1, ends=False), [3, 1, 4, 1, 5], Knobs(temperature=0.0, predict=3), strategy=strategy)
        assert bool(looks) == looked
