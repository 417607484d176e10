"""The automatic policy on machines of known costs: it never costs, and it comes near the best fixed length."""

from __future__ import annotations

import pytest

from spectui.knobs import Knobs
from spectui.speculation.auto import AutoPolicy
from spectui.speculation.policy import FixedPolicy
from tests.speculation.simulation import Machine


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


@pytest.mark.parametrize("slow", [3.0, 20.0])
def test_another_process_on_the_machine_does_not_end_the_drafting(slow):
    machine = Machine(amx, 0.01, calibrated, mood=lambda token: slow if (token // 300) % 2 else 1.0)
    economics = machine.economics()
    auto = machine.run(AutoPolicy(economics), economics, Knobs(draft_max=16), TOKENS)
    fixed = machine.run(FixedPolicy(), machine.economics(), Knobs(policy="fixed", draft_max=4, p_min=0.0), TOKENS)
    plain = amx(1) * sum(machine.mood(token) for token in range(TOKENS))
    assert fixed < 0.8 * plain  # there is something to lose
    assert auto < 1.1 * fixed
