"""Made-up runs and models for the tests of benches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from spectui.engine.events import Finished, Message
from spectui.knobs import Knobs
from spectui.measure.bench.results import Run
from spectui.measure.bench.settings import Setting
from spectui.measure.tune.search import Search
from spectui.speculation.records import StopReason
from spectui.speculation.statistics import Statistics

TARGET = Setting("off", "fixed", baseline="target")
DRAFT = Setting("off", "fixed", baseline="draft")
FAST = Setting("model", "fixed", 8, 0, 0.4)
SLOW = Setting("model", "fixed", 16, 0, 0.4)


def a_run(
    setting: Setting, speed: float, repetition: int = 0, prompt: str = "python", text: str = "t", prompt_s: float = 0.0,
    tokens: int = 100, stage: str = "", length: int = 0,
) -> Run:  # fmt: skip
    """So many tokens at this speed, half of the drafted ones accepted."""
    drafts = 0 if setting.baseline else 60
    statistics = Statistics(
        emitted=tokens, rounds=100 - drafts // 2, accepted=drafts // 2, rejected=drafts // 2,
        decode_s=tokens / speed if tokens else 0.0, reached=[drafts] if drafts else [], kept=[drafts // 2] if drafts else [],
    )  # fmt: skip
    return Run(
        target="target.gguf", draft="draft.gguf", seed=1, predict=tokens, settings={"threads": 1}, machine={"CPU": "made up"},
        setting=setting, prompt=prompt, prompt_text="p", repetition=repetition, prompt_tokens=5, prompt_s=prompt_s,
        time_to_first_token_s=0.2, stop_reason="limit", text=text, statistics=statistics, wall_s=2.0, stage=stage,
        length=length,
    )  # fmt: skip


def searched(
    search: Search, settings: Sequence[Setting], speed: Callable[[Setting, str, int], float], stops: int = -1
) -> Iterator[Run]:
    """The runs of a search whose replies have these speeds, 0 for an empty one. `stops`: at this reply somebody stops it."""
    plan = search.plan(settings)
    with suppress(StopIteration):
        cell = next(plan)
        for number in range(1_000_000):
            if number == stops:
                return
            found = speed(cell.setting, cell.prompt.name, cell.predict)
            run = a_run(cell.setting, found, cell.repetition, cell.prompt.name, tokens=cell.predict if found else 0,
                        stage=cell.stage, length=search.predict)  # fmt: skip
            yield run
            cell = plan.send(run)


class ToyModels:
    """Each setting has a speed; `asked` has the settings in order. Fails, or is stopped, at a given reply."""

    def __init__(self, fails: int = -1, stops: int = -1) -> None:
        self.asked: list[tuple[Setting, Knobs, str]] = []
        self._fails, self._stops = fails, stops

    def answer(self, setting: Setting, knobs: Knobs, messages: Sequence[Message]) -> Finished:
        number = len(self.asked)
        self.asked.append((setting, knobs, messages[-1].content))
        if number == self._fails:
            from spectui.errors import SpectuiError

            raise SpectuiError("The model failed.")
        reason = StopReason.CANCELLED if number == self._stops else StopReason.LIMIT
        return Finished(reason, "text", a_run(setting, 10.0).statistics, knobs, 5, 0.1, 0.2)
