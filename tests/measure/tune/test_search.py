"""The tuner on recorded texts and machines of known costs, with a clock that only replies move."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from statistics import geometric_mean

import pytest

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.llama.cpu.kernels import several_rows
from spectui.measure.bench.settings import Setting
from spectui.measure.tune.advice import Weights, sentences
from spectui.measure.tune.search import AUTO, PLAIN, Reply, Search, Tuned, candidates, neighbours
from tests.measure.tune.trials import steady, tuned
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

    def measure(setting: Setting, prompt: str, tokens: int, seed: int) -> Reply:
        found = speed(machine, setting, prompt, tokens) * (1 + random.gauss(0, noise))
        now[0] += tokens / found
        return Reply(tokens, 0.0, tokens / found)

    return Search(measure, PROMPTS, 48, budget_s, lambda: now[0], **options)


@pytest.mark.parametrize("machine", ["AMX", "AVX-512, Q8_0 in steps"])
def test_the_optimum_of_known_costs_is_found_within_3_percent(machine):
    grid = [Setting("model", "fixed", most, 0, p) for most in (1, 2, 4, 6, 12) for p in (0, 0.2, 0.7)]
    optimum = max(mean(machine, setting) for setting in (*grid, *candidates(True)))
    plain_s = 3 * 48 * MACHINES["q8"][machine].pass_s
    found = searching(machine, 60 * plain_s, noise=0.01).run(candidates(True))
    assert mean(machine, found.best) >= 0.97 * optimum
    assert found.seconds <= 1.1 * 60 * plain_s
    assert found.finished and found.verdict(found.best, PLAIN).faster


@pytest.mark.parametrize("repetitions", [8, 14])
def test_a_slow_target_has_shorter_replies_so_that_the_time_is_kept(repetitions):
    """Time for so many replies of 48 tokens to each prompt: 23 settings could not have one each."""
    plain_s = 3 * 48 * MACHINES["q8"]["AVX-512"].pass_s
    search = searching("AVX-512", repetitions * plain_s)
    found = search.run(candidates(True))
    assert 16 <= search.predict < 48
    assert 0.9 * repetitions * plain_s <= found.seconds <= 1.05 * repetitions * plain_s
    assert len(found.finals(found.best)) == 3 and found.verdict(found.best, PLAIN).ratio > 1


def stopping_after(replies: int, budget_s: float = 400.0) -> Tuned:
    asked = [0]

    def stopped() -> bool:
        asked[0] += 1
        return asked[0] > replies + 1  # one more reply tells how fast the target is

    return searching("AMX", budget_s, stopped=stopped).run(candidates(True))


def test_a_stop_keeps_what_was_repeated():
    found = stopping_after(200)
    assert found.best.policy == "fixed" and len(found.trials) == 200
    assert not found.leaders and found.decoding(PLAIN) > 0


def test_a_stop_in_the_halving_keeps_the_fastest_until_then():
    found = stopping_after(6 + 3 * 10, 150.0)
    assert found.best is None and not found.finished and found.chosen is None
    assert found.tried == 10 and len(found.leaders) == 3
    first = found.leaders[0]
    own = [each.speed for each in found.trials if each.setting == first.setting]
    assert len(own) == 3 and first.speed == pytest.approx(geometric_mean(own)) and first.tokens < 48
    assert first.speed == max(each.speed for each in found.leaders)
    told = " ".join(sentences(found, None))
    assert "It ended after 36 replies" in told and "The fastest of 10 fixed settings until then" in told
    assert f"{first.speed:.1f}" in told and f"Plain decoding had {found.decoding(PLAIN):.1f} tokens per second" in told


def test_a_stop_at_the_beginning_keeps_the_replies():
    found = stopping_after(4)
    assert found.best is None and len(found.trials) == 4 and not found.leaders
    assert "target alone" in " ".join(sentences(found, None))
    nothing = " ".join(sentences(searching("AMX", 60.0, stopped=lambda: True).run(candidates(True)), None))
    assert nothing == "It ended before anything was measured."


def test_what_is_judged_are_replies_of_their_own_with_seeds_of_their_own():
    found = searching("AMX", 400.0, noise=0.02).run(candidates(True))
    judged = [trial for trial in found.trials if trial.stage == "finals"]
    assert {trial.setting for trial in judged} == {PLAIN, AUTO, found.best}
    assert {trial.seed for trial in found.trials if trial.stage != "finals"} == {0}
    seeds = [trial.seed for trial in judged if (trial.setting, trial.prompt) == (found.best, "python")]
    assert seeds == list(range(1, len(seeds) + 1)) and len(seeds) >= 3
    order = [trial.setting for trial in judged if trial.prompt == "python"]
    assert order[:3] == [PLAIN, AUTO, found.best] and order[3:6] == [found.best, AUTO, PLAIN]


def test_the_time_of_the_prompt_counts_as_in_a_reply_of_the_wanted_length():
    """In the first rungs replies are short: there the prompt would count for more than it does in a chat."""
    reply = Reply(16, 2.0, 1.6)
    assert reply.decoding == pytest.approx(10.0) and reply.speed(100) == pytest.approx(100 / 12.0)


def test_a_reply_that_fails_ends_the_search_and_an_empty_one_is_a_sentence():
    search = searching("AMX", 60.0)
    measure, asked = search.measure, list[Setting]()

    def failing(setting: Setting, *arguments) -> Reply | None:
        asked.append(setting)
        if len(asked) == 9:
            raise SpectuiError("gone")
        return measure(setting, *arguments)

    search.measure = failing
    assert len(search.run(candidates(True)).trials) == 7 and str(search.problem) == "gone" and len(asked) == 9
    search = searching("AMX", 60.0)
    search.measure = lambda *arguments: Reply(0, 0.1, 0.0)
    with pytest.raises(SpectuiError, match="The reply to the prompt 'python' is empty"):
        search.run(candidates(True))


def test_the_sentences_say_best_auto_and_what_no_setting_gives():
    fast = Setting("model", "fixed", 8, 0, 0.4)
    costs = MACHINES["q8"]["AMX, Q4_K_M"].model(True)
    slow = tuned(fast, {fast: steady(10), PLAIN: steady(15), AUTO: steady(12)})
    told = " ".join(sentences(slow, costs))
    assert "--draft-max 8 --draft-min 0 --p-min 0.4: 10.0 tokens per second of decoding" in told
    assert "In whole replies it is slower than plain decoding by" in told and "it is slower than auto by" in told
    assert "So no draft is used" in told and "takes 50% of a plain pass" in told
    steep = " ".join(sentences(slow, MACHINES["q8"]["AVX2"].model(True)))
    assert "four rows takes 2.1 plain passes" in steep and "drafted token takes" not in steep
    unknown = " ".join(sentences(tuned(fast, {fast: (10, 12), PLAIN: (11, 10.5), AUTO: (10, 11)}), None))
    assert "it cannot be told from plain decoding after 2 pairs" in unknown and "So no draft is used" in unknown
    assert "So auto is used." in " ".join(
        sentences(tuned(fast, {fast: (13, 16), PLAIN: steady(10), AUTO: steady(15)}), None)
    )
    short = tuned(fast, {fast: [10], PLAIN: [9], AUTO: [9]}, finished=False)
    assert "The time was over before it was repeated" in " ".join(sentences(short, None))


FAST = several_rows({"AVX2", "AVX512", "REPACK", "LLAMAFILE"}, True)
SLOW = tuned(PLAIN, {PLAIN: [1.0], AUTO: [1.0]})


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        (Weights("Q6_K", "Q8_0", FAST), "this one in Q4_0 in place of Q8_0"),
        (Weights("Q6_K", "Q4_0", FAST), "this one in Q2_K in place of Q4_0"),
        (Weights("Q6_K", "Q4_0", FAST - {"Q2_K"}), "a plain pass: try a smaller draft (spectui compare)."),
        (Weights("Q6_K", "Q2_K", FAST), "a plain pass: try a smaller draft (spectui compare)."),
        (Weights("Q6_K", "Q8_0"), "or a cheaper quantisation of it"),
    ],
)
def test_a_dear_draft_has_a_lighter_type_that_this_cpu_is_fast_with(weights, named):
    assert named in " ".join(sentences(SLOW, MACHINES["q8"]["AMX, Q4_K_M"].model(True), weights))


@pytest.mark.parametrize(
    ("weights", "end"),
    [
        (
            Weights("Q6_K", "", FAST),
            "short drafts pay: Q6_K is computed row by row on this CPU. Its kernels for Q4_K_M and Q4_0 and Q8_0 take several "
            "rows at once, so try a target of such a type.",
        ),
        (Weights("Q8_0", "", FAST), "short drafts pay."),
        (Weights("", "", FAST), "short drafts pay."),
        (Weights("Q6_K", "", frozenset({"F16"})), "short drafts pay."),
        (Weights("Q6_K"), "short drafts pay; another type of the target may have a better kernel."),
    ],
)
def test_where_rows_are_dear_a_type_of_the_target_is_named_if_its_kernels_are_better(weights, end):
    assert " ".join(sentences(SLOW, MACHINES["q8"]["AVX2"].model(True), weights)).endswith(end)


def test_neighbours_are_valid_settings_of_their_own():
    edge = Setting("model", "fixed", 1, 0, 0.0)
    for each in (edge, replace(edge, draft_max=48, draft_min=48, p_min=0.95)):
        near = neighbours(each)
        assert each not in near and len(set(near)) == len(near)
        for setting in near:
            setting.on(Knobs())
