"""How often the verdicts of bench and tune are right on simulated machines.

`python -m tests.benchmarks.verdicts` prints more of it.
"""

from random import Random

import pytest

from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import Row, Summary
from spectui.measure.tune import AUTO, PLAIN
from tests.measure.verdicts.simulated import SETTINGS, bench, comparison, level, pays, share, tuned

FIXED = SETTINGS[1]
SURE = 0.05 + 3 * (0.05 * 0.95 / 100) ** 0.5
"""The share that 5 % do not exceed in 100 trials, with three standard deviations."""


def row(random: Random, speed: float, runs: int, noise: float = 0.04, disturbed: Setting | None = None) -> Row:
    """The row of a setting that is so many times as fast as all others, in a bench of eight."""
    rows = bench(random, level(FIXED, speed), runs, noise, disturbed).rows
    return next(each for each in rows if each.setting == FIXED)


def tells(summary: Summary) -> bool:
    """Whether it says of anything that it is faster or slower."""
    return any(verdict is not None and verdict.told for row in summary.rows for verdict in (row.gain, row.beside_best))


@pytest.mark.parametrize(
    ("runs", "noise", "noisier"), [(1, 0.04, 1), (2, 0.04, 1), (3, 0.15, 1), (8, 0.04, 1), (3, 0.02, 4), (3, 0.02, 10)]
)
def test_a_bench_of_equals_says_nothing_of_any_of_them(runs, noise, noisier):
    """Also where the replies to one prompt, as short ones do, scatter more than the others."""

    assert share(lambda random: tells(bench(random, level(), runs, noise, noisier=noisier)), 100) <= SURE


@pytest.mark.parametrize("times", [4, 10])
def test_nor_does_it_where_one_setting_scatters_more_than_the_others(times):
    assert share(lambda random: tells(bench(random, level(), 3, 0.02, unsteady=times)), 100) <= SURE


def power(speed: float, runs: int) -> float:
    return share(lambda random: row(random, speed, runs).gain.faster, 40)


def test_a_bench_finds_what_is_faster_and_finds_it_with_more_runs_more_often():
    assert power(1.1, 3) >= 0.8
    assert power(1.05, 3) < power(1.05, 5) < power(1.05, 10) and power(1.05, 10) >= 0.8


def test_more_runs_make_fewer_ties():
    """It was the other way round when settings whose runs overlapped were called ties."""
    speeds = level(FIXED, 1.2)
    speeds = {setting: speeds[setting] for setting in (PLAIN, FIXED)} | {SETTINGS[2]: 0.95 * speeds[FIXED]}

    def ties(runs: int) -> float:
        return share(lambda random: bench(random, speeds, runs, 0.04).rows[2].tie, 60)

    few, some, many = ties(2), ties(3), ties(10)
    assert few > some > many == 0


@pytest.mark.parametrize("disturbed", [PLAIN, FIXED])
def test_one_disturbed_reply_hides_no_difference_of_a_tenth(disturbed):
    assert share(lambda random: row(random, 0.9, 5, 0.02, disturbed).gain.slower, 40) >= 0.95
    assert share(lambda random: row(random, 1.0, 5, 0.02, disturbed).gain.told, 100) <= SURE


@pytest.mark.parametrize("runs", [3, 4])
def test_one_setting_beside_the_target_alone_with_one_noisy_prompt_is_not_told_from_it(runs):
    speeds = {PLAIN: level()[PLAIN], FIXED: level()[FIXED]}
    assert share(lambda random: tells(bench(random, speeds, runs, 0.04, noisier=5)), 200) <= SURE


def test_the_range_holds_the_truth():
    def right(random: Random) -> bool:
        gain = row(random, 1.07, 3).gain
        return gain.low <= 1.07 <= gain.high

    assert share(right, 100) >= 1 - SURE


@pytest.mark.parametrize(("prompts", "runs"), [(4, 3), (14, 1)])
def test_a_comparison_finds_the_best_draft_and_no_other(prompts, runs):
    def faster(*speed_ups: float) -> float:
        return share(lambda random: pays(comparison(random, list(speed_ups), prompts, runs, 0.04)), 60)

    assert faster(0.9, 1.12, 0.9, 0.9) >= 0.7
    assert faster(1.0, 1.0, 1.0, 1.0) <= SURE


@pytest.mark.parametrize(
    ("auto", "fixed", "right"),
    [(0.97, 0.97, {PLAIN}), (1.0, 1.0, {PLAIN}), (1.03, 1.0, {PLAIN, AUTO}), (1.3, 1.26, {AUTO}), (0.95, 1.2, {FIXED})],
)
def test_a_search_saves_what_is_known_to_be_fastest(auto, fixed, right):
    def wrong(random: Random) -> bool:
        chosen = tuned(random, auto, fixed, 0.04)
        return (FIXED if chosen not in (PLAIN, AUTO) else chosen) not in right

    assert share(wrong, 30) <= 0.1
