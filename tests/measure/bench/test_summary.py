"""Medians, spreads, gains, ties and remarks, and that every table says the same as the runs."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from spectui.measure.bench.results import Run, parsed
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import remarks, summarise
from spectui.measure.report.tables import as_csv, as_json, markdown, seed_table
from spectui.measure.report.views import bench_view
from tests.measure.bench.runs import DRAFT, FAST, SLOW, TARGET, a_run


def some(fast: tuple[float, ...] = (20.0, 22.0, 21.0), slow: tuple[float, ...] = (14.0, 15.0, 13.0)) -> list[Run]:
    groups = {TARGET: (10.0, 10.0, 10.5), FAST: fast, SLOW: slow, DRAFT: (40.0, 41.0, 40.0)}
    return [a_run(setting, speed, number) for setting, speeds in groups.items() for number, speed in enumerate(speeds)]


def test_a_row_has_median_spread_and_gain_over_the_target_alone():
    row = {row.setting: row for row in summarise(some()).rows}[FAST]
    assert row.cells["python"].speed == pytest.approx(21.0)
    assert row.cells["python"].spread == pytest.approx(2 / 21)
    assert row.gain == pytest.approx(2.0), "the median of 2, 2.2 and 21 / 10.5"
    assert (row.statistics.drafted, row.statistics.accepted, row.statistics.acceptance) == (180, 90, 0.5)


def test_speeds_are_compared_within_a_repetition():
    """The machine gets slower by half; each repetition tells that FAST gains a half."""
    plain, fast = (30.0, 20.0, 10.0), (45.0, 30.0, 15.0)
    runs = [a_run(each, s, n) for each, speeds in ((TARGET, plain), (FAST, fast)) for n, s in enumerate(speeds)]
    rows = {row.setting: row for row in summarise([*runs, a_run(FAST, 1.0, 3)]).rows}
    assert rows[FAST].gains == pytest.approx((1.5, 1.5, 1.5))
    assert (rows[TARGET].gain, rows[FAST].best, rows[TARGET].tie) == (1.0, True, False)


def test_the_best_is_marked_and_what_overlaps_it_is_a_tie():
    rows = {row.setting: (row.best, row.tie) for row in summarise(some()).rows}
    assert rows == {TARGET: (False, False), FAST: (True, False), SLOW: (False, False), DRAFT: (False, False)}
    close = summarise(some(slow=(19.0, 20.5, 19.0)))
    assert [row.tie for row in close.rows] == [False, False, True, False]
    assert any("Cannot be told from the best" in each and SLOW.label in each for each in remarks(close))
    auto = [Setting(draft_max=4), Setting(draft_max=8)]
    three = summarise(
        [*some(), *(a_run(each, speed, n) for each in auto for n, speed in enumerate((20.5, 19.0, 19.0)))]
    )
    assert any(": auto policy, draft-max 4; auto policy, draft-max 8. More" in each for each in remarks(three)), (
        "labels have commas"
    )


def test_without_the_target_alone_the_fastest_is_the_best_and_nothing_is_called_a_gain():
    summary = summarise([run for run in some(slow=(14.0, 20.5, 13.0)) if run.setting.baseline != "target"])
    assert all(row.gain is None for row in summary.rows)
    marks = {row.setting: (row.best, row.tie) for row in summary.rows}
    assert marks == {FAST: (True, False), SLOW: (False, True), DRAFT: (False, False)}
    assert any("The target alone was not measured" in each for each in remarks(summary))
    winner = bench_view(summary).winner
    assert winner is not None and winner.label == FAST.label


def test_without_the_target_alone_the_best_has_the_highest_mean_over_the_prompts():
    runs = [
        a_run(each, speed, number, prompt)
        for number in (0, 1)
        for each, prompt, speed in (
            (FAST, "python", 20.0), (SLOW, "python", 12.0), (FAST, "story", 5.0), (SLOW, "story", 12.0),
            (Setting("model", "fixed", 4), "story", 90.0),
        )
    ]  # fmt: skip
    summary = summarise(runs)
    rows = {row.setting: row for row in summary.rows}
    assert [line for line in seed_table(summary).splitlines() if "fastest" in line] == [
        "| 16 | 0 | 0.4 | 12.00 (fastest) | 12.00 |"
    ]
    assert [row.setting for row in rows.values() if row.best] == [SLOW], "90 on one of two prompts does not count"
    assert rows[SLOW].speeds == pytest.approx((12.0, 12.0)) and rows[FAST].speeds == pytest.approx((10.0, 10.0))


def test_a_setting_that_misses_a_prompt_is_not_compared():
    runs = [*some(), a_run(TARGET, 5.0, prompt="story"), a_run(SLOW, 5.0, prompt="story")]
    rows = {row.setting: row for row in summarise(runs).rows}
    assert rows[FAST].gain is None and rows[SLOW].gain == pytest.approx((1.4 * 1.0) ** 0.5)


def test_it_says_what_makes_the_figures_doubtful():
    assert any("One run of each" in each for each in remarks(summarise([a_run(TARGET, 10.0), a_run(FAST, 20.0)])))
    assert any("differ by more than" in each for each in remarks(summarise(some(fast=(20.0, 30.0, 21.0)))))
    assert any(
        "texts differ on python" in each for each in remarks(summarise([*some(), a_run(FAST, 20.0, 3, text="u")]))
    )
    assert remarks(summarise(some(slow=(14.0, 14.5, 14.0)))) == []


@pytest.mark.parametrize(
    "other",
    [{"target": "b.gguf"}, {"seed": 2}, {"settings": {}}, {"prompt_text": "q"}, {"kernels": "Kernels: spectui avx2."}],
)
def test_a_file_that_mixes_different_work_says_so(other):
    mixed = remarks(summarise([*some(), replace(a_run(FAST, 20.0, 3), **other)]))
    assert any("different models, prompts or settings" in each for each in mixed)


def test_every_figure_can_be_computed_from_the_json():
    summary = summarise(some())
    again = summarise([parsed(value) for value in json.loads(as_json(summary))["runs"]])
    assert again == summary
    assert (as_csv(again), markdown(again)) == (as_csv(summary), markdown(summary))


def test_the_csv_has_a_line_for_each_cell():
    lines = list(csv.DictReader(as_csv(summarise(some())).splitlines()))
    assert len(lines) == 4
    fast = next(line for line in lines if line["draft-max"] == "8")
    assert (fast["tokens_per_s"], fast["slowest"], fast["fastest"], fast["speed_up"]) == ("21.0", "20.0", "22.0", "2.1")
    assert (fast["n_drafted"], fast["n_accept"], fast["runs"]) == ("180", "90", "3")


def test_the_seed_table_has_the_columns_of_llama_swaps_guide():
    runs = [
        *some(),
        *(a_run(each, speed, prompt="typescript") for each, speed in ((TARGET, 9.0), (FAST, 12.0), (SLOW, 13.0))),
    ]
    lines = seed_table(summarise(runs)).splitlines()
    assert lines[0].startswith("Baseline: 10.00 (python), 9.00 (TS)")
    assert lines[2:] == [
        "| draft-max | draft-min | draft-p-min | python | TS |",
        "| --- | --- | --- | --- | --- |",
        "| 8 | 0 | 0.4 | _21.00_ (fastest) | 12.00 |",
        "| 16 | 0 | 0.4 | 14.00 | _13.00_ |",
    ]
