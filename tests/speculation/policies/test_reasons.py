"""Each reason that a round names, held against the decision that was taken; and the window's sentence for it."""

from typing import get_args

import pytest

from spectui.chat.figures.estimates import needed
from spectui.chat.figures.reasons import cause, worded
from spectui.knobs import Knobs
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.draft import RoundTimes
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Reason, ReasonKind, Round
from tests.speculation.policies.simulation import TEXT, sure_pair
from tests.toys import SameCosts, ToyModel, decode, never, toy_drafter

PROMPT = [3, 1, 4, 1, 5]
KNOBS = Knobs(temperature=0.9, seed=2, predict=30)
ROWS = {1: 0.01, 2: 0.016, 3: 0.018, 4: 0.02, 5: 0.0275, 9: 0.035, 17: 0.054}
"""Drafts of a toy pay from an acceptance of seven tenths on where a drafted token takes a fifth of a pass."""


def strategy(drafting: float = 0.002, rows: dict[int, float] = ROWS, draft: bool = True, noise: float = 0.5) -> Strategy:
    """With costs that stay as they are."""
    costs = SameCosts(rows, first=drafting, next=drafting)
    return Strategy(toy_drafter(1, noise, ends=False) if draft else None, costs)


def reply(strategy: Strategy, knobs: Knobs = KNOBS) -> list[Round]:
    """Rounds, of which each has a reason that fits what it sent."""
    _, rounds, _ = decode(ToyModel(1, ends=False), PROMPT, knobs, strategy=strategy)
    for round in rounds:
        reason = round.reason
        assert reason is not None
        sent = len(round.drafted) - sum(token.fate == "ignored" for token in round.drafted)
        assert (reason.kind in ("draft", "expected")) == bool(sent)
        assert reason.kept == sent
        assert worded(reason, knobs).startswith("drafting " if sent else ("not drafting: ", "measuring "))
    return rounds


def reasons(rounds: list[Round]) -> list[Reason]:
    return [round.reason for round in rounds if round.reason is not None]


def kinds(rounds: list[Round]) -> set[str]:
    return {reason.kind for reason in reasons(rounds)}


def test_draft_says_how_much_of_how_much_and_the_speed_that_was_expected():
    found = strategy(0.0001, {1: 0.01, 17: 0.012}, noise=0.0)
    rounds = reply(found)
    assert "draft" in kinds(rounds)
    for reason in (each for each in reasons(rounds) if each.kind == "draft"):
        assert reason.gain is not None and 1.0 < reason.gain <= reason.kept + 1
        assert 0 < reason.kept <= reason.limit <= 16
        assert worded(reason, KNOBS) == f"drafting {reason.kept} of {reason.limit}, expected to pay"


def test_measuring_is_the_first_two_rounds_of_a_pair_that_was_not_measured_and_no_other():
    found = Strategy(toy_drafter(1, 0.5, ends=False), CostModel())
    rounds = reply(found)
    assert [reason.kind == "measuring" for reason in reasons(rounds)] == [True, True] + [False] * (len(rounds) - 2)
    assert worded(reasons(rounds)[0], KNOBS) == "measuring what a plain pass costs"


@pytest.mark.parametrize("policy", ["auto", "fixed", "expected"])
def test_no_room_is_a_replys_last_token_and_draft_max_0(policy: str):
    knobs = Knobs(policy=policy, temperature=0.9, predict=1)
    assert kinds(reply(strategy(), knobs)) == {"no room"}
    assert kinds(reply(strategy(), Knobs(policy=policy, draft_max=0, predict=5))) == {"no room"}
    assert cause(Reason("no room"), knobs) == "there is no room for a draft"


@pytest.mark.parametrize("policy", ["auto", "fixed", "expected"])
@pytest.mark.parametrize("drafter", ["model", "auto"])
@pytest.mark.parametrize("short", [1, len(PROMPT) - 4, -4])
def test_draft_full_is_where_the_draft_models_own_context_is_full(policy: str, drafter: str, short: int):
    """Not p-min, and not the time that reading would take: also where it fills up during the reply."""
    found = strategy(0.0001, {1: 0.01, 17: 0.012})
    assert found.model is not None
    found.model.model.n_ctx = len(PROMPT) - short  # type: ignore[misc]
    knobs = Knobs(drafter=drafter, policy=policy, temperature=0.9, predict=16, p_min=0.5)
    rounds = reply(found, knobs)
    late = [round for round in rounds[:-1] if round.position > len(PROMPT) - short and not round.drafted]
    assert late and kinds(late) == {"draft full"}
    assert cause(reasons(late)[0], knobs) == f"the draft's context is full: raise -cd {len(PROMPT) - short}"
    assert short < 0 or {round.reason.kind for round in rounds if round.reason} <= {
        "draft full",
        "no room",
        "draft",
        "expected",
    }


@pytest.mark.parametrize("policy", ["auto", "fixed", "expected"])
@pytest.mark.parametrize(("longest", "strict"), [(0, True), (1, False), (None, False)])
def test_strict_is_where_no_pass_over_two_rows_is_allowed(policy: str, longest: int | None, strict: bool):
    found = strategy(0.0001, {1: 0.01, 17: 0.012})
    found.longest = longest
    knobs = Knobs(policy=policy, temperature=0.9, seed=2, predict=30, p_min=0.0)
    rounds = reply(found, knobs)
    assert (kinds(rounds) == {"strict"}) == strict == ("strict" in kinds(rounds))
    assert not strict or not any(round.drafted for round in rounds)
    assert "--strict allows no pass over two tokens" in cause(Reason("strict"), knobs)


def drafted(passes: dict[int, float], draft_s: float, confidence: float, balance: float = 8.0, limit: int = 16) -> Reason:
    """Why a draft of a model that is so sure, behind a text of which the target was as sure, is as long as it is."""
    found = sure_pair(passes, draft_s, confidence)
    found.budget.balance = balance
    return found.draft(TEXT, Knobs(drafter="model"), limit).reason


@pytest.mark.parametrize("left", [0.0, 0.2, 0.5, 0.9, 1.5, 4.0])
def test_budget_is_named_for_a_first_token_that_it_does_not_bear_and_for_no_shorter_draft(left: float):
    """A drafted token takes .3 passes and a row more a tenth: .4 for one."""
    reason = drafted({1: 1.0, 17: 2.6}, 0.3, 0.99, balance=left)
    assert (reason.kind == "budget") == (left < 0.4)
    assert (reason.kind == "draft") == (left > 0.4)
    assert "loss budget is used up" in cause(Reason("budget"), KNOBS)


def test_uncertain_is_a_repetition_that_does_not_pay():
    """It costs nothing to draft. With rows of 1.5 passes it cannot pay, however likely it is."""
    found = Strategy(None, SameCosts({1: 1.0, 17: 25.0}))
    text = [*range(20, 60), *range(20, 40)]
    found.prepare(text, 0, 0.0, lambda: False, never)
    assert found.draft(text, KNOBS, 4).reason.kind == "uncertain"


@pytest.mark.parametrize("rate", [1.0, 1.3, 2.0, 4.0])
@pytest.mark.parametrize("limit", [1, 4, 16])
def test_unlikely_is_exactly_where_the_expected_acceptance_is_under_what_is_needed(rate: float, limit: int):
    """At a speed that was reached lately more is needed than against plain decoding."""
    needs = needed(RoundTimes.of(CostModel(ROWS, first=0.0018, next=0.0018), 0, limit), rate)
    for percent in range(1, 100):
        found = sure_pair(ROWS, 0.0018, 0.9, percent / 100)
        found.budget.tokens = rate
        reason = found.draft((), Knobs(drafter="model"), limit).reason
        if reason.kind != "unlikely":
            assert needs is not None and percent / 100 > needs - 0.001
            continue
        assert needs is None or percent / 100 < needs + 0.001
        assert reason.rate == rate and reason.limit == limit
        assert reason.expected_acceptance == pytest.approx(percent / 100, abs=0.01)
        assert reason.drafting == pytest.approx([0.18 * length for length in range(limit + 1)])
        said = cause(reason, KNOBS)
        assert said.startswith("the draft costs 0.18 of a target pass, ")
        if needs is not None:
            assert said.endswith(f"needs {needs:.2f} accepted, expects {reason.expected_acceptance:.2f}")
        else:
            cannot = needed(RoundTimes(reason.passes, reason.drafting), 1.0) is None
            assert said.endswith("cannot pay at any acceptance" if cannot else "too much for the speed reached lately")


def test_uncertain_is_where_something_was_drafted_and_its_first_token_is_worth_no_row():
    found = strategy(noise=6.0)
    said = []
    for seed in range(12):
        rounds = reply(found, Knobs(temperature=1.5, seed=seed, predict=60))
        said += [round for round in rounds if round.reason is not None and round.reason.kind == "uncertain"]
    assert said
    for round in said:
        assert round.drafted and round.pass_size == 1 and round.reason is not None
        assert round.reason.expected_acceptance is not None and round.reason.expected_acceptance < 0.7
    reason = said[0].reason
    assert reason is not None
    assert cause(reason, KNOBS) == f"sending the draft would lose, its first token is {reason.expected_acceptance:.2f} likely"


def test_unread_is_where_the_model_does_not_read_the_text():
    found = strategy()
    prompt = [1 + n * n % 11 for n in range(80)]
    model = found.model
    assert model is not None
    target = ToyModel(1, ends=False)
    clock = lambda: float(min(len(target.passes), 10))  # noqa: E731  # the prompt takes ten seconds
    _, rounds, _ = decode(target, prompt, Knobs(drafter="model", predict=10), strategy=found, clock=clock)
    assert not model.model.tokens
    assert [reason.kind for reason in reasons(rounds)] == ["unread"] * 9 + ["no room"]
    seconds = reasons(rounds)[0].seconds
    assert seconds == pytest.approx(0.002 * len(prompt)), "no token takes longer to be read than to be drafted"
    assert cause(reasons(rounds)[0], KNOBS) == (f"the draft needs {seconds:.1f} s to read this text, more than it would save")


@pytest.mark.parametrize("policy", ["auto", "fixed", "expected"])
def test_no_match_is_where_only_repetitions_are_drafted_and_there_are_none(policy: str):
    for knobs, draft in ((Knobs(drafter="suffix"), True), (Knobs(drafter="auto"), False), (Knobs(drafter="model"), False)):
        knobs = Knobs(drafter=knobs.drafter, policy=policy, predict=2, temperature=0.0)
        _, rounds, _ = decode(ToyModel(1, ends=False), [1, 2, 3, 4, 5], knobs, strategy=strategy(draft=draft))
        assert not rounds[0].drafted
        assert kinds(rounds[:1]) == {"no match"}
    assert cause(Reason("no match"), KNOBS) == "nothing here stood in the text before"


def test_p_min_names_the_confidence_that_was_under_it():
    knobs = Knobs(policy="fixed", drafter="model", p_min=0.6, temperature=0.9, seed=2, predict=60)
    rounds = reply(strategy(), knobs)
    refused = [reason for reason in reasons(rounds) if reason.kind == "p-min"]
    assert refused
    for reason in refused:
        assert reason.confidence is not None and reason.confidence < 0.6
        assert cause(reason, knobs) == f"the next token is at {reason.confidence:.2f}, under p-min 0.60"
    shorter = [reason for reason in reasons(rounds) if reason.kind == "draft" and reason.kept < reason.limit]
    assert shorter and all(reason.confidence is not None and reason.confidence < 0.6 for reason in shorter)
    assert worded(shorter[0], knobs).endswith(f"the next is at {shorter[0].confidence:.2f}, under p-min 0.60")


def test_draft_min_names_how_many_were_drafted():
    knobs = Knobs(policy="fixed", drafter="model", p_min=0.6, draft_min=3, temperature=0.9, seed=2, predict=60)
    short = [round for round in reply(strategy(), knobs) if round.reason is not None and round.reason.kind == "draft-min"]
    assert short
    for round in short:
        assert round.reason is not None
        assert round.reason.drafted == len(round.drafted) in (1, 2)
        assert cause(round.reason, knobs) == f"{len(round.drafted)} drafted, under draft-min 3"


@pytest.mark.parametrize("policy", ["auto", "fixed", "expected"])
def test_drafter_off_is_the_knob(policy: str):
    rounds = reply(strategy(), Knobs(drafter="off", policy=policy, predict=5))
    assert kinds(rounds) == {"drafter off"}
    assert cause(reasons(rounds)[0], KNOBS) == "the drafter is off"


def test_profile_says_the_speed_that_was_expected():
    knobs = Knobs(policy="expected", drafter="model", temperature=0.9, seed=2, predict=30)
    said = [each for each in reasons(reply(strategy(noise=0.0), knobs)) if each.kind == "expected"]
    assert said and all(each.gain is not None and each.gain >= 100 for each in said)
    assert worded(said[0], knobs) == f"drafting {said[0].kept} of {said[0].limit}: expected value {said[0].gain:.0f} t/s"


@pytest.mark.parametrize("kind", get_args(ReasonKind))
def test_a_reason_without_its_figures_has_a_sentence_too(kind: ReasonKind):
    """One that was read from a damaged file."""
    assert worded(Reason(kind), KNOBS)
