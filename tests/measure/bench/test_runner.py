"""Which runs are made, in which order, and what ends them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spectui.engine.events import Finished, Message
from spectui.engine.room import no_room
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench import runner
from spectui.measure.bench.conditions import conditions
from spectui.measure.bench.prompt_files import built_in
from spectui.measure.bench.results import FINALS
from spectui.measure.bench.runner import Cell, fixed, left, measure, plan
from tests.measure.bench.runs import DRAFT, FAST, SLOW, TARGET, ToyModels

PROMPTS = built_in(["python", "chess"], "")
KNOBS = Knobs(seed=1, predict=8)
SHARED = conditions(Setup("target.gguf", "draft.gguf", threads=2), KNOBS)
CELLS = plan([TARGET, DRAFT], [FAST, SLOW], PROMPTS, 2)


def test_repetitions_are_interleaved_and_the_draft_alone_is_last():
    assert len(CELLS) == len(set(CELLS)) == 4 * 2 * 2
    assert [cell.repetition for cell in CELLS[:12]] == [0] * 6 + [1] * 6
    assert [cell.setting for cell in CELLS[:3]] == [TARGET, FAST, SLOW]
    assert [cell.setting for cell in CELLS[6:9]] == [SLOW, FAST, TARGET]
    assert {cell.setting for cell in CELLS[12:]} == {DRAFT}


def test_each_run_has_its_settings_knobs_and_the_rest_from_the_command():
    models, watched = ToyModels(), iter(["make uses 90 % of a core", *[""] * (len(CELLS) - 1)])
    runs = list(measure(models.answer, fixed(CELLS), KNOBS, SHARED, lambda: next(watched)))
    assert [(run.setting, run.repetition) for run in runs] == [(cell.setting, cell.repetition) for cell in CELLS]
    setting, knobs, asked = models.asked[1]
    assert (setting, knobs.draft_max, knobs.p_min, knobs.policy, knobs.predict) == (FAST, 8, 0.4, "fixed", 8)
    assert asked == PROMPTS[0].messages[-1].content
    assert [run.busy for run in runs] == ["make uses 90 % of a core", *[""] * (len(CELLS) - 1)]


def test_what_is_done_is_not_done_again():
    runs = list(measure(ToyModels().answer, fixed(CELLS[:5]), KNOBS, SHARED))
    assert left(CELLS, runs) == CELLS[5:]
    assert all(vars(run).items() >= vars(SHARED).items() for run in runs)


def test_a_failure_and_a_stop_keep_the_runs_before():
    made = []
    with pytest.raises(SpectuiError, match="failed"):
        made.extend(measure(ToyModels(fails=2).answer, fixed(CELLS), KNOBS, SHARED))
    runs = measure(ToyModels(fails=2).answer, fixed(CELLS), KNOBS, SHARED)
    assert [next(runs).setting for _ in range(2)] == [TARGET, FAST]
    assert len(list(measure(ToyModels(stops=3).answer, fixed(CELLS), KNOBS, SHARED))) == 3


def test_a_prompt_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch):
    def refused(self: ToyModels, setting: object, knobs: Knobs, messages: Sequence[Message]) -> Finished:
        raise no_room(messages, 90, 64)

    monkeypatch.setattr(ToyModels, "answer", refused)
    with pytest.raises(SpectuiError, match=r"^python: The prompt has 90 tokens and the context holds 64: "):
        list(measure(ToyModels().answer, fixed(CELLS), KNOBS, SHARED))


def test_what_the_host_took_meanwhile_is_kept(monkeypatch: pytest.MonkeyPatch):
    class Stolen:
        share = 0.25

    monkeypatch.setattr(runner, "Stolen", Stolen)
    (run,) = measure(ToyModels().answer, fixed(CELLS[:1]), KNOBS, SHARED)
    assert run.stolen == 0.25


def test_a_plan_may_depend_on_its_runs_and_says_length_and_seed_of_each():
    """The finals of a plan that adapts have a seed for each repetition, and the prompt counts as in the wanted length."""
    seen = []

    def plan():
        seen.append((yield Cell(TARGET, PROMPTS[0], 0, 4, "start")))
        seen.append((yield Cell(FAST, PROMPTS[0], 2, 6, FINALS)))

    models = ToyModels()
    runs = list(measure(models.answer, plan(), KNOBS, SHARED))
    assert seen == runs and [(run.stage, run.predict, run.length) for run in runs] == [("start", 4, 8), (FINALS, 6, 8)]
    assert [(knobs.predict, knobs.seed) for _, knobs, _ in models.asked] == [(4, 1), (6, 3)]
