"""Made-up runs and models for the tests of benches."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from spectui.engine.events import Finished, Message
from spectui.knobs import Knobs
from spectui.measure.bench.conditions import Conditions
from spectui.measure.bench.results import Run
from spectui.measure.bench.runner import PlannedRun, Stopped
from spectui.measure.bench.settings import Setting
from spectui.measure.tune import Search
from spectui.speculation.records import StopReason
from spectui.speculation.statistics import Statistics

TARGET = Setting("off", "fixed", baseline="target")
DRAFT = Setting("off", "fixed", baseline="draft")
FAST = Setting("model", "fixed", 8, 0, 0.4)
SLOW = Setting("model", "fixed", 16, 0, 0.4)


CONDITIONS = Conditions(
    target="target.gguf", draft="draft.gguf", seed=1, predict=100, settings={"threads": 1}, machine={"CPU": "made up"}
)


def a_run(
    setting: Setting, speed: float, repetition: int = 0, prompt: str = "python", text: str = "t", prompt_s: float = 0.0,
    tokens: int = 100, stage: str = "", conditions: Conditions = CONDITIONS,
) -> Run:  # fmt: skip
    """So many tokens at this speed, half of the drafted ones accepted."""
    drafts = 0 if setting.baseline else 60
    statistics = Statistics(
        emitted=tokens, rounds=100 - drafts // 2, accepted=drafts // 2, rejected=drafts // 2,
        decode_s=tokens / speed if tokens else 0.0, reached=[drafts] if drafts else [], kept=[drafts // 2] if drafts else [],
    )  # fmt: skip
    return Run(
        conditions=conditions, setting=setting, prompt=prompt, prompt_text="p", repetition=repetition, predict=tokens,
        prompt_tokens=5, prompt_s=prompt_s, time_to_first_token_s=0.2, stop_reason="limit", text=text, statistics=statistics,
        wall_s=2.0, stage=stage,
    )  # fmt: skip


def elsewhere(run: Run, **others: Any) -> Run:
    """The same run under other conditions."""
    return replace(run, conditions=replace(run.conditions, **others))


def searched(
    search: Search, settings: Sequence[Setting], speed: Callable[[Setting, str, int], float], stops: int = -1
) -> list[Run]:
    """The runs of a search whose replies have these speeds, 0 for an empty one. `stops`: at this reply somebody stops it."""
    runs: list[Run] = []
    conditions = replace(CONDITIONS, predict=search.predict)

    def make(planned: PlannedRun) -> Run:
        if len(runs) == stops:
            raise Stopped
        reached = speed(planned.setting, planned.prompt.name, planned.predict)
        runs.append(a_run(planned.setting, reached, planned.repetition, planned.prompt.name,
                          tokens=planned.predict if reached else 0, stage=planned.stage, conditions=conditions))  # fmt: skip
        return runs[-1]

    with suppress(Stopped):
        search.run(settings, make)
    return runs


class ToyModels:
    """Each setting has a speed; `asked` has the settings in order. Is stopped at a given reply."""

    def __init__(self, stops: int = -1) -> None:
        self.asked: list[tuple[Setting, Knobs, str]] = []
        self._stops = stops

    def answer(self, setting: Setting, knobs: Knobs, messages: Sequence[Message]) -> Finished:
        number = len(self.asked)
        self.asked.append((setting, knobs, messages[-1].content))
        reason = StopReason.CANCELLED if number == self._stops else StopReason.LIMIT
        return Finished(reason, "text", a_run(setting, 10.0).statistics, knobs, 5, 0.1, 0.2)
