"""What a reader of docs/drafting.md expects of the automatic length, in situations that are made up here."""

from __future__ import annotations

import pytest

from spectui.knobs import Knobs
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import MAY_LOSE, Drafted, Strategy
from spectui.speculation.records import Outcome
from tests.speculation.policies.simulation import TEXT, Dice
from tests.toys import never

KNOBS = Knobs(drafter="model", draft_max=16)
FLAT = {n: 1.0 + 0.02 * (n - 1) for n in range(1, 18)}
LINEAR = {n: 0.5 + 0.5 * n for n in range(1, 18)}
STEPS = {n: 1.0 if n <= 4 else 3.0 for n in range(1, 18)}


def pair(passes: dict[int, float], draft: float, confidence: float = 0.9, target: float = 0.9) -> Strategy:
    """A draft model that is so sure of its tokens, behind a text in which the target was as sure of its own."""
    found = Strategy(Dice(lambda: confidence, draft), CostModel(passes, first=draft, next=draft))
    found.prepare(TEXT, KNOBS, 0, 0.0, lambda: False, never)
    found.acceptance.observe((), (), [target] * 60)
    return found


def draft(strategy: Strategy) -> Drafted:
    return strategy.draft(TEXT, KNOBS, KNOBS.draft_max)


def done(strategy: Strategy, drafted: Drafted, right: int) -> None:
    """The round ends: so many of the tokens that were sent are accepted. It took what was planned."""
    costs, sent = strategy.costs, drafted.sent
    tokens = [1] * min(right, sent) + [1 if right > sent else 2]
    draft_s, verify_s = costs.drafting(len(drafted.tokens)), costs.verify(sent + 1)
    strategy.learn(
        Outcome(
            0, len(TEXT), KNOBS, drafted.tokens, sent, tokens, [0.9] * len(tokens), [0.9] * len(tokens), draft_s=draft_s,
            verify_s=verify_s, choose_s=0.0, seconds=draft_s + verify_s, pass_size=sent + 1,
        )
    )  # fmt: skip


def test_a_dear_draft_is_not_asked_where_little_is_accepted():
    """Half a pass for a token, of which the target is expected to take four in ten."""
    found = draft(pair(LINEAR, 0.5, target=0.4))
    assert (found.tokens, found.sent, found.reason.kind) == ([], 0, "unlikely")


def test_a_cheap_draft_that_is_mostly_right_is_long():
    found = draft(pair(FLAT, 0.02))
    assert found.sent >= 8 and found.reason.kind == "draft"


def test_the_draft_ends_where_the_next_token_is_not_worth_its_time():
    """By hand: rows of .1 passes, drafted tokens of .1, each .8 likely, at plain decoding's rate. The fourth token adds .41."""
    rows = {n: 1.0 + 0.1 * (n - 1) for n in range(1, 18)}
    found = draft(pair(rows, 0.1, confidence=0.8, target=0.8))
    worth = [sum(0.8**k for k in range(n + 1)) - 0.1 * n for n in range(17)]
    assert found.sent == max(range(len(found.tokens) + 1), key=worth.__getitem__) >= 6


@pytest.mark.parametrize(("passes", "lengths"), [(STEPS, {3, 16}), (FLAT, {16})])
def test_lengths_are_those_at_which_the_cost_steps(passes: dict[int, float], lengths: set[int]):
    assert draft(pair(passes, 0.01, confidence=0.97, target=0.97)).sent in lengths


def test_where_acceptance_falls_drafting_ends_and_comes_back():
    """Right 40 times, then wrong: within the balance it stops; behind that the text is plain, and later it tries again."""
    strategy = pair(LINEAR, 0.1, confidence=0.95, target=0.95)
    for _ in range(40):
        found = draft(strategy)
        assert found.sent
        done(strategy, found, right=16)
    wrong = 0
    while (found := draft(strategy)).sent:
        done(strategy, found, right=0)
        wrong += 1
    assert 0 < wrong < 30
    idle = 0
    while not (found := draft(strategy)).sent:
        done(strategy, found, right=0)
        idle += 1
        assert idle < 500
    assert idle > 5


def test_a_balance_that_is_spent_ends_the_drafting_and_is_filled_again():
    strategy = pair(FLAT, 0.02)
    strategy.conversation.balance = 0.0
    assert draft(strategy).reason.kind == "budget"
    strategy.conversation.balance = 0.03
    assert draft(strategy).reason.kind == "budget", "not even a draft of one token may fail"
    strategy.conversation.balance = 0.2
    assert 0 < draft(strategy).sent <= 5
    for _ in range(1000):
        done(strategy, Drafted((), 0, draft(strategy).reason), right=0)
    assert strategy.conversation.balance == MAY_LOSE


def test_repetitions_that_are_right_raise_the_rate_that_the_model_must_reach():
    """At a rate of three tokens a pass, drafts that would give two are not made."""
    strategy = pair(LINEAR, 0.3, confidence=0.8, target=0.8)
    slow = draft(strategy).sent
    strategy.conversation.tokens, strategy.conversation.passes = 3.0, 1.0
    assert draft(strategy).sent <= slow
    assert draft(strategy).reason.kind == "unlikely"
