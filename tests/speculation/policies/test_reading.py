"""Whether the draft model reads what it has not read, so that it can draft."""

from dataclasses import replace

import pytest

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Candidate
from tests.toys import SameCosts, ToyModel, decode, emitted, never, wrote

PROMPT = [1 + n * n % 11 for n in range(400)]
COSTS = SameCosts({1: 1.0, 2: 1.1, 17: 1.5}, first=0.1, next=0.1)
"""At an acceptance of .85 a token takes some .6 passes less."""

KNOBS = Knobs(drafter="model", temperature=0.9, seed=3)


def pair(costs: CostModel = COSTS, replies: int | None = None) -> tuple[Strategy, ToyModel]:
    """A pair; after twenty replies of so many tokens."""
    model = ToyModel(1, n_ctx=10_000)
    found = Strategy(ModelDrafter(model, 12), costs)
    for _ in range(20 if replies is not None else 0):
        found.prepare([1], 0, 0.0, lambda: False, never)
        wrote(found, replies or 0)
    return found, model


def reads(
    strategy: Strategy, knobs: Knobs = KNOBS, pace: float = 1.0, tokens: int = len(PROMPT), written: int = 20, a_pass: int = 1
) -> bool:
    """Does the draft model read so much of the prompt? The target has read it in `pace` plain passes a token, and then written
    so many tokens, `a_pass` in each pass."""
    assert strategy.model is not None
    strategy.model.model.truncate(0)
    strategy.prepare(PROMPT[:tokens], tokens, pace * tokens, lambda: False, never)
    wrote(strategy, written, a_pass)
    strategy.draft(PROMPT[:tokens], knobs, 7)
    return len(strategy.model.model.tokens) >= tokens


def test_a_prompt_is_read_if_the_reply_is_expected_to_make_up_for_it():
    """400 tokens take 40 s, so the reply must have 67 tokens."""
    found, _ = pair()
    assert reads(found)
    assert reads(found, replace(KNOBS, predict=110))
    assert not reads(found, replace(KNOBS, predict=70)), "of 50 tokens more at most"
    assert reads(found, replace(KNOBS, predict=21), tokens=31), "so few are read in passing"
    assert reads(found, replace(KNOBS, predict=70), pace=0.1), "it reads as much faster as the target does"


@pytest.mark.parametrize(
    ("knobs", "costs", "longest", "read"),
    [
        (KNOBS, COSTS, None, len(PROMPT) - 1),
        (replace(KNOBS, drafter="suffix"), COSTS, None, 0),
        (KNOBS, SameCosts({1: 1.0, 17: 17.0}, first=1.0, next=1.0), None, 0),
        (KNOBS, CostModel(), None, 0),
        (KNOBS, COSTS, 0, 0),
    ],
    ids=["may pay", "is not asked for", "cannot pay", "costs are unknown", "strict allows no draft"],
)
def test_while_nobody_waits_a_draft_model_that_may_pay_reads(knobs: Knobs, costs: CostModel, longest: int | None, read: int):
    found, model = pair(costs)
    found.longest = longest
    found.catch_up(PROMPT, knobs, never_cancelled := lambda: False)
    assert len(model.tokens) == read
    found.catch_up(PROMPT, knobs, never_cancelled)
    assert len(model.tokens) == read


def test_the_first_tokens_wait_for_no_reading():
    """A reply is not expected to become more than ten times as long as it is: one that ends after a few words reads nothing."""
    found, _ = pair()
    assert not reads(found, pace=0.01, written=0)
    assert reads(found, pace=0.01, written=1)
    assert [reads(found, written=written) for written in (1, 5, 10)] == [False, False, True]


def test_where_repetitions_do_as_well_the_model_reads_nothing():
    found, _ = pair()
    assert reads(found, written=20, a_pass=1)
    assert not reads(found, written=20, a_pass=4)


@pytest.mark.parametrize(("predict", "read"), [(3, False), (50, True)])
def test_where_the_target_has_read_nothing_now_a_pass_over_a_draft_tells_the_pace(predict: int, read: bool):
    """Its state was kept: 400 tokens take 3.7 passes by the time of a pass over 16."""
    found, model = pair()
    found.prepare(PROMPT, 0, 0.0, lambda: False, never)
    wrote(found, 2)
    found.draft(PROMPT, replace(KNOBS, predict=predict), 7)
    assert bool(model.tokens) == read


@pytest.mark.parametrize(("replies", "read"), [(10, False), (40, False), (120, True)])
def test_the_longer_replies_were_the_more_is_read(replies: int, read: bool):
    assert reads(pair(replies=replies)[0]) == read


def test_a_draft_that_is_not_accepted_reads_nothing():
    found, _ = pair()
    for _ in range(300):
        found.acceptance.observe([Candidate(1, 0.85, "model")], [2], [0.85])
    assert not reads(found)


def test_a_draft_that_is_no_faster_reads_nothing():
    assert not reads(pair(SameCosts({1: 1.0, 17: 17.0}, first=0.1, next=0.1))[0])


def test_a_prompt_that_was_read_while_the_machine_stood_still_does_not_keep_the_draft_from_reading():
    """No token takes longer to be read than to be drafted, so 400 tokens take 40 s at most."""
    assert reads(pair()[0], pace=1000.0)


def test_before_anything_is_known_it_reads():
    assert reads(pair(CostModel())[0], pace=1000.0)


def test_a_target_that_was_measured_on_a_busy_machine_does_not_make_the_draft_seem_to_read_fast():
    found, model = pair(CostModel({1: 50.0, 2: 55.0, 17: 75.0}, first=0.1, next=0.1, trusted=0, draft_apart=True))
    found.prepare(PROMPT, 400, 400.0, lambda: False, never)
    wrote(found, 2)  # each takes a second
    seconds = found.draft(PROMPT, replace(KNOBS, predict=30), 7).reason.seconds
    assert seconds == pytest.approx(40.0) and not model.tokens


@pytest.mark.parametrize("drafter", ["off", "suffix"])
def test_a_draft_model_that_nobody_asks_reads_nothing(drafter: str):
    assert not reads(pair()[0], Knobs(drafter=drafter))


@pytest.mark.parametrize(("policy", "read"), [("auto", False), ("fixed", True), ("expected", True)])
def test_a_prompt_whose_reading_would_not_pay_is_left_unread(policy: str, read: bool):
    """Not where a person asks for drafts of a certain length."""
    found, _ = pair()
    knobs = replace(KNOBS, policy=policy, predict=28)
    assert reads(found, knobs) == read
    drafted = found.draft(PROMPT, knobs, 7)
    assert (drafted.reason.kind == "unread") != read
    if not read:
        assert drafted.reason.seconds == pytest.approx(40.0)


def test_a_reply_that_becomes_longer_than_expected_is_expected_to_go_on_and_the_model_joins_in():
    found, _ = pair(replies=10)
    assert not reads(found)
    joined = 0
    while found.draft(PROMPT, KNOBS, 8).reason.kind == "unread":
        wrote(found, 1)
        joined += 1
        assert joined < 100
    assert 20 + joined == pytest.approx(67, abs=15)


def test_joining_in_changes_no_token():
    found, model = pair(replies=4)
    knobs, target = replace(KNOBS, predict=34), ToyModel(1, ends=False, n_ctx=999)
    clock = lambda: 5.0 * min(len(target.passes), 12)  # noqa: E731  # the prompt takes a minute
    _, rounds, _ = decode(target, PROMPT[:90], knobs, strategy=found, clock=clock)
    by_model = [any(token.source == "model" for token in round.drafted) for round in rounds]
    assert not any(by_model[:5]) and any(by_model)
    assert model.tokens[:90] == PROMPT[:90]
    plain = decode(ToyModel(1, ends=False, n_ctx=999), PROMPT[:90], replace(knobs, drafter="off"))[1]
    assert emitted(rounds) == emitted(plain)
