"""What is loaded after models have ended the process that loaded them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import (
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Notice,
)
from spectui.engine.isolation.engine import ChatEngine
from spectui.knobs import Setup
from tests.engine.isolation.helpers import QUESTION, events_of
from tests.llama.devices.test_asynchronous_device import needs_vulkan, on_the_device
from tests.llama.ggufs import write_model


def ends_at(engine: ChatEngine, *commands: Callable[[], None]) -> None:
    """Give the commands and end the process while it has not yet obeyed the first one."""
    process = engine.process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    for command in commands:
        command()
    os.kill(process.pid, signal.SIGKILL)


def test_a_placement_that_ends_the_process_is_put_back(isolated: ChatEngine, setup: Setup):
    events = events_of(isolated)
    ends_at(isolated, lambda: isolated.load(replace(setup, ctx_size=128)))
    assert events.wait(Loaded, 2).setup == setup
    assert [event.message for event in events.of(Notice)][-1] == (
        "The engine's process ended by signal SIGKILL: choose another device (-dev), or fewer layers on it (-ngl). "
        "The models are loaded as before."
    )
    isolated.generate(QUESTION)
    assert events.wait(Finished).statistics.emitted > 20
    assert not events.of(LoadFailed)


def test_what_is_put_back_and_ends_the_process_too_is_not_tried_again(
    isolated: ChatEngine, setup: Setup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    events = events_of(isolated)

    def at_notice(event: Event) -> None:
        if isinstance(event, Notice) and "as before" in event.message:
            monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # ends the next process when it starts

    events.hook = at_notice
    ends_at(isolated, lambda: isolated.load(replace(setup, ctx_size=128)))
    assert events.wait(LoadFailed).message == (
        "The engine's process ended with code 1: choose another device (-dev), or fewer layers on it (-ngl)."
    )
    monkeypatch.delenv("PYTHONHOME")
    isolated.load(setup)
    assert events.wait(Loaded, 2).setup == setup


def test_other_models_that_end_the_process_are_not_replaced_by_the_old_ones(isolated: ChatEngine, setup: Setup):
    events = events_of(isolated)
    ends_at(isolated, lambda: isolated.load(replace(setup, draft=None, split_mode="tensor")))
    assert events.wait(LoadFailed).message.endswith(
        "SIGKILL: choose -sm layer, which divides models among all kinds of devices."
    )
    assert len(events.of(Loaded)) == 1


def test_what_has_not_begun_when_the_process_ends_is_done_by_the_next(isolated: ChatEngine, setup: Setup):
    """A reply that ends, or a load that another one replaced, is no fault of the load that waits."""
    events = events_of(isolated)
    smaller, smallest = replace(setup, ctx_size=128), replace(setup, ctx_size=64)
    ends_at(isolated, lambda: isolated.generate(QUESTION), lambda: isolated.load(smaller))
    assert "what was written is kept" in events.wait(Failed).message
    assert events.wait(Loaded, 2).setup == smaller
    ends_at(
        isolated, lambda: isolated.load(setup), lambda: isolated.load(smallest), lambda: isolated.generate(QUESTION)
    )
    assert events.wait(Loaded, 3).setup == smallest
    assert len(events.of(LoadFailed)) == 1, "each command ends with an event"
    assert "send the prompt again" in events.wait(Failed, 2).message


def test_what_was_put_back_is_loaded_again(isolated: ChatEngine, setup: Setup):
    """And not the placement that was asked for and failed."""
    events = events_of(isolated)
    isolated.load(replace(setup, device="CUDA9"))
    assert events.wait(Loaded, 2).setup == setup
    ends_at(isolated, lambda: isolated.generate(QUESTION))
    assert events.wait(Loaded, 3).setup == setup
    assert not events.of(LoadFailed)


TENSOR = """
import json, sys
from dataclasses import replace
from spectui.engine.events import Loaded, Message, Notice, Finished, LoadFailed
from spectui.engine.isolation import engine
from spectui.knobs import Knobs, Setup
from tests.engine.waiting import Events

engine.deque = Events
chat = engine.ChatEngine(Knobs(predict=4, drafter="off"))
setup = Setup(**json.loads(sys.argv[1]))
chat.load(setup)
chat.events.wait(Loaded)
chat.load(replace(setup, split_mode="tensor"))
loaded = chat.events.wait(Loaded, 2).setup == setup
chat.generate([Message("user", "Hi")])
finished = chat.events.wait(Finished).reason
chat.close()
told = [event.message for event in chat.events if isinstance(event, Notice | LoadFailed)]
print(json.dumps([loaded, finished, told]))
"""


@needs_vulkan
def test_a_split_mode_that_ends_llama_cpp_is_refused_before_anything_is_freed(tmp_path: Path):
    setup = {"model": str(write_model(tmp_path / "model.gguf")), "ctx_size": 256, "ubatch": 32, "no_profile": "on"}
    loaded, finished, told = on_the_device(TENSOR, json.dumps(setup))
    assert loaded and finished == "limit"
    assert told[-1] == (
        "llama.cpp cannot place the models so (GGML_ASSERT(reg) failed): choose -sm layer, which divides models among "
        "all kinds of devices. The models are loaded as before."
    )
