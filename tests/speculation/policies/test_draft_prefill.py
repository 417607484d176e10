"""Whether the draft model reads what it has not read, so that it can draft."""

from __future__ import annotations

import pytest

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.acceptance import Acceptance
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.policies.draft_prefill import DraftPrefill
from spectui.speculation.records import Candidate
from spectui.speculation.strategy import Strategy
from tests.toys import ToyModel, decode, emitted

PROMPT = [1 + n * n % 11 for n in range(60)]


def priced(drafting: float = 0.1) -> CostModel:
    """A plain pass takes a second and further rows little; a drafted token so many seconds."""
    return CostModel(VerifyCost({1: 1.0, 2: 1.1, 17: 1.5}, 1.0), DraftCost(drafting, drafting))


def prefill(pace: float = 1.0, drafting: float = 0.1, replies: int = 256) -> DraftPrefill:
    """A draft that reads a token in `pace` seconds, after replies of so many tokens."""
    costs = priced(drafting)
    found = DraftPrefill(costs, Acceptance())
    for _ in range(40):
        found.observe_reading(100, 100 * pace)
        found.begin_reply(0, 0.0)
        found.observe_round(replies, 1, 0)
    found.begin_reply(0, 0.0)
    return found


def test_a_prompt_is_read_if_the_reply_is_expected_to_make_up_for_it():
    """At an acceptance of .85 a token takes some .4 passes less: 4 tokens of 17 are accepted in a round of 1.2 + .4 s."""
    waiting = prefill(replies=200)
    assert waiting.pays(60, 0, -1)
    assert not waiting.pays(300, 0, -1)
    assert waiting.unread_s == pytest.approx(300.0)
    assert not waiting.pays(60, 0, 50), "of 50 tokens at most"
    assert waiting.pays(31, 0, 1), "so few are read in passing"
    assert waiting.unread_s is None


def test_the_longer_replies_were_the_more_is_read():
    reads = [prefill(replies=replies).pays(300, 0, -1) for replies in (20, 200, 2000)]
    assert reads == [False, False, True]


def test_a_draft_that_is_not_accepted_reads_nothing():
    waiting = prefill(pace=0.01, replies=2000)
    assert waiting.pays(300, 0, -1)
    for _ in range(600):
        waiting._acceptance.observe((), (), [0.85] * 20)
        waiting._acceptance.observe([Candidate(1, 0.5, "model")], [2], ())
    assert not waiting.pays(300, 0, -1)


def test_what_was_not_read_is_read_when_waiting_has_cost_as_much():
    waiting = prefill(replies=100)
    joined = next(n for n in range(2000) if waiting.pays(300, 0, -1) or waiting.observe_round(1, 1, 0))
    saved = prefill(replies=100)
    # Reading pays at once for a reply as long as that.
    assert saved.pays(300, 0, -1) is False and 300 < joined < 1500
    for wrong, replies in ((False, joined - 5), (True, joined + 5)):
        assert prefill(replies=replies).pays(300, 0, -1) == wrong


def test_where_repetitions_are_drafted_as_fast_nothing_is_read():
    """Of ten tokens that a pass over ten gave, the model saves none."""
    waiting = prefill(replies=100)
    assert not waiting.pays(300, 0, -1)
    for _ in range(1000):
        waiting.observe_round(10, 10, 0)
        assert not waiting.pays(300, 0, -1)


def test_a_prompt_that_was_read_while_the_machine_stood_still_does_not_keep_the_draft_from_reading():
    """No token takes longer to be read than to be drafted, so 60 tokens take 6 s at most."""
    waiting = DraftPrefill(priced(), Acceptance())
    waiting.begin_reply(60, 60_000.0)
    assert waiting.pays(60, 0, -1)


def test_a_new_reply_is_another_matter():
    waiting = prefill(replies=100)
    assert not waiting.pays(300, 0, -1)
    waiting.observe_round(100_000, 100_000, 0)
    assert not waiting.pays(300, 0, -1)
    waiting.begin_reply(0, 0.0)
    assert waiting.unread_s is None
    assert waiting.pays(300, 0, -1)


def test_a_draft_that_was_never_seen_to_read_is_taken_to_be_as_much_faster_as_in_writing():
    waiting = DraftPrefill(priced(0.2), Acceptance())
    waiting.begin_reply(100, 50.0)
    assert not waiting.pays(6000, 0, -1)
    assert waiting.unread_s == pytest.approx(600.0)


@pytest.mark.parametrize("guessed", [True, False])
def test_the_first_reading_is_believed_wholly_and_later_ones_are_averaged(guessed: bool):
    waiting = DraftPrefill(priced(0.2), Acceptance())
    waiting.begin_reply(100, 50.0 if guessed else 0.0)
    waiting.observe_reading(31, 31.0)
    waiting.observe_reading(100, 50.0)
    assert not waiting.pays(6000, 0, -1)
    assert waiting.unread_s == pytest.approx(3000.0)
    waiting.observe_reading(100, 150.0)
    assert not waiting.pays(6000, 0, -1)
    assert waiting.unread_s == pytest.approx(6000 * (0.7 * 0.5 + 0.3 * 1.5))


def test_before_anything_is_known_it_reads():
    waiting = DraftPrefill(CostModel(), Acceptance())
    waiting.begin_reply(100, 300.0)
    assert waiting.pays(1000, 0, -1)


def strategy(pace: float, replies: int = 256) -> tuple[Strategy, ToyModel]:
    """With a draft model that reads at this pace, after replies of so many tokens."""
    model, costs = ToyModel(1), priced()
    found = Strategy(ModelDrafter(model, 12), costs)
    found.prefill = prefill(pace, replies=replies)
    return found, model


@pytest.mark.parametrize("drafter", ["off", "suffix"])
def test_a_draft_model_that_nobody_asks_reads_nothing(drafter: str):
    found, model = strategy(0.0)
    decode(ToyModel(1), PROMPT, Knobs(drafter=drafter, predict=8), strategy=found)
    assert not model.evaluated


@pytest.mark.parametrize(("policy", "read"), [("auto", False), ("fixed", True), ("profile", True)])
def test_a_prompt_whose_reading_would_not_pay_is_left_unread(policy: str, read: bool):
    """Not where a person asks for drafts of a certain length."""
    found, model = strategy(100.0)
    knobs = Knobs(drafter="model", policy=policy, predict=8)
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, strategy=found)
    assert bool(model.evaluated) == read
    if not read:
        assert rounds[0].reason is not None and rounds[0].reason.kind == "unread"
        assert rounds[0].reason.seconds == pytest.approx(100 * len(PROMPT), rel=0.1)


def test_it_joins_in_the_middle_of_a_reply_and_changes_no_token():
    found, model = strategy(0.1, replies=4)
    found.costs.observe = lambda outcome: None  # a toy's passes take no time worth the name
    knobs = Knobs(temperature=0.9, seed=3, predict=34)
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, strategy=found)
    sources = [any(token.source == "model" for token in round.drafted) for round in rounds]
    assert not any(sources[:5])
    assert any(sources)
    assert model.tokens[: len(PROMPT)] == PROMPT
    _, plain, _ = decode(ToyModel(1, ends=False), PROMPT, Knobs(temperature=0.9, seed=3, predict=34, drafter="off"))
    assert emitted(rounds) == emitted(plain)
