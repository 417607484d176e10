"""What is loaded after models have ended the process that loaded them."""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import Event, Failed, Finished, Loaded, LoadFailed, Loading, Notice
from spectui.engine.isolation.process import EngineProcess
from spectui.knobs import Setup
from tests.engine.isolation.helpers import QUESTION, load
from tests.engine.waiting import events_of
from tests.helpers.rpc_server import Server, needs_server
from tests.helpers.smollm2 import alone
from tests.llama.devices.test_asynchronous_device import needs_vulkan, on_the_device
from tests.llama.ggufs import write_model


def ends_at(engine: EngineProcess, *commands: Callable[[], None]) -> None:
    """Give the commands and end the process while it has not yet obeyed the first one."""
    process = engine.link
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    for command in commands:
        command()
    os.kill(process.pid, signal.SIGKILL)


def test_a_placement_that_ends_the_process_is_put_back(isolated: EngineProcess, setup: Setup):
    events = events_of(isolated)
    ends_at(isolated, lambda: isolated.load(replace(setup, ctx_size=128)))
    assert events.wait(Loaded, 2).setup == setup
    assert [event.message for event in events.of(Notice)][-1] == (
        "The engine's process ended by signal SIGKILL: choose another device (-dev), fewer layers on it (-ngl), or a smaller "
        "-c. The models are loaded as before."
    )
    isolated.generate(QUESTION)
    assert events.wait(Finished).statistics.emitted > 20
    assert not events.of(LoadFailed)


@needs_server
@pytest.mark.parametrize("ends", [False, True])
def test_a_placement_on_a_server_that_fails_is_put_back(server: Server, engine: EngineProcess, setup: Setup, ends: bool):
    """It is loaded by a process of its own, so the one that puts it back has loaded nothing before."""
    there = replace(setup, rpc=server.address, async_draft="off")
    events = load(engine, there)
    process = engine.link

    def end(event: Event) -> None:
        if isinstance(event, Loading) and engine.link is not process:
            events.hook = lambda _: None
            assert engine.link is not None and engine.link.pid is not None
            os.kill(engine.link.pid, signal.SIGKILL)

    events.hook = end if ends else events.hook
    refused = replace(there, cache_type_v="q8_0", flash_attn="off")
    engine.load(replace(there, ctx_size=128) if ends else refused)
    loaded = events.wait(Loaded, 2)
    assert loaded.setup == there
    assert "RPC0" in {use.device for use in loaded.target.memory}, "the server is not to blame, and is used again"
    (told,) = (event.message for event in events.of(Notice) if "as before" in event.message)
    assert ("SIGKILL" in told) is ends
    assert not events.of(LoadFailed)


@needs_server
@pytest.mark.parametrize("when", ["before", "during"])
def test_a_server_that_is_gone_when_a_placement_changes(server: Server, engine: EngineProcess, setup: Setup, when: str):
    """The chat had models, so it gets them on this machine, as if the server had gone in the middle of a reply."""
    there = replace(setup, rpc=server.address)
    events = load(engine, there)
    if when == "before":
        server.kill()
    else:
        events.hook = lambda event: server.kill() if getattr(event, "what", "") == "target" else None
    engine.load(replace(there, ctx_size=128))
    local = events.wait(Loaded, 2)
    assert (local.setup.rpc, local.setup.ctx_size) == ("", setup.ctx_size)
    (told,) = (event.message for event in events.of(Notice) if server.address in event.message)
    assert told.endswith(". The models are loaded on this machine alone.")
    assert not events.of(LoadFailed)
    engine.generate(QUESTION)
    assert events.wait(Finished).statistics.emitted > 20


@needs_server
@pytest.mark.skipif(sys.platform != "linux", reason="no limit for another process")
def test_a_server_whose_memory_is_taken_when_a_placement_fails(server: Server, engine: EngineProcess):
    """It cannot have the models as before either."""
    import resource

    there = replace(alone(), rpc=server.address)
    events = load(engine, there)
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (2**20, resource.RLIM_INFINITY))
    engine.load(replace(there, ctx_size=2048))
    assert events.wait(Loaded, 2).setup == alone()
    (told,) = (event.message for event in events.of(Notice) if server.address in event.message)
    assert "failed to allocate" in told and told.endswith(". The models are loaded on this machine alone.")
    assert server.process.poll() is None


def test_what_is_put_back_and_ends_the_process_too_is_not_tried_again(
    isolated: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    events = events_of(isolated)

    def at_notice(event: Event) -> None:
        if isinstance(event, Notice) and "as before" in event.message:
            monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # ends the next process when it starts

    events.hook = at_notice
    ends_at(isolated, lambda: isolated.load(replace(setup, ctx_size=128)))
    assert events.wait(LoadFailed).message == (
        "The engine's process ended with code 1: choose another device (-dev), fewer layers on it (-ngl), or a smaller -c."
    )
    monkeypatch.delenv("PYTHONHOME")
    isolated.load(setup)
    assert events.wait(Loaded, 2).setup == setup


def test_other_models_that_end_the_process_are_not_replaced_by_the_old_ones(isolated: EngineProcess, setup: Setup):
    events = events_of(isolated)
    ends_at(isolated, lambda: isolated.load(replace(setup, draft=None, split_mode="tensor")))
    assert events.wait(LoadFailed).message.endswith(
        "SIGKILL: choose -sm layer, which divides models among all kinds of devices."
    )
    assert len(events.of(Loaded)) == 1


def test_what_has_not_begun_when_the_process_ends_is_done_by_the_next(isolated: EngineProcess, setup: Setup):
    """A reply that ends, or a load that another one replaced, is no fault of the load that waits."""
    events = events_of(isolated)
    smaller, smallest = replace(setup, ctx_size=128), replace(setup, ctx_size=64)
    ends_at(isolated, lambda: isolated.generate(QUESTION), lambda: isolated.load(smaller))
    assert "what was written is kept" in events.wait(Failed).message
    assert events.wait(Loaded, 2).setup == smaller
    ends_at(isolated, lambda: isolated.load(setup), lambda: isolated.load(smallest), lambda: isolated.generate(QUESTION))
    assert events.wait(Loaded, 3).setup == smallest
    assert len(events.of(LoadFailed)) == 1, "each command ends with an event"
    assert "send the prompt again" in events.wait(Failed, 2).message


def test_what_was_put_back_is_loaded_again(isolated: EngineProcess, setup: Setup):
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
from spectui.engine.events import Finished, Loaded, LoadFailed, Message, Notice
from spectui.engine import worker
from spectui.engine.isolation import process
from spectui.knobs import Knobs, Setup
from tests.engine.waiting import Events, events_of

worker.deque = Events
chat = process.EngineProcess(Knobs(temperature=0, predict=4, drafter="off"))
setup = Setup(**json.loads(sys.argv[1]))
placed = []
for number, change in enumerate(({}, {"split_mode": "tensor"}, {"split_mode": "tensor", "flash_attn": "off"}), 1):
    chat.load(replace(setup, **change))
    loaded = chat.events.wait(Loaded, number)
    chat.generate([Message("user", "Hi")])
    text = chat.events.wait(Finished, number).text
    placed.append([loaded.setup.split_mode, {use.device: use.cells for use in loaded.target.memory}, text])
chat.close()
told = [event.message for event in chat.events if isinstance(event, Notice | LoadFailed)]
print(json.dumps([placed, told]))
"""


@needs_vulkan
def test_tensors_are_divided_in_place_and_a_placement_that_cannot_be_is_put_back(tmp_path: Path):
    """Split mode tensor makes a device of the GPUs, which has no registry; the text is the same. It cannot be without flash
    attention."""
    setup = {"model": str(write_model(tmp_path / "model.gguf")), "ctx_size": 256, "ubatch": 32, "no_profile": "on"}
    placed, told = on_the_device(TENSOR, json.dumps(setup))
    assert [mode for mode, *_ in placed] == ["layer", "tensor", "tensor"]
    assert [text for _, _, text in placed] == [placed[0][2]] * 3 != [""] * 3
    assert placed[0][1] == placed[1][1]
    assert placed[1][1]["Vulkan0"] > 0
    assert told[-1] == (
        "A context of 256 tokens could not be made (SPLIT_MODE_TENSOR requires flash_attn to be enabled): choose -fa on, or "
        "cells of f16 (-ctk and -ctv). The models are loaded as before."
    )
