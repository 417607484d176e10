"""What speculation may lose: a few passes in the beginning, and a hundredth of the time."""

from __future__ import annotations

import pytest

from spectui.knobs import Knobs
from spectui.speculation.auto import AutoPolicy
from spectui.speculation.costs import DraftCost, VerifyCost
from spectui.speculation.economics import Economics
from spectui.speculation.records import Candidate, DraftToken, Round, Token

REPEATED = [Candidate(1, 0.99, "suffix", match=40)] * 16
SURE = [Candidate(1, 0.99, "model")] * 16


def said(*ids: int, position: int) -> tuple[Token, ...]:
    return tuple(Token(id, "", "plain", None, 0, position + place, None, 1.0) for place, id in enumerate(ids))


def a_round(tokens: tuple[Token, ...], kept: list[Candidate], economics: Economics, looking: float = 0.0) -> Round:
    """A round at the pace that the economics expect."""
    fates = [
        "accepted" if candidate.id == token.id else "rejected" for candidate, token in zip(kept, tokens, strict=False)
    ]
    drafted = [DraftToken(each.id, "", each.p, each.source, fate) for each, fate in zip(kept, fates, strict=False)]
    drafted += [DraftToken(each.id, "", each.p, each.source, "ignored") for each in kept[len(drafted) :]]
    verify_s = economics.verify(len(kept) + 1, 0)
    draft_s = looking + economics.drafting(sum(each.source == "model" for each in kept))
    seconds = draft_s + verify_s
    return Round(0, tokens[0].position, Knobs(), tuple(drafted), tokens, draft_s, verify_s, 0.0, seconds, len(kept) + 1)


def test_no_draft_is_longer_than_the_credit_covers():
    """A pass over n + 1 tokens costs n / 2 plain ones more; that repetitions pay here has been seen."""
    economics = Economics(VerifyCost({1: 1.0, 3: 2.0, 17: 9.0}, 1.0))
    for _ in range(40):
        economics.observe(a_round(said(1, 1, 1, 1, 2, position=0), REPEATED[:4], economics), REPEATED[:4])
    policy, lengths = AutoPolicy(economics), []
    for credit in (10.0, 2.2, 0.6, 0.4, 0.0):
        economics.credit = credit
        policy.begin(Knobs(), 0, 16)
        lengths.append(policy.keep(REPEATED))
        if credit == 2.2:  # five tokens for three passes
            assert policy.note(REPEATED[:4]) == "drafting 4 of 16: pays 1.7x"
    assert lengths == [16, 4, 1, 0, 0]
    assert "lost time" in policy.note(())


@pytest.mark.parametrize(
    ("draft", "wrong", "most"), [(0.0, REPEATED, 1.3), (0.1, REPEATED, 3.8), (0.1, SURE, 5.0)],
    ids=["repetitions", "repetitions beside a model", "a model"],
)  # fmt: skip
def test_drafts_that_all_fail_lose_a_few_passes_at_most_and_later_a_hundredth(
    draft: float, wrong: list[Candidate], most: float, monkeypatch: pytest.MonkeyPatch
):
    """However sure the chances are of them: 2 % of 250 tokens, of 130 without a model, and less from there on."""
    costs = VerifyCost({n: 1.0 + 0.2 * (n > 1) + 0.1 * (n - 1) for n in range(1, 18)}, 1.0)
    economics = Economics(costs, DraftCost(draft, draft))
    monkeypatch.setattr(economics.calibration, "chance", lambda candidate: 0.99)
    policy = AutoPolicy(economics)
    lost, lengths = 0.0, []
    for index in range(2000):
        drafted: list[Candidate] = []
        if policy.begin(Knobs(), index, 16):
            while policy.wants_more(drafted, wrong[0].source):
                drafted.append(wrong[0])
        kept = wrong[: policy.keep(drafted)]
        round = a_round(said(2, position=index), kept, economics)
        economics.observe(round, kept)
        lost += round.seconds - 1.0
        assert lost <= max(most, min(most, 2.5) + 0.01 * economics.elapsed)
        if index == (250 if draft else 130):
            assert 0.5 * most < lost <= 0.02 * index + 1e-9
        lengths.append(len(kept))
    assert any(lengths[1000:])  # it does not end


def test_looking_for_repetitions_comes_out_of_the_same_hundredth_and_is_no_loss_of_drafts():
    """Counted as one it kept SmolLM2 from drafting what repeated itself at last."""
    economics = Economics(VerifyCost({1: 1.0, 2: 2.4}, 1.0))
    for looking, allowed in ((0.0, 0.01), (0.004, 0.01 * 1.004 - 0.004), (0.03, 0.0)):
        before = economics.credit
        economics.observe(a_round(said(2, position=10), [], economics, looking), [Candidate(1, 0.3, "suffix", match=3)])
        assert economics.credit == pytest.approx(before + allowed)


DEAR = VerifyCost({1: 1.0, 2: 2.9, 3: 3.0, 4: 3.1, 17: 4.2}, 1.0)
THREE = [Candidate(id, 0.9, "suffix", match=20) for id in (5, 6, 7)]


def told(policy: AutoPolicy, economics: Economics, position: int, *ids: int) -> int:
    """Those three are proposed where the target says these, a token at a time. Returns how many were kept."""
    assert policy.begin(Knobs(), position, 16)
    kept = THREE[: policy.keep(THREE)]
    if kept:
        economics.observe(a_round(said(*ids, position=position), kept, economics), THREE)
        return len(kept)
    assert policy.note(()) == "not drafting: this repetition is watched first, to see whether it would pay"
    for place, id in enumerate(ids):
        economics.observe(a_round(said(id, position=position + place), [], economics), () if place else THREE)
    return 0


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        ([(5, 6, 7, 8)] * 3, [0, 3, 3]),
        ([(5, 1, 1, 1), (5, 6, 7, 8), (5, 6, 7, 8)], [0, 0, 0]),
        ([(1, 1, 1, 1)] * 10 + [(5, 6, 7, 8)] * 5, [0] * 14 + [3]),
    ],
    ids=["once another would have paid", "not yet after one that would have lost", "soon after many"],
)
def test_a_repetition_is_drafted(texts: list[tuple[int, ...]], kept: list[int], monkeypatch: pytest.MonkeyPatch):
    """Where a pass over four tokens costs 3.1, the first ones are held beside the text, for nothing."""
    economics = Economics(DEAR)
    monkeypatch.setattr(economics.calibration, "chance", lambda candidate: 0.95)
    policy = AutoPolicy(economics)
    assert [told(policy, economics, 10 * turn, *ids) for turn, ids in enumerate(texts)] == kept
    assert economics.credit > 2.5, "nothing was paid for what was only watched"
