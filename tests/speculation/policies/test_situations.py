"""What a reader of docs/drafting.md expects of the automatic length, in situations that are made up here."""

from dataclasses import replace
from itertools import pairwise

import pytest

from spectui.knobs import Knobs
from spectui.speculation.policies.strategy import MAY_LOSE, Drafted, Strategy
from tests.speculation.policies.simulation import TEXT, sure_pair, timed_round

KNOBS = Knobs(drafter="model", draft_max=16)
FLAT = {n: 1.0 + 0.02 * (n - 1) for n in range(1, 18)}
LINEAR = {n: 0.5 + 0.5 * n for n in range(1, 18)}
NEARLY_FREE = {n: 1.0 + 0.05 * (n - 1) for n in range(1, 18)}
STEPS = {n: 1.0 if n <= 4 else 3.0 for n in range(1, 18)}


def draft(strategy: Strategy) -> Drafted:
    return strategy.draft(TEXT, KNOBS, KNOBS.draft_max)


def done(strategy: Strategy, drafted: Drafted, right: int) -> None:
    """The round ends: so many of the tokens that were sent are accepted. It took what was planned."""
    costs, sent = strategy.costs, drafted.sent
    tokens = [1] * min(right, sent) + [1 if right > sent else 2]
    round = timed_round(KNOBS, drafted.tokens, sent, tokens, costs.drafting(len(drafted.tokens)), costs.verify(sent + 1))
    strategy.learn(round, drafted.tokens, [0.9] * len(tokens))


@pytest.mark.parametrize(("passes", "length"), [(NEARLY_FREE, 1), (LINEAR, 0)])
def test_a_dear_draft_that_is_right_every_second_time_drafts_one_token_or_none(passes: dict[int, float], length: int):
    """It costs .4. One token is worth .5 * (2 - 1.05) of a round where rows are nearly free, and .5 * (2 - 1.5) elsewhere."""
    found = draft(sure_pair(passes, 0.4, confidence=0.5))
    assert len(found.tokens) == found.sent == length
    assert found.reason.kind == ("draft" if length else "unlikely")


@pytest.mark.parametrize(
    ("passes", "policy", "first"), [(LINEAR, "auto", 1), (STEPS, "auto", 3), (FLAT, "auto", 15), (LINEAR, "fixed", 16)]
)
def test_a_replys_first_token_waits_for_no_long_pass(passes: dict[int, float], policy: str, first: int):
    """It may take .3 passes more, unless a person has fixed the length. The next round drafts what pays."""
    strategy, text = sure_pair(passes, 0.6, 0.9), [n * n % 1013 + 100 for n in range(40)] * 2
    knobs, sent = replace(KNOBS, drafter="suffix", policy=policy, p_min=0.0), []
    for strategy._written in (0, 1):
        sent.append(strategy.draft(text, knobs, KNOBS.draft_max).sent)
    assert sent[0] == first
    assert sent[1] > first or passes is FLAT or policy == "fixed"


@pytest.mark.parametrize(("times", "sources"), [(2, {"suffix"}), (1, set())])
def test_where_only_repetitions_pay_the_model_is_not_asked(times: int, sources: set[str]):
    """The text stood before, or not."""
    strategy, text = sure_pair(FLAT, 0.6, confidence=0.5), [n * n % 1013 + 100 for n in range(40)] * times
    found = strategy.draft(text, replace(KNOBS, drafter="auto"), KNOBS.draft_max)
    assert {candidate.source for candidate in found.tokens} == sources
    assert found.sent == (KNOBS.draft_max if sources else 0)


def test_the_draft_ends_where_the_next_token_is_not_worth_its_time():
    """By hand: rows of .1 passes, drafted tokens of .1, each .8 likely, at plain decoding's rate. The fourth token adds .41."""
    rows = {n: 1.0 + 0.1 * (n - 1) for n in range(1, 18)}
    found = draft(sure_pair(rows, 0.1, confidence=0.8))
    worth = [sum(0.8**k for k in range(n + 1)) - 0.1 * n for n in range(17)]
    assert found.sent == max(range(len(found.tokens) + 1), key=worth.__getitem__) >= 6


@pytest.mark.parametrize(("passes", "lengths"), [(STEPS, {3, 16}), (FLAT, {16})])
def test_lengths_are_those_at_which_the_cost_steps(passes: dict[int, float], lengths: set[int]):
    assert draft(sure_pair(passes, 0.01, confidence=0.97)).sent in lengths


def test_where_acceptance_falls_the_balance_is_lost_and_then_a_fiftieth_of_the_time():
    """Right 40 times, then wrong. Then a draft of one token, which costs .6 passes, is tried every 30 tokens."""
    strategy = sure_pair(LINEAR, 0.1, confidence=0.95)
    for _ in range(40):
        found = draft(strategy)
        assert found.sent
        done(strategy, found, right=16)
    tries: list[tuple[int, int]] = []
    for token in range(600):
        if (found := draft(strategy)).sent:
            tries.append((token, found.sent))
        done(strategy, found, right=0)
    assert MAY_LOSE - 0.6 < sum(0.6 * length for _, length in tries if length > 1) <= MAY_LOSE
    places = [token for token, length in tries if length == 1]
    assert [later - place for place, later in pairwise(places[1:])] == pytest.approx([30] * (len(places) - 2), abs=1)
