"""When the draft model reads what it has not read, so that it can draft."""

from __future__ import annotations

import pytest
from spectui.speculation.policies.economics import Economics

from spectui.knobs import Knobs
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import DraftCost, VerifyCost
from spectui.speculation.policies.draft_prefill import Joining
from spectui.speculation.strategy import Strategy
from tests.toys import ToyModel, decode, emitted

PROMPT = [1 + n * n % 11 for n in range(60)]


def priced(drafting: float = 0.1) -> Economics:
    """A plain pass takes a second and further rows little; a drafted token so many seconds."""
    return Economics(VerifyCost({1: 1.0, 2: 1.1, 17: 1.5}, 1.0), DraftCost(drafting, drafting))


def joining(pace: float = 1.0, drafting: float = 0.1) -> Joining:
    found = Joining(priced(drafting))
    found.read(100, 100 * pace, 0)
    return found


def test_what_a_token_is_expected_to_save():
    economics = priced()
    economics.calibration.doubt = 0.5  # just now, which says little of a whole reply
    economics.calibration.usual = 0.0  # every one is right: 17 tokens in 1.5 + 1.6 seconds
    assert economics.saves(0) == pytest.approx(1 - 3.1 / 17, abs=0.01)
    economics.calibration.usual = 1.0
    assert economics.saves(0) == 0.0


def test_a_prompt_is_read_if_the_reply_is_expected_to_make_up_for_it():
    """Some .6 seconds are saved with each token."""
    waiting = joining()
    waiting.reply = 200.0
    assert waiting.pays(60, 0, -1)
    assert not waiting.pays(300, 0, -1)
    assert waiting._economics.unread_s == 300.0
    assert not waiting.pays(60, 0, 50), "of 50 tokens at most"
    assert waiting.pays(31, 0, 1), "so few are read in passing"


def test_what_was_not_read_is_read_when_waiting_has_cost_as_much():
    waiting = joining()
    waiting.reply = 100.0
    joined = next(n for n in range(2000) if waiting.pays(300, 0, -1) or waiting.wrote(1, 1, 0))
    assert joined * waiting._economics.saves(0) == pytest.approx(300, abs=1)


def test_where_repetitions_are_drafted_as_fast_nothing_is_read():
    """Of the reply that was expected too little followed; of ten tokens that a pass over ten gave the model saves none."""
    waiting = joining()
    waiting.reply = 100.0
    assert not waiting.pays(300, 0, -1)
    waiting.reply = 1e6  # were it asked for the first time now, it would read
    for _ in range(1000):
        assert not waiting.pays(300, 0, -1)
        waiting.wrote(10, 10, 0)


def test_a_new_reply_is_another_matter():
    waiting = joining()
    waiting.reply = 100.0
    assert not waiting.pays(300, 0, -1)
    waiting.begin(0, 0.0)
    waiting.reply = 1e6
    assert waiting.pays(300, 0, -1)


def test_replies_are_expected_to_be_as_long_as_they_were():
    waiting = joining()
    for _ in range(20):
        waiting.begin(0, 0.0)
        waiting.wrote(40, 1, 0)
    waiting.begin(0, 0.0)
    assert waiting.reply == pytest.approx(40, abs=1)


def test_a_draft_that_does_not_pay_reads_on_the_ledgers_account_or_not_at_all():
    waiting = joining(drafting=3.0)
    ledger = waiting._economics.ledger
    ledger.credit = 4.0
    assert not waiting.pays(60, 0, -1)
    waiting.pace = 0.05
    assert waiting.pays(60, 0, -1)
    waiting.read(60, 3.2, 0)
    assert ledger.credit == pytest.approx(4.0 - 3.2)
    assert not waiting.pays(60, 0, -1)


def test_while_drafting_pauses_nothing_is_read():
    waiting = joining(pace=0.01)
    waiting._economics.ledger.credit = 0.0
    assert not waiting.pays(60, 0, -1)


def test_a_draft_that_was_never_seen_to_read_is_taken_to_be_as_much_faster_as_in_writing():
    waiting = Joining(priced(0.2))
    waiting.begin(100, 300.0)
    waiting.reply = 1.0
    assert not waiting.pays(100, 0, -1)
    assert waiting._economics.unread_s == pytest.approx(60.0)


def strategy(pace: float, economics: Economics) -> tuple[Strategy, ToyModel]:
    """With a draft model that reads at this pace."""
    model = ToyModel(1)
    found = Strategy(ModelDrafter(model, 12), economics)
    found._joining.pace = pace
    return found, model


@pytest.mark.parametrize("drafter", ["off", "suffix"])
def test_a_draft_model_that_nobody_asks_reads_nothing(drafter: str):
    found, model = strategy(0.0, priced())
    decode(ToyModel(1), PROMPT, Knobs(drafter=drafter, predict=8), strategy=found)
    assert not model.evaluated


@pytest.mark.parametrize(("policy", "read"), [("auto", False), ("fixed", True), ("profile", True)])
def test_a_prompt_whose_reading_would_not_pay_is_left_unread(policy: str, read: bool):
    """Not where a person asks for drafts of a certain length."""
    economics = priced()
    found, model = strategy(100.0, economics)
    _, rounds, _ = decode(
        ToyModel(1, ends=False), PROMPT, Knobs(drafter="model", policy=policy, predict=8), strategy=found
    )
    assert bool(model.evaluated) == read
    if not read:
        assert rounds[0].note == "not drafting: the draft needs 6000.0 s to read this text, more than it would save"


def test_it_joins_in_the_middle_of_a_reply_and_changes_no_token():
    economics = priced()
    economics.observe = lambda round, drafted: None  # a toy's passes take no time worth the name
    found, model = strategy(0.1, economics)
    found._joining.reply = 4.0
    knobs = Knobs(temperature=0.9, seed=3, predict=34)
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, strategy=found)
    sources = [any(token.source == "model" for token in round.drafted) for round in rounds]
    assert not any(sources[:5])
    assert any(sources)
    assert model.tokens[: len(PROMPT)] == PROMPT
    _, plain, _ = decode(ToyModel(1, ends=False), PROMPT, Knobs(temperature=0.9, seed=3, predict=34, drafter="off"))
    assert emitted(rounds) == emitted(plain)
