"""The tuner on recorded texts and machines of known costs, with a clock that only replies move."""

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random

import pytest

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.measure.bench.prompt_files import built_in
from spectui.measure.bench.results import FINALS, Run
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import Summary, remarks, summarise
from spectui.measure.tune import AUTO, PLAIN, Search, candidates, sentences
from tests.measure.bench.runs import FAST, a_run, searched
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


def search_on(machine: str, budget_s: float, noise: float = 0.0, stops: int = -1) -> tuple[Search, list[Run]]:
    """Replies take what they decode; their speeds are off by `noise`."""
    now, random = [0.0], Random(1)

    def measured(setting: Setting, prompt: str, tokens: int) -> float:
        found = speed(machine, setting, prompt, tokens) * (1 + random.gauss(0, noise))
        now[0] += tokens / found
        return found

    search = Search(built_in(PROMPTS, ""), 48, budget_s, lambda: now[0])
    return search, searched(search, candidates(True), measured, stops)


@pytest.mark.parametrize("machine", ["AMX", "AVX-512, Q8_0 in steps"])
def test_the_optimum_of_known_costs_is_found_within_3_percent(machine):
    grid = [Setting("model", "fixed", most, 0, p) for most in (1, 2, 4, 6, 12) for p in (0, 0.2, 0.7)]
    optimum = max(mean(machine, setting) for setting in (*grid, *candidates(True)))
    plain_s = 3 * 48 * MACHINES["q8"][machine].pass_s
    search, runs = search_on(machine, 60 * plain_s, noise=0.01)
    assert mean(machine, search.best) >= 0.97 * optimum
    assert search.used <= 1.1 and search.finished
    assert next(row for row in summarise(runs).rows if row.setting == search.best).gain.faster


@pytest.mark.parametrize("repetitions", [8, 14])
def test_a_slow_target_has_shorter_replies_so_that_the_time_is_kept(repetitions):
    """Time for so many replies of 48 tokens to each prompt: 23 settings could not have one each."""
    plain_s = 3 * 48 * MACHINES["q8"]["AVX-512"].pass_s
    search, runs = search_on("AVX-512", repetitions * plain_s)
    assert 16 <= search.predict < 48
    assert 0.9 <= search.used <= 1.05 and search.finished
    row = next(row for row in summarise(runs).rows if row.setting == search.best)
    assert set(row.cells) == set(PROMPTS) and row.gain.ratio > 1


def test_a_stop_keeps_what_was_repeated():
    search, runs = search_on("AMX", 400.0, stops=330)
    assert search.best.policy == "fixed" and len(runs) == len(search.runs) + 1 == 330


def test_a_stop_in_the_halving_shows_the_longest_replies_of_each_setting():
    search, runs = search_on("AMX", 150.0, stops=1 + 6 + 3 * 10)
    assert search.best is None and not search.finished
    summary = summarise(runs)
    assert search.tried == 10 and len(summary.rows) == 12
    assert {run.predict for run in summary.runs if run.setting == PLAIN} == {search.predict}
    assert "different models" not in " ".join(remarks(summary)), "they have several lengths, as planned"
    assert list(sentences(search, None, None)) == ["It ended before a fixed setting was compared with plain decoding."]


def test_what_is_judged_are_replies_of_their_own_with_seeds_of_their_own():
    search, runs = search_on("AMX", 400.0, noise=0.02)
    judged = [run for run in runs if run.stage == FINALS]
    assert {run.setting for run in judged} == {PLAIN, AUTO, search.best} and summarise(runs).runs == tuple(judged)
    assert {run.repetition for run in runs if run.stage != FINALS} == {0}
    seeds = [run.repetition for run in judged if (run.setting, run.prompt) == (search.best, "python")]
    assert seeds == list(range(1, len(seeds) + 1)) and len(seeds) >= 3
    order = [run.setting for run in judged if run.prompt == "python"]
    assert order[:3] == [PLAIN, AUTO, search.best] and order[3:6] == [search.best, AUTO, PLAIN]


def test_the_time_of_the_prompt_counts_as_in_a_reply_of_the_wanted_length():
    """In the first rungs replies are short: there the prompt would count for more than it does in a chat."""
    run = a_run(FAST, 10.0, tokens=16, prompt_s=2.0, stage="halving")
    assert run.decoding == pytest.approx(10.0) and run.speed == pytest.approx(100 / 12.0)
    assert a_run(FAST, 10.0, tokens=16, prompt_s=2.0).speed == pytest.approx(16 / 3.6)


def test_an_empty_reply_is_a_sentence():
    search = Search(built_in(PROMPTS, ""), 48, 60.0, lambda: 0.0)
    with pytest.raises(SpectuiError, match="The reply to the prompt 'python' is empty"):
        searched(search, candidates(True), lambda *arguments: 0.0)


def steady(speed: float) -> tuple[float, ...]:
    """Speeds that are told from others which differ by some percent."""
    return speed, 1.01 * speed, speed, 1.01 * speed


def ended(speeds: Mapping[Setting, Sequence[float]], best: Setting = FAST) -> tuple[Search, Summary]:
    """The end of a search whose last replies had these speeds."""
    runs = [a_run(setting, each, number, "python", stage=FINALS)
            for setting, own in speeds.items() for number, each in enumerate(own)]  # fmt: skip
    search = Search(built_in(["python"], ""), 32, 60.0, lambda: 0.0, runs=runs, best=best)
    return search, summarise(runs)


def told(search: Search, summary: Summary, *more) -> str:
    return " ".join(sentences(search, summary.chosen, *more))


def test_the_sentences_say_what_is_used_and_what_no_setting_gives():
    costs = MACHINES["q8"]["AMX, Q4_K_M"].measured(drafts=True)
    slow = ended({FAST: steady(10), PLAIN: steady(15), AUTO: steady(12)})
    said = told(*slow, costs)
    assert said.startswith("The best of 1 fixed settings: --drafter model --policy fixed --draft-max 8 --draft-min 0 ")
    assert "So no draft is used" in said and "takes 50% of a plain pass" in said
    steep = told(*slow, MACHINES["q8"]["AVX2"].measured(drafts=True))
    assert "four rows takes 2.1 plain passes" in steep and "drafted token takes" not in steep
    assert "So auto is used." in told(*ended({FAST: (13, 16, 13, 16), PLAIN: steady(10), AUTO: steady(15)}), None)
    assert "It ended before that one was repeated" in told(*ended({FAST: [10], PLAIN: [9], AUTO: [9]}), None)


def test_nothing_wins_before_it_was_repeated():
    search, summary = ended({PLAIN: [10], AUTO: [15], FAST: [18]})
    assert not search.finished and summary.chosen == PLAIN
