"""What the window shows of measurements: tables, charts and winners from the records, and their way as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import summarise
from spectui.measure.live.view import Progress, View, line, parsed
from spectui.measure.report.views import bench_view, tune_view
from spectui.measure.tune.search import AUTO, PLAIN, Trial, Tuned
from tests.measure.bench.runs import FAST, SLOW, TARGET, a_run
from tests.measure.tune.trials import finals, steady, tuned

RUNS = [a_run(setting, speed, n) for setting, speed in ((TARGET, 10), (FAST, 18), (SLOW, 14)) for n in range(3)]
FAST_KNOBS = {"drafter": "model", "policy": "fixed", "draft_max": 8, "draft_min": 0, "p_min": 0.4}


def trials(speeds: dict[Setting, float], tokens: int = 32) -> list[Trial]:
    return finals({setting: [speed] for setting, speed in speeds.items()}, ("a", "b"), tokens)


def ended(auto: Sequence[float], best: Sequence[float]) -> Tuned:
    return tuned(FAST, {PLAIN: steady(10), AUTO: auto, FAST: best})


def test_the_best_row_of_a_bench_is_marked_and_wins():
    view = bench_view(summarise(RUNS))
    assert [row[0] for row in view.rows] == ["target alone", "model 8/0/0.4 *", "model 16/0/0.4"] and view.marked == (
        1,
    )
    assert view.winner is not None and view.winner.knobs == FAST_KNOBS
    assert view.heads[-2:] == ("n_drafted", "n_accept"), "a narrow window leaves out the last columns"
    assert view.rows[1][view.heads.index("gain")] == "+80 %"


def test_where_nothing_is_known_to_beat_the_target_alone_no_draft_wins():
    close = [a_run(setting, speed, n) for setting, speeds in ((TARGET, (10, 10.3)), (FAST, (10.2, 10.6)))
             for n, speed in enumerate(speeds)]  # fmt: skip
    assert bench_view(summarise(close)).winner.knobs == {"drafter": "off"}
    assert tune_view([], ended(steady(9), steady(8))).winner.knobs == {"drafter": "off"}
    assert tune_view([], ended((10.1, 10.9), (10.2, 11))).winner.knobs == {"drafter": "off"}


@pytest.mark.parametrize(
    "message", [Progress(0.5, "python, “model” 8/0/0.4: 18.0 t/s", 12.5), Progress(0, "x"), View()]
)
def test_a_message_is_the_same_at_the_other_end(message):
    assert parsed(line(message)) == message
    assert "\n" not in line(message)


def test_a_bench_is_the_same_at_the_other_end():
    view = bench_view(summarise(RUNS))
    assert parsed(line(view)) == view


@pytest.mark.parametrize(
    "text", ["", "llama_model_load: 3", "{}", "[1]", '{"view": 3}', '{"progress": {"x": 1}}', "[" * 9999]
)
def test_what_a_library_prints_is_no_message(text):
    assert parsed(text) is None


def test_the_settings_of_a_search_are_ranked_by_their_longest_replies():
    found = trials({PLAIN: 10, AUTO: 15}) + trials({FAST: 30, SLOW: 20}, 16) + trials({FAST: 18})
    view = tune_view(found)
    assert [row[:4] for row in view.rows] == [
        ("auto policy, draft-max 16", "15.0", "1.50x", "32"),
        ("target alone", "10.0", "1.00x", "32"),
        ("model 8/0/0.4", "18.0", "1.80x", "32"),
        ("model 16/0/0.4", "20.0", "2.00x", "16"),
    ]
    levels, drawn = view.chart.lines[:2], view.chart.lines[2:]
    assert [each.label for each in levels] == ["target alone", "auto policy, draft-max 16"] and all(
        each.level for each in levels
    )
    assert [each.points for each in drawn] == [((8, pytest.approx(18)), (16, pytest.approx(20)))]
    assert view.winner is None and not view.marked


def test_a_setting_without_a_reply_to_each_prompt_is_not_ranked_yet():
    found = [*trials({PLAIN: 10}), Trial(FAST, "a", 32, 18.0, 18.0)]
    assert [row[0] for row in tune_view(found).rows] == ["target alone"]
    assert tune_view([]).rows == ()
    longer = [*trials({PLAIN: 10}), *trials({FAST: 18}, 16), Trial(FAST, "a", 32, 12.0, 12.0)]
    assert [row[:4] for row in tune_view(longer).rows][1] == ("model 8/0/0.4", "18.0", "1.80x", "16")


def test_a_fixed_setting_wins_a_search_where_it_is_known_to_be_faster_than_auto():
    speeds = trials({PLAIN: 10, AUTO: 15, FAST: 18, replace(FAST, draft_max=4): 12})
    fixed = tune_view(speeds, ended(steady(15), steady(18)), ["The best is ..."])
    assert fixed.winner.knobs == FAST_KNOBS and fixed.rows[fixed.marked[0]][0] == "model 8/0/0.4"
    assert fixed.sentences == ("The best is ...",)
    assert tune_view(speeds, ended(steady(20), steady(18))).winner.knobs["policy"] == "auto"
    assert tune_view(speeds, ended(steady(18), (16, 19, 22, 21))).winner.knobs["policy"] == "auto", "too close to tell"
