"""The automatic policy on machines of known costs: it never costs, and it comes near the best fixed length."""

import numpy as np
import pytest

from spectui.knobs import Knobs
from tests.speculation.policies.simulation import Machine


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
TRIED = [name for number, name in enumerate(MACHINES) if number % 3 == number // 12 % 3]
"""Each passes' cost with each acceptance's truth, and every third of them with each draft's cost."""

BESIDE_THE_BEST = {"stepped 0.02 calibrated": 0.8, "stepped 0.06 calibrated": 0.88}
"""Of the best fixed length, where it is less than of others: behind a step only a long draft pays, which is tried seldom."""

TOKENS = 3000
AUTO = Knobs(draft_max=16)


def fixed(machine: Machine, most: int, seed: int = 0) -> float:
    """Seconds of a reply with drafts of this length."""
    knobs = Knobs(policy="fixed", draft_max=most, p_min=0.0)
    return machine.run(machine.strategy(), knobs, TOKENS, seed)


def fixed_expected(machine: Machine, most: int) -> float:
    """The same by its expectation: most + 1 rows give 1 + q + ... + q^most tokens, q = the chance that a token is accepted.

    Leviathan et al. 2023, equation 1.
    """
    confidences = ((np.arange(1000) + 0.5) / 1000) ** (1 / 4)  # quantiles of beta(4, 1)
    round_s = most * machine.draft + machine.verify(most + 1)
    stretches = range(0, TOKENS, 500)
    q = [float(np.mean([machine.chance(p, token) for p in confidences])) for token in stretches]
    return sum(500 * round_s / sum(each**n for n in range(most + 1)) for each in q)


def test_the_expected_time_of_a_fixed_length_is_that_of_a_run():
    for name in ("stepped 0.02 calibrated", "amx 0.005 changing"):
        for most in (1, 8):
            assert fixed_expected(MACHINES[name], most) == pytest.approx(fixed(MACHINES[name], most), rel=0.02)


@pytest.mark.parametrize("name", TRIED)
def test_never_below_plain_and_near_the_best_fixed_length(name):
    machine = MACHINES[name]
    auto = machine.run(machine.strategy(), AUTO, TOKENS)
    plain = TOKENS * machine.verify(1)
    assert plain / auto > 0.97
    best = min(fixed_expected(machine, most) for most in (1, 2, 3, 4, 6, 8, 12, 16))
    assert min(best, plain) / auto > BESIDE_THE_BEST.get(name, 0.89)


@pytest.mark.parametrize("seed", range(3, 6))
def test_bad_luck_at_the_beginning_does_not_end_drafting(seed):
    """Drafting pays 1.2x here; what was seen first may say otherwise, and then it must be tried again."""
    machine = MACHINES["amx 0.02 calibrated"]
    seconds = machine.run(machine.strategy(), AUTO, TOKENS, seed)
    assert TOKENS * machine.verify(1) / seconds > 1.1


def test_without_a_profile_it_learns_from_the_rounds():
    machine = Machine(amx, 0.01, calibrated)
    with_profile = machine.run(machine.strategy(), AUTO, TOKENS)
    without = machine.run(machine.strategy(()), AUTO, TOKENS)
    assert without < 1.15 * with_profile


def test_after_a_bad_stretch_drafting_comes_back():
    machine = Machine(amx, 0.01, lambda p, token: 0.02 if token < 1500 else 0.95)
    seconds = machine.run(machine.strategy(), AUTO, 6000)
    # a quarter of the text at plain speed, the rest much faster
    assert seconds < 0.75 * 6000 * amx(1)


@pytest.mark.parametrize("slow", [3.0, 20.0])
def test_another_process_on_the_machine_does_not_end_the_drafting(slow):
    """By the mean of four replies: it comes and goes every 300 tokens."""
    machine = Machine(amx, 0.01, calibrated, drift=lambda token: slow if (token // 300) % 2 else 1.0)
    best = [fixed(machine, 4, seed) for seed in range(4)]
    plain = amx(1) * sum(machine.drift(token) for token in range(TOKENS))
    assert max(best) < 0.8 * plain, "there is something to lose"
    shares = [machine.run(machine.strategy(), AUTO, TOKENS, seed) / best[seed] for seed in range(4)]
    assert np.mean(shares) < 1.1


@pytest.mark.parametrize("share", [0.0, 0.005, 0.02])
def test_slow_passes_do_not_break_the_bound_on_losses(share: float):
    """A pair that cannot pay, three replies of a chat. So many tokens find all three times slower, plain decoding too."""
    slow = np.where(np.random.default_rng(1).random(1200) < share, 3.0, 1.0)
    machine = Machine(lambda n: 0.082 if n == 1 else 0.128 + 0.0085 * n, 0.038, overconfident, drift=lambda token: slow[token])
    strategy = machine.strategy(tuple(range(1, 49)), drafts=True)
    for seed in range(3):
        seconds = machine.run(strategy, AUTO, 1000, seed)
        assert slow[:1000].sum() * machine.verify(1) / seconds > 0.965
        assert strategy.costs.verify(5) == pytest.approx(machine.verify(5), rel=0.2)


def test_a_restless_machine_does_not_end_the_drafting_of_a_short_reply():
    """One token in ten finds everything up to four times slower, plain decoding too: that is no loss of the drafts'."""

    def pays(restless: bool, seed: int) -> float:
        numbers = np.random.default_rng(seed)
        drifts = np.where(restless & (numbers.random(200) < 0.1), numbers.uniform(1.5, 4.0, 200), 1.0)
        machine = Machine(amx, 0.0135, calibrated, (8.0, 1.4), drift=lambda token: drifts[token])
        strategy = machine.strategy(tuple(range(1, 49)), drafts=True)
        return float(drifts[:128].sum() * amx(1) / machine.run(strategy, AUTO, 128, seed))

    restless, calm = (np.array([pays(so, seed) for seed in range(20)]) for so in (True, False))
    assert restless.mean() > 0.97 * calm.mean() > 1.3
    assert (128 * amx(1) * (1 / calm - 1)).max() < 0.5, "seconds that a reply may lose"
    # Some lose their budget with their first drafts and are written plainly, but not because the machine was busy.
    assert (restless < 1.1).sum() <= (calm < 1.1).sum() + 1 <= 5
