"""Medians, spreads, gains, ties and remarks, and that every table says the same as the runs."""

import json
import re
from dataclasses import replace

import pytest

from spectui.measure.bench.conditions import SERVERS
from spectui.measure.bench.results import FINALS, Run, parsed, parsed_conditions
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import Row, Summary, remarks, speed, spread, summarise
from spectui.measure.report import as_json, text
from spectui.measure.verdict import Verdict
from tests.measure.bench.runs import DRAFT, FAST, SLOW, TARGET, a_run, elsewhere


def table(summary: Summary) -> str:
    """What a terminal gets."""
    return "\n".join(text(summary, 1000))


def some(
    fast: tuple[float, ...] = (20.0, 22.0, 21.0),
    slow: tuple[float, ...] = (14.0, 15.0, 13.0),
    target: tuple[float, ...] = (10.0, 10.0, 10.5),
) -> list[Run]:
    groups = {TARGET: target, FAST: fast, SLOW: slow, DRAFT: (40.0, 41.0, 40.0)}
    return [a_run(setting, speed, number) for setting, speeds in groups.items() for number, speed in enumerate(speeds)]


def test_a_row_has_median_spread_and_gain_over_the_target_alone():
    row = {row.setting: row for row in summarise(some()).rows}[FAST]
    assert speed(row.cells["python"]) == pytest.approx(21.0)
    assert spread(row.cells["python"]) == pytest.approx(2 / 21)
    assert row.gain is not None and row.gain.ratio == pytest.approx((2.0 * 2.2 * 2.0) ** (1 / 3))
    assert (row.statistics.drafted, row.statistics.accepted, row.statistics.acceptance) == (180, 90, 0.5)


def test_speeds_are_compared_within_a_repetition():
    """The machine gets slower by half; each repetition tells that FAST gains a half."""
    plain, fast = (30.0, 20.0, 10.0), (45.0, 30.0, 15.0)
    runs = [a_run(each, s, n) for each, speeds in ((TARGET, plain), (FAST, fast)) for n, s in enumerate(speeds)]
    rows = {row.setting: row for row in summarise([*runs, a_run(FAST, 1.0, 3)]).rows}
    gain = rows[FAST].gain
    assert gain is not None and gain.faster and (gain.low, gain.high, gain.pairs) == (pytest.approx(1.5), pytest.approx(1.5), 3)
    assert (rows[FAST].best, rows[TARGET].best, rows[TARGET].tie) == (True, False, False)


def test_temperatures_are_not_mixed():
    """The hot runs are of slower texts: they say nothing of the settings."""
    hot = [
        replace(each, setting=replace(each.setting, temperature=0.8))
        for each in some((10.0, 10.1, 9.9), (9.0, 9.1, 9.0), (5.0, 5.1, 5.0))
    ]
    rows = {row.setting: row for row in summarise([*some(), *hot]).rows}
    assert [row.setting.temperature for row in rows.values() if row.best] == [0.0, 0.8]
    gain = rows[replace(FAST, temperature=0.8)].gain
    assert gain is not None and gain.ratio == pytest.approx((2.0 * 10.1 / 5.1 * 9.9 / 5.0) ** (1 / 3))
    assert rows[FAST].gain.ratio == pytest.approx((2.0 * 2.2 * 2.0) ** (1 / 3))
    assert "auto policy, draft-max 16 temp 0.8" not in table(summarise(some())) and "temp 0.8" in table(
        summarise([*some(), *hot])
    )


def test_the_time_of_the_prompt_counts_in_the_gain_and_not_in_the_decoding():
    """The draft reads a long prompt for 3 seconds: it decodes faster, and its replies take longer."""
    runs = [
        a_run(each, speed, number, prompt_s=seconds)
        for number in range(3)
        for each, speed, seconds in ((TARGET, 10.0 + number / 100, 2.0), (FAST, 12.0, 5.0))
    ]
    row = {row.setting: row for row in summarise(runs).rows}[FAST]
    assert row.gain.slower and row.gain.ratio == pytest.approx(12 / (100 / 12 + 5), rel=0.01)
    assert row.decoding.faster and row.decoding.ratio == pytest.approx(1.2, rel=0.01)
    said = table(summarise(runs))
    assert re.search(r"\+20 %  +-10 %", said) and "\ntarget alone * " in said


def steady(speed: float) -> tuple[float, ...]:
    return speed, 1.01 * speed, speed, 1.01 * speed


def test_the_best_is_marked_and_what_cannot_be_told_from_it_is_a_tie():
    rows = {row.setting: (row.best, row.tie) for row in summarise(some(steady(20), steady(14), steady(10))).rows}
    assert rows == {TARGET: (False, False), FAST: (True, False), SLOW: (False, False), DRAFT: (False, False)}
    close = summarise(some(steady(20), (19.0, 20.5, 19.0, 20.1), steady(10)))
    assert [row.tie for row in close.rows] == [False, False, True, False]
    said = " ".join(remarks(close))
    assert f"The best, {FAST.label}, is faster than the target alone by " in said
    assert f"It cannot be told from what is marked =: {SLOW.label} (some " in said and " pairs would)." in said
    equal = " ".join(remarks(summarise(some((10.2, 9.9, 10.1), (9.5, 9.4, 9.6)))))
    assert (
        f"The best, {FAST.label}, cannot be told from the target alone after 3 pairs" in equal or "is the target alone" in equal
    )


def test_one_verdict_on_a_setting_and_the_target_alone_is_spoken():
    """What the gain's bounds leave open is a tie."""
    for fast, plain in (((10.1, 8.4, 9.5, 8.1), (12.0, 11.9, 12.1, 11.0)), (steady(20), steady(10))):
        rows = {row.setting: row for row in summarise(some(fast, steady(8), plain)).rows}
        if rows[TARGET].best:
            assert rows[FAST].beside_best == rows[FAST].gain and rows[SLOW].beside_best == rows[SLOW].gain
        else:
            assert rows[TARGET].beside_best.high == pytest.approx(1 / rows[FAST].gain.low)


def test_of_one_setting_nothing_is_the_best_and_many_ties_are_counted():
    assert remarks(summarise([a_run(TARGET, 10.0 + number / 100, number) for number in range(3)])) == []
    many = [a_run(replace(FAST, draft_max=most), 10.0 + (most * number) % 3, number)
            for number in range(2) for most in range(1, 21)]  # fmt: skip
    (said,) = [each for each in remarks(summarise([*many, *some(())])) if "marked =" in each]
    assert said == "It cannot be told from what is marked =: 20 settings."


@pytest.mark.parametrize(
    ("fast", "slow", "auto", "chosen"),
    [
        (steady(20), steady(14), (), FAST),
        ((10.5, 9.9, 10.4), steady(9), (), TARGET),
        (steady(20), steady(14), (19.0, 20.5, 19.0, 20.1), Setting()),  # a fixed setting needs proof against auto too
        (steady(20), (90.0, 9.0, 91.0, 9.5), (), FAST),  # the largest mean may as well be slower than none
    ],
)
def test_what_to_use_needs_proof(fast, slow, auto, chosen):
    runs = [*some(fast, slow, steady(10)), *(a_run(Setting(), speed, number) for number, speed in enumerate(auto))]
    summary = summarise(runs)
    assert summary.chosen == chosen
    (plain,) = (line for line in table(summary).splitlines() if line.startswith("target alone"))
    assert "(" not in plain and "+0 %" in plain, "its own gain has no bounds"


def test_without_the_target_alone_the_fastest_is_the_best_and_nothing_is_called_a_gain():
    summary = summarise([run for run in some(slow=(14.0, 20.5, 13.0)) if run.setting.baseline != "target"])
    assert all(row.gain is None for row in summary.rows)
    marks = {row.setting: (row.best, row.tie) for row in summary.rows}
    assert marks == {FAST: (True, False), SLOW: (False, True), DRAFT: (False, False)}
    assert any("The target alone was not measured" in each for each in remarks(summary))
    assert summary.chosen is None


def test_what_has_no_pair_with_the_target_alone_is_not_called_the_best():
    """As where the time of a comparison was over: its draft answered in another repetition than the target alone."""
    summary = summarise([a_run(TARGET, 30.0, 0), a_run(FAST, 18.0, 1), a_run(TARGET, 32.0, 2)])
    assert [row.setting for row in summary.rows if row.best] == [TARGET]
    assert "The best is the target alone." in remarks(summary)


def test_without_the_target_alone_the_best_has_the_highest_mean_over_the_prompts():
    runs = [
        a_run(each, speed, number, prompt)
        for number in (0, 1)
        for each, prompt, speed in (
            (FAST, "python", 20.0), (SLOW, "python", 12.0), (FAST, "story", 5.0), (SLOW, "story", 12.0),
            (Setting("model", "fixed", 4), "story", 90.0),
        )
    ]  # fmt: skip
    rows = summarise(runs).rows
    assert [row.setting for row in rows if row.best] == [SLOW], "90 on one of two prompts does not count"


def test_a_setting_that_misses_a_prompt_is_not_compared():
    runs = [*some(), a_run(TARGET, 5.0, prompt="story"), a_run(SLOW, 5.0, prompt="story")]
    rows = {row.setting: row for row in summarise(runs).rows}
    python = (1.4 * 1.5 * 13 / 10.5) ** (1 / 3)
    assert rows[FAST].gain is None and rows[SLOW].gain.ratio == pytest.approx(python**0.5), "the other prompt: 1"


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([a_run(TARGET, 10.0), a_run(FAST, 20.0)], "One run of each"),
        ([replace(run, stolen=0.3) for run in some()], "The host took up to 30%"),
        (some(fast=(20.0, 30.0, 21.0)), "differ by more than"),
        ([*some(), a_run(FAST, 20.0, 3, text="u")], "texts differ on python"),
    ],
)
def test_it_says_what_makes_the_figures_doubtful(runs, said):
    assert any(said in remark for remark in remarks(summarise(runs)))


def test_it_says_nothing_of_figures_that_are_not_doubtful():
    searched = [replace(a_run(FAST, 20.0, number, stage=FINALS), text=f"{number}") for number in (1, 2)]
    assert not any("texts differ" in remark for remark in remarks(summarise(searched))), "each repetition has a seed"
    assert len(remarks(summarise(some(slow=(14.0, 14.5, 14.0))))) == 1, "the verdict alone"


@pytest.mark.parametrize(
    "other",
    [
        {"target": "b.gguf"},
        {"seed": 2},
        {"settings": {}},
        {"prompt_text": "q"},
        {"kernels": "Kernels: spectui avx2."},
        {"models": "qwen2 1.5B Q8_0 on CUDA0"},
        {"machine": {}},
    ],
)
def test_a_file_that_mixes_different_work_says_so(other):
    odd = a_run(FAST, 20.0, 5)
    odd = replace(odd, **other) if "prompt_text" in other else elsewhere(odd, **other)
    mixed = summarise([*some(steady(20)), odd])
    assert any("different models, prompts, settings, machines or kernels" in each for each in remarks(mixed))
    assert not any("faster" in each or "best" in each for each in remarks(mixed)), "nothing is judged"
    assert mixed.chosen is None and [row.gain for row in mixed.rows] == [None] * 4


def test_servers_of_different_models_are_compared():
    runs = [elsewhere(a_run(Setting(server=name), speed, number), target=SERVERS)
            for number in range(3) for name, speed in (("one", 10.0), ("other", 20.0))]  # fmt: skip
    assert not summarise(runs).mixed and any(row.beside_best is not None for row in summarise(runs).rows)


def test_replies_that_are_too_short_for_a_speed_are_counted():
    """As where a model ends its reply to one prompt at once, whatever the setting."""
    runs = [a_run(each, speed, number, prompt, tokens=100 if prompt == "python" else 0) for number in range(3)
            for each, speed in ((TARGET, 10.0), (FAST, 20.0)) for prompt in ("python", "story")]  # fmt: skip
    said = remarks(summarise(runs))
    assert any(each.startswith("6 of 12 replies, the first to story, are too short to have a speed") for each in said)
    assert "faster" not in " ".join(said)


FASTER, SLOWER, UNKNOWN = Verdict(1.1, 1.05, 1.2, 9), Verdict(0.9, 0.8, 0.95, 9), Verdict(1.1, 0.9, 1.3, 9)


@pytest.mark.parametrize(
    ("fixed", "auto", "auto_behind", "name"),
    [
        (UNKNOWN, UNKNOWN, UNKNOWN, TARGET), (SLOWER, FASTER, None, Setting()), (FASTER, FASTER, UNKNOWN, Setting()),
        (FASTER, FASTER, SLOWER, FAST), (FASTER, UNKNOWN, UNKNOWN, FAST), (UNKNOWN, UNKNOWN, SLOWER, TARGET),
        (None, FASTER, UNKNOWN, Setting()), (FASTER, None, None, FAST), (None, None, None, TARGET),
    ],
)  # fmt: skip
def test_a_draft_needs_proof_and_a_fixed_setting_needs_proof_against_auto(fixed, auto, auto_behind, name):
    rows = (Row(TARGET, {}, Verdict(1.0)), Row(FAST, {}, fixed, best=auto_behind is not None or auto is None),
            Row(Setting(), {}, auto, beside_best=auto_behind))  # fmt: skip
    assert Summary(rows, ("python",), ()).chosen == name


def test_every_figure_can_be_computed_from_the_json():
    summary = summarise(some())
    values = json.loads(as_json(summary, summary.runs))["runs"]
    again = summarise([parsed(value, parsed_conditions(value["conditions"])) for value in values])
    assert again == summary and table(again) == table(summary)


def test_a_report_is_as_wide_as_it_is_asked_and_has_no_control_characters():
    summary = summarise([elsewhere(run, target="a\x1b[2Jb.gguf") for run in some()])
    for width in (40, 60, 120):
        lines = text(summary, width)
        assert max(map(len, lines)) <= width
        assert not any("\x1b" in line for line in lines)
        assert sum(line.startswith("target alone") for line in lines) >= (2 if width < 120 else 1)


def test_drafts_are_compared_by_what_they_gain_beside_the_target_alone_and_have_their_divergence():
    runs = []
    for number, gain in enumerate((1.2, 1.5, 1.5)):
        draft = f"/m/draft {number}.gguf"
        for repetition in range(4):
            speed = 10 * gain * (1 + 0.01 * (-1) ** repetition)
            runs.append(a_run(replace(TARGET, draft=draft), 10.0, repetition))
            runs.append(replace(a_run(Setting(draft=draft), speed, repetition), divergence=number / 10))
    summary = summarise(runs)
    rows = {row.setting.label: row for row in summary.rows}
    assert list(rows) == ["target alone", "draft 0.gguf", "draft 1.gguf", "draft 2.gguf"], "the target alone is one row"
    assert [(row.best, row.tie) for row in rows.values()] == [(False, False), (False, False), (True, False), (False, True)]
    assert rows["draft 1.gguf"].gain.faster and rows["draft 0.gguf"].beside_best.slower
    assert rows["draft 1.gguf"].gain.pairs == 4
    said = table(summary).splitlines()
    assert next(line for line in said if line.startswith("setting")).endswith("KL")
    assert [line.split()[-1] for line in said if line.startswith(("target alone", "draft "))] == [
        "–",
        "0.000",
        "0.100",
        "0.200",
    ]


def test_of_candidates_with_one_reply_each_there_is_one_sentence():
    """As after Ctrl+C in a search."""
    runs = [a_run(replace(FAST, draft_max=most), 10.0 + most, stage="halving") for most in range(1, 6)]
    said = [remark for remark in remarks(summarise([*runs, a_run(TARGET, 10.0, stage="start")])) if "=" in remark]
    assert said == ["One pair of replies tells nothing of what is marked =."]
