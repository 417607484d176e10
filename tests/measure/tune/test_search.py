"""The tuner on recorded texts and machines of known costs, with a clock that only replies move."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import exp
from random import Random

import pytest

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.measure.bench.settings import Setting
from spectui.measure.tune.advice import sentences
from spectui.measure.tune.search import AUTO, PLAIN, Reply, Search, Tuned, candidates, neighbours
from tests.speculation.replaying import MACHINES, RECORDED, recorded, replay

PROMPTS = ("python", "toaster", "story")


@cache
def speed(machine: str, setting: Setting, prompt: str, tokens: int) -> float:
    costs = MACHINES["q8"][machine]
    knobs = setting.on(Knobs(seed=1, predict=tokens))
    return replay(texts()[prompt], costs, knobs) / costs.pass_s


@cache
def texts():
    return recorded(RECORDED / "q8")


def mean(machine: str, setting: Setting) -> float:
    product = 1.0
    for prompt in PROMPTS:
        product *= speed(machine, setting, prompt, 48)
    return product ** (1 / len(PROMPTS))


def searching(machine: str, budget_s: float, noise: float = 0.0, **options) -> Search:
    """Replies take what they decode; their speeds are off by `noise`."""
    now, random = [0.0], Random(1)

    def measure(setting: Setting, prompt: str, tokens: int) -> Reply:
        found = speed(machine, setting, prompt, tokens) * (1 + random.gauss(0, noise))
        now[0] += tokens / found
        return Reply(found, tokens / found)

    return Search(measure, PROMPTS, 48, budget_s, lambda: now[0], **options)


@pytest.mark.parametrize("machine", ["AMX", "AVX-512, Q8_0 in steps"])
def test_the_optimum_of_known_costs_is_found_within_3_percent(machine):
    grid = [Setting("model", "fixed", most, 0, p) for most in (1, 2, 4, 6, 12) for p in (0, 0.2, 0.7)]
    optimum = max(mean(machine, setting) for setting in (*grid, *candidates(True)))
    plain_s = 3 * 48 * MACHINES["q8"][machine].pass_s
    found = searching(machine, 60 * plain_s, noise=0.01).run(candidates(True))
    assert mean(machine, found.best) >= 0.97 * optimum
    assert found.seconds <= 1.1 * 60 * plain_s
    assert found.ratio(found.best, PLAIN).significant and found.ratio(found.best, PLAIN).value > 1


@pytest.mark.parametrize("repetitions", [8, 14])
def test_a_slow_target_has_shorter_replies_so_that_the_time_is_kept(repetitions):
    """Time for so many replies of 48 tokens to each prompt: 23 settings could not have one each."""
    plain_s = 3 * 48 * MACHINES["q8"]["AVX-512"].pass_s
    search = searching("AVX-512", repetitions * plain_s)
    found = search.run(candidates(True))
    assert 16 <= search.predict < 48
    assert 0.9 * repetitions * plain_s <= found.seconds <= 1.05 * repetitions * plain_s
    assert len(found.finals[found.best]) >= 1 and found.ratio(found.best, PLAIN).value > 1


def test_a_stop_keeps_what_was_repeated_and_too_little_time_is_a_sentence():
    with pytest.raises(SpectuiError, match="more --minutes"):
        searching("AMX", 60.0, stopped=lambda: True).run(candidates(True))
    asked = [0]

    def stopped() -> bool:
        asked[0] += 1
        return asked[0] > 200

    found = searching("AMX", 400.0, stopped=stopped).run(candidates(True))
    assert found.best.policy == "fixed" and found.replies == 200
    assert not found.finished and set(found.finals) >= {found.best, AUTO, PLAIN}


def test_confidence_comes_from_repetitions_in_pairs():
    fast = Setting("model", "fixed", 8, 0, 0.4)
    found = Tuned(fast, {fast: [1.0, 1.3, 1.1], PLAIN: [0.5, 0.79, 0.6], AUTO: [1.05]}, 9, 99, 60.0)
    ratio = found.ratio(fast, PLAIN)
    assert ratio.low < ratio.value < ratio.high and ratio.significant
    assert ratio.value == pytest.approx(exp(1.51 / 3), rel=0.01)
    assert found.ratio(AUTO, fast).low is None and not found.ratio(AUTO, fast).significant


def test_the_sentences_say_best_auto_and_what_no_setting_gives():
    fast = Setting("model", "fixed", 8, 0, 0.4)
    costs = MACHINES["q8"]["AMX, Q4_K_M"].model(True)
    slow = Tuned(fast, {fast: [1.0, 1.01], PLAIN: [1.5, 1.51], AUTO: [1.2, 1.21]}, 9, 99, 60.0)
    told = " ".join(sentences(slow, costs))
    assert "--draft-max 8 --draft-min 0 --p-min 0.4" in told
    assert "Auto is faster" in told and "No draft is best here" in told and "takes 50% of a plain pass" in told
    steep = " ".join(sentences(slow, MACHINES["q8"]["AVX2"].model(True)))
    assert "four rows takes 2.1 plain passes" in steep and "drafted token takes" not in steep


def test_neighbours_are_valid_settings_of_their_own():
    edge = Setting("model", "fixed", 1, 0, 0.0)
    for each in (edge, replace(edge, draft_max=48, draft_min=48, p_min=0.95)):
        near = neighbours(each)
        assert each not in near and len(set(near)) == len(near)
        for setting in near:
            setting.on(Knobs())
