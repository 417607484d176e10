"""What a bench asks of the engine: each reply from cold, one first that does not count, the draft alone by its own file."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from spectui.engine.events import Device, Finished, Loaded, Message, ModelInfo
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.records import MemoryUse
from spectui.measure.bench.runner import EngineModels
from spectui.speculation.records import StopReason
from tests.measure.bench.runs import DRAFT, FAST, TARGET, a_run

PAIR = Setup(model="/m/target.gguf", draft="/m/draft.gguf")
HI = [Message("user", "Hi")]


class Told:
    """An engine that does nothing but tell what it was asked, in order."""

    def __init__(self) -> None:
        self.events: deque[Any] = deque()
        self.told: list[str] = []
        self.knobs = Knobs()
        self._model: str | None = None
        self.reason = StopReason.LIMIT

    def call(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(self, *arguments))
        return done

    def load(self, setup: Setup) -> Loaded:
        self._model = setup.model
        self.told.append(f"load {setup.model}")
        target = ModelInfo(setup.model or "", "qwen2 1.5B Q8_0", 1, 1_900_000_000, 1, 1, 1, memory=(MemoryUse("CUDA0", 1, 1),))
        heads = ModelInfo("/cache/draft-Q4_0.gguf", "1 head of the target", 0, 0, 1, 1, 1)
        devices = (Device("CUDA0", "NVIDIA H100", "gpu", 1, 80_000_000_000),)
        return Loaded(setup, target, heads if setup.draft else None, devices)

    def begin_cold(self) -> None:
        self.told.append(f"cold {self._model}")

    def generate(self, messages: object) -> Finished:
        self.told.append(f"reply of {self.knobs.predict}, {self.knobs.drafter} {self.knobs.policy}")
        return Finished(self.reason, "text", a_run(FAST, 10.0).statistics, self.knobs, 5, 0.1, 0.2)


@pytest.fixture
def engine() -> Told:
    return Told()


@pytest.fixture
def models(engine: Told) -> EngineModels:
    worker: Any = engine
    models = EngineModels(worker, PAIR)
    models.load(models.setup)
    engine.told.clear()
    return models


def test_every_reply_begins_from_cold_and_the_first_one_of_both_models_does_not_count(
    engine: Told, models: EngineModels
) -> None:
    for setting in (TARGET, FAST):
        models.answer(setting, setting.on(Knobs(predict=80)), HI)
    cold = "cold /m/target.gguf"
    assert engine.told == [cold, "reply of 8, auto fixed", cold, "reply of 80, off fixed", cold, "reply of 80, model fixed"]


def test_the_draft_alone_is_the_file_that_drafts(engine: Told, models: EngineModels) -> None:
    models.answer(DRAFT, DRAFT.on(Knobs(predict=80)), HI)
    copy = "/cache/draft-Q4_0.gguf"
    assert engine.told[1] == f"load {copy}" and engine.told[-2:] == [f"cold {copy}", "reply of 80, off fixed"]
    engine.told.clear()
    models.answer(TARGET, TARGET.on(Knobs(predict=80)), HI)
    assert engine.told[1] == "load /m/target.gguf"


def test_a_stop_in_the_reply_that_does_not_count_is_a_stop(engine: Told, models: EngineModels) -> None:
    engine.reason = StopReason.CANCELLED
    assert models.answer(TARGET, TARGET.on(Knobs()), HI).reason is StopReason.CANCELLED
    assert len(engine.told) == 2


def test_a_run_keeps_what_was_loaded_and_what_the_machine_has(models: EngineModels) -> None:
    assert models.facts == {
        "kernels": "Kernels: llama.cpp.",
        "models": "qwen2 1.5B Q8_0 (1.9 GB) on CUDA0, drafted by 1 head of the target",
        "devices": "CUDA0 NVIDIA H100 (80.0 GB)",
    }
