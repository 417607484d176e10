"""A chat of two replies by toy models, as the events of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count

from spectui.engine.events import (
    Asked,
    Device,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Message,
    ModelInfo,
    Notice,
    Prompt,
    RoundDone,
)
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.records import MemoryUse
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import StopReason
from spectui.speculation.statistics import Statistics
from tests.toys import ToyModel, decode

KNOBS = Knobs(policy="fixed", temperature=0.0, draft_max=4, p_min=0.1, predict=30, seed=3)

MEMORY = (MemoryUse("CPU", 7, 8, 9),)

COSTS = CostModel({1: 0.01, 2: 0.012, 5: 0.02}, 1e-6, 0.0, 0.003, 0.002)

LOADED = Loaded(
    Setup(model="/home/someone/big.gguf", draft="small.gguf", system="be brief", ctx_size=512),
    ModelInfo(
        "/home/someone/big.gguf",
        "toy 1B Q8_0",
        10**9,
        10**9,
        12,
        512,
        2048,
        "rounds alike",
        memory=(MemoryUse("CPU", 7, 8, 9),),
    ),
    ModelInfo("small.gguf", "toy 0.1B Q4_0", 10**8, 10**8, 12, 512, 2048),
    (Device("CPU", "a processor", "cpu", 10**9, 2 * 10**9, "0000:c1:00.0"),),
    COSTS,
)


def reply(messages: list[Message], prompt: list[int], knobs: Knobs = KNOBS) -> Iterator[Event]:
    """The events of a reply to these messages, which the toy target reads as this prompt."""
    yield Asked(tuple(messages), tuple(prompt))
    yield Prompt(len(prompt) - 1, len(prompt), 0, 0.1)
    yield Prompt(len(prompt), len(prompt), 0, 0.2, thinking=True)
    ticks = count()
    clock = lambda: 0.003 * next(ticks)  # noqa: E731  # every look moves it on by the same, however busy the machine is
    drafter = ModelDrafter(ToyModel(0, noise=0.5), 12, clock)
    _, rounds, _ = decode(ToyModel(ends=False), prompt, knobs, drafter, clock=clock)
    for each in rounds:
        each = replace(each, guessed=(None, True, False)[each.index % 3], saved_s=0.25 * (each.index % 3 == 1))
        yield RoundDone(each, each.position + len(each.tokens))
    text = "".join(token.text for each in rounds for token in each.tokens)
    yield Finished(StopReason.LIMIT, text, Statistics.of(rounds), knobs, len(prompt), 0.2, 0.3)


@cache
def chat() -> tuple[Event, ...]:
    """Every kind of event that a trace has a line for."""
    system, first, second = Message("system", "be brief"), Message("user", "hello"), Message("user", "and now?")
    events: list[Event] = [LoadFailed("No such file.", without_draft=True), LOADED, Notice("something", True)]
    events += reply([system, first], [1, 2, 3])
    finished = events[-1]
    assert isinstance(finished, Finished)
    said = [token.id for event in events if isinstance(event, RoundDone) for token in event.round.tokens]
    again = [system, first, Message("assistant", finished.text), second]
    events += reply(again, [1, 2, 3, *said, 4, 5], Knobs(policy="fixed", temperature=0.0, draft_max=2, predict=20))
    return (*events, Asked((system, second), (1, 2, 9)), Failed("the device is gone"))
