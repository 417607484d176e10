"""Lists and ranges of settings, and what is made of them."""

import pytest

from spectui.errors import UsageError
from spectui.knobs import Knobs
from spectui.measure.bench.settings import Setting, baselines, check_size, sweep, usual, values

ONE = {"drafter": ["model"], "policy": ["fixed"], "draft_max": [8], "draft_min": [0], "p_min": [0.4], "temperature": [0.0]}


@pytest.mark.parametrize(
    ("key", "text", "meant"),
    [
        ("draft_max", "4,8,16", [4, 8, 16]),
        ("draft_max", "4:16:4", [4, 8, 12, 16]),
        ("draft_max", "2:5, 16", [2, 3, 4, 5, 16]),
        ("p_min", "0:0.9:0.3", [0.0, 0.3, 0.6, 0.9]),
        ("policy", "auto,fixed,auto", ["auto", "fixed"]),
    ],
)
def test_a_list_or_a_range_means_values(key, text, meant):
    assert values(key, text, "flag --x") == meant


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("draft_max", ""), ("draft_max", "4,,8"), ("draft_max", "8:4"), ("draft_max", "1:8:0"), ("draft_max", "1:8:nan"),
        ("draft_max", "1:2:3:4"), ("draft_max", "a:b"), ("draft_max", "99"), ("draft_max", "1:8:0.5"), ("p_min", "0:1"),
        ("p_min", "0:1:0.0001"), ("p_min", "0:1:1e-300"), ("policy", "auto:fixed"), ("policy", "quick"),
    ],
)  # fmt: skip
def test_a_senseless_list_is_a_sentence_that_names_the_flag(key, text):
    with pytest.raises(UsageError, match="flag --x") as caught:
        values(key, text, "flag --x")
    assert "\n" not in str(caught.value)


def test_a_sweep_has_every_combination():
    settings, dropped = sweep(ONE | {"draft_max": [4, 8], "p_min": [0.1, 0.4]})
    assert len(settings) == 4 and dropped == 0


def test_a_sweep_that_nobody_can_wait_for_is_refused_before_it_is_built():
    check_size(ONE | {"draft_max": range(10), "p_min": range(1000)}, 10)
    with pytest.raises(UsageError, match="10,000 combinations, 110,000 runs"):
        check_size(ONE | {"draft_max": range(10), "p_min": range(1000)}, 11)


@pytest.mark.parametrize(
    ("policy", "swept", "number"),
    [
        ("fixed", "p_min", 2), ("fixed", "draft_min", 2), ("auto", "p_min", 1), ("auto", "draft_min", 2),
        ("expected", "p_min", 1), ("expected", "draft_min", 1),
    ],
)  # fmt: skip
def test_what_means_nothing_to_a_policy_makes_no_settings_of_its_own(policy, swept, number):
    settings, _ = sweep(ONE | {"policy": [policy], "p_min": [0.0], swept: {"p_min": [0.1, 0.4], "draft_min": [0, 3]}[swept]})
    assert len(settings) == number == len({setting.label for setting in settings})


def test_the_drafter_off_is_the_target_alone():
    off, _ = sweep(ONE | {"drafter": ["off"], "draft_max": [4, 8]})
    assert [setting.baseline for setting in off] == ["target"]


def test_drafts_that_would_always_be_ignored_are_left_out_and_counted():
    settings, dropped = sweep(ONE | {"draft_max": [2, 8], "draft_min": [0, 4]})
    assert [(each.draft_max, each.draft_min) for each in settings] == [(2, 0), (8, 0), (8, 4)]
    assert dropped == 1


def test_the_baselines_are_each_model_alone_at_each_temperature():
    alone = list(baselines([Setting(temperature=0.0), Setting(temperature=0.8)], drafts=True))
    assert [(each.baseline, each.temperature) for each in alone] == [
        ("target", 0.0), ("draft", 0.0), ("target", 0.8), ("draft", 0.8),
    ]  # fmt: skip
    assert [each.baseline for each in baselines([Setting()], drafts=False)] == ["target"]


@pytest.mark.parametrize("drafts", [True, False])
def test_the_usual_settings_are_valid_and_different(drafts):
    settings = usual(drafts, [0.0])
    assert len(set(settings)) == len(settings) == len({setting.label for setting in settings})
    assert {setting.on(Knobs()).drafter for setting in settings} == {"auto", "model" if drafts else "suffix"}


def test_a_label_says_whether_the_policy_or_the_drafter_is_auto():
    assert Setting("auto", "auto", 16).label == "auto policy, draft-max 16"
    assert Setting("auto", "fixed", 16, 0, 0.7).label == "auto drafter 16/0/0.7"
    assert Setting("suffix", "fixed", 16, 0, 0.7).label == "suffix 16/0/0.7"
