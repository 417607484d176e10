"""What speculation may lose, of a reply and of all of them together, whatever its drafts do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spectui.speculation.policies.economics import Economics, by_model

from spectui.knobs import Knobs
from spectui.speculation.policies.automatic import AutoPolicy
from spectui.speculation.policies.cost_model import DraftCost, VerifyCost
from spectui.speculation.policies.loss_budget import Ledger
from spectui.speculation.records import Candidate, DraftToken, Round, Token

REPLIES = st.lists(
    st.tuples(st.booleans(), st.lists(st.floats(-1.0, 0.5), min_size=1, max_size=300)), min_size=1, max_size=6
)
"""Per reply: does another process write it, and per round what its draft would gain, in passes."""


def lose(ledger: Ledger, gain: float, passes: float = 1.0) -> float:
    """A round that gains so much, or loses no more than the credit covers, as the policy sees to it."""
    gain = max(gain, -max(0.0, ledger.credit))
    ledger.add(gain, passes)
    return -gain


def most(tokens: float, stake: float = 2.5) -> float:
    """Passes that a reply of so many tokens may lose."""
    return max(stake, min(tokens / 50, 2.5 + tokens / 100))


@given(replies=REPLIES)
def test_no_reply_and_not_all_of_them_together_lose_more_than_is_said(replies: list[tuple[bool, list[float]]]):
    ledger = Ledger()
    total, passes = 0.0, 0
    for elsewhere, gains in replies:
        if elsewhere:
            before, ledger = ledger, Ledger()
            ledger.resume(before.credit, before.owed)
        ledger.begin()
        lost = 0.0
        for number, gain in enumerate(gains, 1):
            lost += lose(ledger, gain)
            assert lost <= most(number) + 1e-6
            assert total + lost <= max(2.5, (passes + number) / 50) + 1e-6
        total, passes = total + lost, passes + len(gains)


def test_what_is_said_may_be_lost():
    ledger = Ledger()
    for stake in (2.5, 0.0):  # of the second reply there is none left
        ledger.begin()
        lost = [lose(ledger, -1.0) for _ in range(1000)]
        for tokens in (100, 125, 200, 250, 1000):
            assert sum(lost[:tokens]) == pytest.approx(most(tokens, stake), abs=0.03)


@pytest.mark.parametrize("looked", [0.0, 0.004, 0.01])
def test_looking_in_vain_is_within_what_a_short_reply_may_lose(looked: float):
    """Drafts lose what looking leaves them. Of a long reply looking has a hundredth of its own."""
    ledger = Ledger()
    lost = 0.0
    for passes in range(1, 501):
        if ledger.credit > 0:  # without credit nobody looks
            lost += looked
            ledger.add(0.0, 1.0, looked)
        else:
            ledger.add(0.0, 1.0)
        lost += lose(ledger, -0.5, 0.0)
        assert lost <= most(passes) + looked * (1 + max(0, passes - 250)) + 1e-6


def test_what_one_reply_gained_is_not_the_next_ones_to_lose():
    ledger = Ledger()
    for _ in range(50):
        ledger.add(1.0, 1.0)
    assert ledger.credit == 10.0  # in the same reply it may dare more
    ledger.begin()
    assert ledger.credit == 2.5


def test_a_pair_that_lost_its_stake_gets_no_other_in_the_next_process():
    first = Ledger()
    first.add(-2.4, 100.0)
    second = Ledger()
    second.resume(first.credit, first.owed)
    assert second.credit == pytest.approx(0.1)
    second.add(0.0, 25.0)
    assert second.credit == pytest.approx(0.1)  # what was given beforehand is paid back first
    second.add(0.0, 100.0)
    assert second.credit == pytest.approx(2.1)


def test_no_draft_is_longer_than_the_credit_covers():
    """A pass over n + 1 tokens costs n / 2 plain ones more."""
    economics = Economics(VerifyCost({1: 1.0, 3: 2.0, 17: 9.0}, 1.0))
    policy = AutoPolicy(economics)
    repeated = [Candidate(1, 0.99, "suffix", match=40)] * 16
    for candidate in repeated * 40:
        economics.calibration.observe([candidate], [1])
    lengths = []
    for credit in (10.0, 2.2, 0.6, 0.4, 0.0):
        economics.ledger.credit = credit
        policy.begin(Knobs(), 0, 16)
        lengths.append(policy.keep(repeated))
        if credit == 2.2:  # five tokens for three passes
            assert policy.note(repeated[:4]) == "drafting 4 of 16: pays 1.7x"
    assert lengths == [16, 4, 1, 0, 0]
    assert "lost time" in policy.note(())


def test_the_model_is_asked_for_no_token_that_the_credit_does_not_cover():
    """A drafted token takes 0.3 passes, and one more row half of one."""
    economics = Economics(VerifyCost({1: 1.0, 17: 9.0}, 1.0), DraftCost(0.3, 0.3))
    economics.calibration.observe([Candidate(1, 0.99, "model")] * 40, [1] * 41)
    policy, said = AutoPolicy(economics), []
    lengths = []
    for credit in (10.0, 1.7, 0.7):
        economics.ledger.credit = credit
        policy.begin(Knobs(), 0, 16)
        drafted: list[Candidate] = []
        while policy.wants_more(drafted, "model"):
            drafted.append(Candidate(1, 0.99, "model"))
        lengths.append(policy.keep(drafted))
        said.append(policy.note(drafted))
    assert lengths == [12, 2, 0]
    assert ["lost time" in each for each in said] == [False, False, True]


@pytest.mark.parametrize(("source", "drafting"), [("suffix", 0.0), ("suffix", 0.1), ("model", 0.1), ("model", 0.4)])
def test_drafts_that_all_fail_lose_a_fiftieth_of_a_reply_at_most_and_later_a_hundredth(source, drafting, monkeypatch):
    """However sure the chances are of them."""
    economics = Economics(
        VerifyCost({n: 1.0 + 0.4 * (n > 1) + 0.1 * (n - 1) for n in range(1, 18)}, 1.0), DraftCost(drafting, drafting)
    )
    monkeypatch.setattr(economics.calibration, "chance", lambda candidate: 0.99)
    monkeypatch.setattr(economics.calibration, "hope", lambda: 0.99)
    policy = AutoPolicy(economics)
    wrong = Candidate(1, 0.99, source, match=40 * (source == "suffix"), seconds=drafting * (source == "model"))
    lost, lengths = 0.0, []
    for index in range(2000):
        drafted: list[Candidate] = []
        wanted = policy.begin(Knobs(), 0, 16)
        while wanted and policy.wants_more(drafted, source):
            drafted.append(wrong)
        kept = policy.keep(drafted)
        draft_s, verify_s = economics.drafting(by_model(drafted)), economics.verify(kept + 1, 0)
        round = Round(
            index, 0, Knobs(), tuple(DraftToken(1, "", 0.99, source, "rejected") for _ in drafted),
            (Token(2, "", "correction", None, index, 0, None, 1.0),), draft_s, verify_s, 0.0, draft_s + verify_s,
            pass_size=kept + 1,
        )  # fmt: skip
        economics.observe(round, drafted)
        lost += round.seconds - 1.0
        assert lost <= most(economics.elapsed)
        if index == 250:
            assert 1.5 < lost <= 0.02 * index
        lengths.append(kept)
    assert any(lengths[1000:])  # it does not end
