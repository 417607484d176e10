"""The automatic policy on machines of known costs: it never costs, and it comes near the best fixed length."""

from __future__ import annotations

import numpy as np
import pytest
from spectui.speculation.policies.economics import Economics

from spectui.knobs import Knobs
from spectui.speculation.drafters.suffix import SuffixDrafter
from spectui.speculation.policies import automatic
from spectui.speculation.policies.automatic import AutoDrafter, AutoPolicy
from spectui.speculation.policies.cost_model import DraftCost, VerifyCost
from spectui.speculation.policies.fixed import FixedPolicy
from spectui.speculation.records import Candidate, DraftToken, Round, Token
from spectui.speculation.strategy import Strategy
from tests.speculation.simulation import Machine
from tests.toys import ToyModel, decode, emitted, toy_drafter


def linear(n: int) -> float:
    return 0.05 + 0.05 * n


def flat(n: int) -> float:
    return 0.1 + 0.001 * n


def stepped(n: int) -> float:
    """Dear between 4 and 8, as Metal's kernels are."""
    return 0.1 + 0.005 * n + (0.15 if 4 <= n < 9 else 0.06 if n >= 9 else 0.0)


def amx(n: int) -> float:
    return 0.060 if n == 1 else 0.080 + 0.0032 * n


def calibrated(p: float, _: int) -> float:
    return p


def overconfident(p: float, _: int) -> float:
    return p**3


def worthless(p: float, _: int) -> float:
    return 0.05


def changing(p: float, token: int) -> float:
    return p if (token // 500) % 2 else p**6


MACHINES = {
    f"{verify.__name__} {draft} {chance.__name__}": Machine(verify, draft, chance)
    for verify in (linear, flat, stepped, amx)
    for draft in (0.005, 0.02, 0.06)
    for chance in (calibrated, overconfident, worthless, changing)
}
TOKENS = 3000


@pytest.mark.parametrize("seed", range(3, 6))
def test_bad_luck_at_the_beginning_does_not_end_drafting(seed):
    """Drafting pays 1.2x here; what was seen first may say otherwise, and then it must be tried again."""
    machine = MACHINES["amx 0.02 calibrated"]
    economics = machine.economics()
    seconds = machine.run(AutoPolicy(economics), economics, Knobs(draft_max=16), TOKENS, seed)
    assert TOKENS * machine.verify(1) / seconds > 1.1


def test_a_draft_that_can_hardly_pay_costs_little_to_find_out():
    """A pair in Q4_K_M on a CPU: half a pass for a drafted token, and no cheap pass over several."""
    machine = Machine(lambda n: 0.082 if n == 1 else 0.128 + 0.0085 * n, 0.038, overconfident)
    economics = machine.economics()
    seconds = machine.run(AutoPolicy(economics), economics, Knobs(draft_max=16), 600)
    assert 600 * machine.verify(1) / seconds > 0.98


@pytest.mark.parametrize("name", MACHINES)
def test_never_below_plain_and_near_the_best_fixed_length(name):
    machine = MACHINES[name]
    economics = machine.economics()
    auto = machine.run(AutoPolicy(economics), economics, Knobs(draft_max=16), TOKENS)
    plain = TOKENS * machine.verify(1)
    assert plain / auto > 0.97
    best = min(
        machine.run(FixedPolicy(), machine.economics(), Knobs(policy="fixed", draft_max=most, p_min=0.0), TOKENS)
        for most in (1, 2, 3, 4, 6, 8, 12, 16)
    )
    assert min(best, plain) / auto > 0.90


def test_without_a_profile_it_learns_from_the_rounds():
    machine = Machine(amx, 0.01, calibrated)
    known, unknown = machine.economics(), machine.economics(())
    with_profile = machine.run(AutoPolicy(known), known, Knobs(draft_max=16), TOKENS)
    without = machine.run(AutoPolicy(unknown), unknown, Knobs(draft_max=16), TOKENS)
    assert without < 1.15 * with_profile


def test_after_a_bad_stretch_drafting_comes_back():
    machine = Machine(amx, 0.01, lambda p, token: 0.02 if token < 1500 else 0.95)
    economics = machine.economics()
    policy = AutoPolicy(economics)
    seconds = machine.run(policy, economics, Knobs(draft_max=16), 6000)
    plain = 6000 * amx(1)
    # a quarter of the text at plain speed, the rest much faster
    assert seconds < 0.75 * plain


@pytest.mark.parametrize("seed", [0, 4, 5])
@pytest.mark.parametrize("slow", [3.0, 20.0])
def test_another_process_on_the_machine_does_not_end_the_drafting(slow, seed):
    machine = Machine(amx, 0.01, calibrated, mood=lambda token: slow if (token // 300) % 2 else 1.0)
    economics = machine.economics()
    auto = machine.run(AutoPolicy(economics), economics, Knobs(draft_max=16), TOKENS, seed)
    fixed = machine.run(FixedPolicy(), machine.economics(), Knobs(policy="fixed", draft_max=4, p_min=0.0), TOKENS, seed)
    plain = amx(1) * sum(machine.mood(token) for token in range(TOKENS))
    assert fixed < 0.8 * plain  # there is something to lose
    assert auto < 1.1 * fixed


def test_a_restless_machine_does_not_end_the_drafting_of_a_short_reply():
    """One token in ten finds everything up to four times slower, plain decoding too: that is no loss of the drafts'."""

    def pays(restless: bool, seed: int) -> float:
        numbers = np.random.default_rng(seed)
        moods = np.where(restless & (numbers.random(200) < 0.1), numbers.uniform(1.5, 4.0, 200), 1.0)
        machine = Machine(amx, 0.0135, calibrated, (8.0, 1.4), mood=lambda token: moods[token])
        economics = Economics(VerifyCost({n: amx(n) for n in range(1, 49)}, 1.0), DraftCost(0.0135, 0.0135))
        seconds = machine.run(AutoPolicy(economics), economics, Knobs(draft_max=16), 128, seed)
        return float(moods[:128].sum() * amx(1) / seconds)

    restless, calm = (np.array([pays(so, seed) for seed in range(60)]) for so in (True, False))
    assert restless.mean() > 0.97 * calm.mean() > 1.3
    assert calm.min() > 0.98
    # Some lose their allowance with their first drafts and are written plainly, but not for the machine's moods.
    assert (restless < 1.1).sum() <= (calm < 1.1).sum() + 2 <= 12


@pytest.mark.parametrize(("took", "counted"), [(0.03, 0.03), (5.0, 0.04)])
def test_looking_for_repetitions_is_counted_but_a_hiccup_meanwhile_is_not(took: float, counted: float):
    economics = Economics(VerifyCost({1: 1.0, 2: 2.4}, 1.0))
    token = Token(2, "", "plain", None, 0, 10, None, 1.0)
    ignored = (DraftToken(1, "", 0.3, "suffix", "ignored"),)
    economics.ledger.owed = 0.0
    before = economics.ledger.credit
    economics.observe(
        Round(0, 10, Knobs(), ignored, (token,), took, 1.0, 0.0, 1.0, pass_size=1),
        [Candidate(1, 0.3, "suffix", match=3)],
    )
    assert economics.ledger.credit == pytest.approx(before + 0.02 - counted)


@pytest.mark.parametrize("pace", [0.05, 20.0])
def test_tokens_drafted_at_quite_another_pace_hardly_move_what_drafting_costs(pace: float):
    """That is the machine's doing, which its speed tells by and by."""
    cost = DraftCost(0.2, 0.2)
    cost.observe(1, pace * 0.2)
    assert 0.98 < cost.next / 0.2 < 1.02
    assert (cost.next > 0.2) == (pace > 1)


def test_what_the_draft_has_to_catch_up_on_is_its_own_cost():
    """After rounds without it, its first token takes five times as long: that is not the machine."""
    economics = Economics(VerifyCost({1: 1.0, 2: 1.2}, 1.0), DraftCost(0.2, 0.2))
    drafted = [Candidate(1, 0.5, "model", seconds=1.0)]
    token = Token(2, "", "correction", None, 0, 10, None, 1.0)
    round = Round(
        0, 10, Knobs(), (DraftToken(1, "", 0.5, "model", "rejected"),), (token,), 1.0, 1.2, 0.0, 2.2, pass_size=2
    )
    before = economics.ledger.credit
    economics.observe(round, drafted)
    assert economics.ledger.credit == pytest.approx(before - 1.2)


PROMPT = [3, 1, 4, 1, 5]


def auto_reply(draft_seconds: float, prompt: list[int], draft: bool = True) -> list:
    """Rounds of a toy whose economics say what a drafted token costs; a target pass costs 1 and a little per token."""
    economics = Economics(VerifyCost({1: 1.0, 2: 1.02, 48: 1.5}), DraftCost(draft_seconds, draft_seconds))

    def learn(round: Round, drafted: list) -> None:
        """Chances alone: a toy's passes take no time worth the name."""
        economics.calibration.observe(drafted, [token.id for token in round.tokens])
        economics.elapsed += 1.0

    economics.observe = learn
    strategy = Strategy(toy_drafter(1, 0.2, ends=False) if draft else None, economics)
    knobs = Knobs(temperature=0.9, seed=2, predict=60, draft_max=8)
    _, rounds, _ = decode(ToyModel(1, ends=False), prompt, knobs, strategy=strategy)
    _, plain, _ = decode(ToyModel(1, ends=False), prompt, Knobs(temperature=0.9, seed=2, predict=60, drafter="off"))
    assert emitted(rounds) == emitted(plain)
    return rounds


def sources(rounds: list) -> list[str]:
    return [token.source for round in rounds for token in round.drafted]


def test_a_draft_dearer_than_the_target_is_hardly_asked():
    assert sources(auto_reply(3.0, PROMPT)).count("model") <= 5  # one probe, at most


def test_without_a_look_at_the_machine_the_first_pass_tells_how_fast_it_is():
    machine = Machine(lambda n: 1.4 * amx(n), 0.02, worthless)
    economics = machine.economics()
    economics.verify = VerifyCost({n: amx(n) for n in range(1, 33)})
    machine.run(AutoPolicy(economics), economics, Knobs(draft_max=16), 1)
    assert economics.verify(1, 0) == pytest.approx(1.4 * amx(1))
    assert economics.verify(8, 0) == pytest.approx(1.4 * amx(8))


def test_what_an_unknown_machine_showed_in_its_first_pass_is_not_believed_twice():
    """T(6) is a guess until it is seen: a large surprise is its own, not the whole machine's."""
    cost = VerifyCost()
    cost.observe(1, 0, 1.0)
    cost.observe(6, 0, 6 * cost(6, 0))
    assert cost(1, 0) == pytest.approx(1.0)


def test_before_anything_is_known_one_round_is_plain_and_says_so():
    policy = AutoPolicy(Economics())
    assert not policy.begin(Knobs(), 10, 16)
    assert "measuring" in policy.note(())


def test_a_hiccup_while_drafting_counts_at_most_as_the_round_once_more():
    machine = Machine(amx, 0.01, worthless, mood=lambda token: 50.0)
    economics = machine.economics()
    economics.draft = DraftCost(0.01, 0.01)
    policy = FixedPolicy()
    before = economics.ledger.credit
    machine.run(policy, economics, Knobs(draft_max=4, p_min=0.0), 1)
    # The first pass has made the machine look twice as slow; a hundredth of the time is given back.
    lost = (before - economics.ledger.credit) * economics.verify(1, 10) + 0.01 * economics.elapsed
    assert 0 < lost < 4 * (amx(5) + 4 * 0.01)


def test_what_probes_lose_stays_within_a_hundredth():
    """Idle for long, it looks now and then whether drafting pays again: the dearer a look, the rarer."""
    machine = Machine(lambda n: 1.0 if n == 1 else 1.6 + 0.1 * n, 0.45, worthless)
    economics = machine.economics()
    policy = AutoPolicy(economics)
    machine.run(policy, economics, Knobs(draft_max=16), 500)
    seconds = machine.run(policy, economics, Knobs(draft_max=16), TOKENS)
    assert 1.0 < seconds / TOKENS < 1.01


@pytest.mark.parametrize(("look", "looks"), [(0.002, 60), (0.025, 20), (30.0, 15)])
def test_looking_in_vain_takes_a_hundredth_of_the_time(look: float, looks: int, monkeypatch):
    """A plain pass takes a second, so 0.01 of looking are free in each round; a hiccup does not end it."""
    clock = [0.0]
    monkeypatch.setattr(automatic, "perf_counter", lambda: clock[0])
    policy = AutoPolicy(Economics(VerifyCost({1: 1.0, 2: 1.9}, 1.0)))
    looked = 0
    for _ in range(60):
        if policy.begin(Knobs(), 0, 16):
            looked += 1
            clock[0] += look
        assert policy.keep(()) == 0
    assert looked == looks


def test_while_repetitions_are_found_it_looks_in_every_round(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(automatic, "perf_counter", lambda: clock[0])
    policy = AutoPolicy(Economics(VerifyCost({1: 1.0, 2: 1.1}, 1.0)))
    for _ in range(20):
        assert policy.begin(Knobs(), 0, 16)
        clock[0] += 0.03
        assert policy.keep([Candidate(1, 0.9, "suffix", match=12)]) == 1


@pytest.mark.parametrize(("whole", "looked_at"), [(1.2, 2), (6.0, 1)])
def test_the_dearer_a_row_the_sooner_a_weak_repetition_is_given_up(whole: float, looked_at: int):
    """One word in common: what followed it is right in 8 %, and both that followed in 2 %."""
    economics = Economics(VerifyCost({1: 1.0, 17: whole}, 1.0))
    drafter = AutoDrafter(SuffixDrafter(), None, economics)
    assert len(list(drafter.propose([1, 2, 3, 4, 5, 6, 1], Knobs(draft_max=16)))) == looked_at


def test_while_it_pauses_nobody_looks(monkeypatch):
    looks = []
    look = SuffixDrafter.cursor
    monkeypatch.setattr(SuffixDrafter, "cursor", lambda self, tokens: looks.append(1) or look(self, tokens))
    for credit, looked in ((-100.0, False), (1.0, True)):
        looks.clear()
        economics = Economics(VerifyCost({1: 1.0, 2: 1.9}, 1.0))
        economics.ledger.credit = credit
        decode(ToyModel(1, ends=False), PROMPT, Knobs(temperature=0.0, predict=3), strategy=Strategy(None, economics))
        assert bool(looks) == looked


def test_only_the_model_is_asked_to_see_whether_drafting_pays_again():
    policy = AutoPolicy(Economics(VerifyCost({n: amx(n) for n in range(1, 33)})))
    for _ in range(32):
        policy.begin(Knobs(), 10, 16)
        assert policy.keep(()) == 0
    for source, kept in (("suffix", 0), ("model", 1)):
        policy.begin(Knobs(), 10, 16)
        assert policy.wants_more((), source)
        assert policy.keep([Candidate(1, 0.04, source, match=int(source == "suffix"))]) == kept


def test_the_model_is_asked_where_the_target_is_sure_and_not_where_it_doubts():
    """Rows are dear here: drafts pay from seven tenths on."""
    costs = VerifyCost({1: 1.0, 2: 1.6, 3: 1.8, 4: 2.0, 5: 2.75, 9: 3.5, 17: 5.4}, 1.0)
    economics = Economics(costs, DraftCost(0.2, 0.18))
    policy = AutoPolicy(economics)
    policy.begin(Knobs(), 10, 16)
    for sure, asked in ((0.95, True), (0.4, False), (0.95, True)):
        for _ in range(20):
            economics.calibration.wrote(sure)
        assert policy.wants_more((), "model") == asked
        assert ("needs 0.70 acceptance, has 0.49" in policy.note(())) != asked


@pytest.mark.parametrize("rate", [1.0, 1.3, 2.0, 4.0])
def test_what_is_said_to_be_needed_is_what_decides(rate: float):
    """At a speed that was reached lately more is needed than against plain decoding."""
    economics = Economics(VerifyCost({1: 1.0, 2: 1.6, 3: 1.8, 4: 2.0, 5: 2.75, 17: 5.4}, 1.0), DraftCost(0.18, 0.18))
    economics._tokens, economics._seconds = rate, 1.0
    needs = economics.break_even(0, 16, economics.rate(0))
    asked = []
    for doubt in np.linspace(0, 0.5, 101):
        economics.calibration.doubt = doubt
        drafting, plain = economics.best_extension((), 0, 16), economics.best_stop((), 0)
        hope = economics.calibration.hope()
        if needs is None or abs(hope - needs) > 0.001:
            assert (drafting.value > plain.value) == (needs is not None and hope > needs)
        asked.append(drafting.value > plain.value)
    assert any(asked) == (rate < 3)
    policy = AutoPolicy(economics)
    policy.begin(Knobs(), 10, 16)
    assert ("too much for the speed that was reached lately" in policy.note(())) == (rate > 3)


def test_a_cheap_draft_is_asked():
    assert sources(auto_reply(0.01, PROMPT)).count("model") > 40


def test_a_dearer_draft_makes_shorter_drafts():
    def mean_length(draft_seconds: float) -> float:
        lengths = [len(round.drafted) for round in auto_reply(draft_seconds, PROMPT) if round.drafted]
        return sum(lengths) / len(lengths)

    assert mean_length(0.3) < 0.7 * mean_length(0.01)


def test_without_a_model_repetitions_are_drafted():
    repeated = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5] * 3
    rounds = auto_reply(0.01, repeated, draft=False)
    assert set(sources(rounds)) == {"suffix"}
    assert sources(auto_reply(3.0, repeated)).count("suffix") > 0


@pytest.mark.parametrize(
    ("drafter", "said"), [("suffix", "nothing here stood before"), ("auto", "the draft costs 0.20 of a target pass")]
)
def test_what_a_draft_model_costs_is_no_reason_where_it_is_not_asked(drafter: str, said: str):
    policy = AutoPolicy(Economics(VerifyCost({1: 1.0, 2: 1.9}), DraftCost(0.2, 0.2)))
    policy.begin(Knobs(drafter=drafter), 10, 16)
    policy.keep(())
    assert said in policy.note(())


def test_at_the_end_of_a_reply_the_reason_is_not_that_nothing_fits():
    """It stands for the whole reply where nothing was drafted."""
    policy = AutoPolicy(Economics(VerifyCost({1: 1.0, 2: 1.5}), DraftCost(0.2, 0.2)))
    policy.begin(Knobs(), 10, 0)
    policy.keep(())
    assert "needs 0." in policy.note(())
