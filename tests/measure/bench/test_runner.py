"""Which runs are made, in which order, and what ends them."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from spectui.engine.events import Finished, Message
from spectui.engine.room import no_room
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench import runner
from spectui.measure.bench.conditions import conditions
from spectui.measure.bench.prompt_files import built_in
from spectui.measure.bench.results import FINALS
from spectui.measure.bench.runner import PlannedRun, Stopped, make_run, plan, remaining
from spectui.measure.bench.settings import NO_DRAFT, Setting, baselines, with_drafts
from tests.measure.bench.runs import DRAFT, FAST, SLOW, TARGET, ToyModels

PROMPTS = built_in(["python", "chess"], "")
KNOBS = Knobs(seed=1, predict=8)
SHARED = conditions(Setup("target.gguf", "draft.gguf", threads=2), KNOBS, {})
PLANNED = plan([TARGET, DRAFT], [FAST, SLOW], PROMPTS, 2)


def test_repetitions_are_interleaved_and_the_draft_alone_is_last():
    assert len(PLANNED) == len(set(PLANNED)) == 4 * 2 * 2
    assert [planned.repetition for planned in PLANNED[:12]] == [0] * 6 + [1] * 6
    assert [planned.setting for planned in PLANNED[:3]] == [TARGET, FAST, SLOW]
    assert [planned.setting for planned in PLANNED[6:9]] == [SLOW, FAST, TARGET]
    assert {planned.setting for planned in PLANNED[12:]} == {DRAFT}


def test_each_run_has_its_settings_knobs_and_the_rest_from_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "Stolen", lambda: SimpleNamespace(share=0.25))
    models, watched = ToyModels(), iter(["make uses 90 % of a core", *[""] * (len(PLANNED) - 1)])
    runs = [make_run(planned, models.answer, KNOBS, SHARED, lambda: next(watched)) for planned in PLANNED]
    assert [(run.setting, run.repetition) for run in runs] == [(planned.setting, planned.repetition) for planned in PLANNED]
    setting, knobs, asked = models.asked[1]
    assert (setting, knobs.draft_max, knobs.p_min, knobs.policy, knobs.predict) == (FAST, 8, 0.4, "fixed", 8)
    assert asked == PROMPTS[0].messages[-1].content
    assert [run.busy for run in runs] == ["make uses 90 % of a core", *[""] * (len(PLANNED) - 1)]
    assert {run.stolen for run in runs} == {0.25}
    assert all(run.conditions == SHARED and run.predict == SHARED.predict for run in runs)
    assert remaining(PLANNED, runs[:5]) == PLANNED[5:], "what is done is not done again"


def test_a_reply_that_was_stopped_is_no_run():
    with pytest.raises(Stopped):
        make_run(PLANNED[0], ToyModels(stops=0).answer, KNOBS, SHARED)


def test_drafts_come_one_after_another_each_beside_the_target_alone():
    planned = plan([TARGET], with_drafts([Setting()], ["a.gguf", "b.gguf"]), PROMPTS[:1], 2)
    labels = [(each.setting.draft, each.setting.label) for each in planned]
    own = list(baselines([each.setting for each in planned], True))
    assert [each.draft for each in own] == [NO_DRAFT, "a.gguf", "b.gguf"] and {each.baseline for each in own} == {"target"}
    assert labels[2:4] == [(NO_DRAFT, NO_DRAFT)] * 2 and labels[4:6] == [("a.gguf", "a.gguf")] * 2


def test_a_prompt_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch):
    def refused(self: ToyModels, setting: object, knobs: Knobs, messages: Sequence[Message]) -> Finished:
        raise no_room(messages, 90, 64)

    monkeypatch.setattr(ToyModels, "answer", refused)
    with pytest.raises(SpectuiError, match=r"^python: The prompt has 90 tokens and the context holds 64: "):
        make_run(PLANNED[0], ToyModels().answer, KNOBS, SHARED)


def test_a_planned_run_may_say_its_length_and_the_finals_of_a_search_have_seeds_of_their_own():
    models = ToyModels()
    planned = [PlannedRun(TARGET, PROMPTS[0], 0, 4, "start"), PlannedRun(FAST, PROMPTS[0], 2, 6, FINALS)]
    runs = [make_run(each, models.answer, KNOBS, SHARED) for each in planned]
    assert [(run.stage, run.predict) for run in runs] == [("start", 4), (FINALS, 6)]
    assert [(knobs.predict, knobs.seed) for _, knobs, _ in models.asked] == [(4, 1), (6, 3)]
