"""An engine in a process of its own: llama.cpp ends that process, and this one says so and goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import (
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    Loading,
    Message,
    Notice,
    RoundDone,
    Unloaded,
)
from spectui.engine.exactness.verify import verify
from spectui.engine.isolation.engine import ChatEngine
from spectui.engine.isolation.process import EngineProcess
from spectui.engine.loading.models import NOT_AHEAD
from spectui.engine.loading.simulation import ALL
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.llama.quantiser import quantise
from spectui.speculation.records import StopReason
from tests.engine.waiting import PATIENCE, Events
from tests.llama.ggufs import write_model
from tests.llama.test_asynchronous_device import needs_vulkan, on_the_device
from tests.rpc_server import LIBRARIES, Server, fake_server, free_address, hello, needs_server
from tests.smollm2 import alone

KNOBS = Knobs(temperature=0.8, seed=3, predict=200, draft_max=4, p_min=0.0, drafter="model", policy="fixed")
QUESTION = [Message("user", "what now")]


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """A pair of random weights, on this machine."""
    place = tmp_path_factory.mktemp("pair")
    target = write_model(
        place / "target.gguf", template="{% for message in messages %}{{ message.content }}{% endfor %}"
    )
    quantise(target, place / "draft.gguf", "Q4_0")
    return Setup(model=str(target), draft=str(place / "draft.gguf"), ctx_size=256, threads=1, no_profile="on")


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started have a llama.cpp with RPC."""
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(LIBRARIES))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIBRARIES))


@pytest.fixture
def server(remote: None) -> Iterator[Server]:
    server = Server()
    yield server
    server.kill()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatEngine]:
    monkeypatch.setattr("spectui.engine.isolation.engine.deque", Events)
    engine = ChatEngine(KNOBS)
    yield engine
    engine.close(PATIENCE)


def events_of(engine: ChatEngine | EngineProcess) -> Events:
    assert isinstance(engine.events, Events)
    return engine.events


def text_of(events: Events) -> str:
    return "".join(token.text for event in events.of(RoundDone) for token in event.round.tokens)


def at_round(events: Events, index: int, do: Callable[[], None]) -> None:
    """Do something once, when the round of this index comes."""

    def hook(event: Event) -> None:
        if isinstance(event, RoundDone) and event.round.index == index:
            events.hook = lambda _: None
            do()

    events.hook = hook


@needs_server
@pytest.mark.parametrize(("target", "draft"), [("RPC0", "none"), ("none", "RPC0"), ("", "")])
def test_killed_in_the_middle_of_a_reply(server: Server, engine: ChatEngine, setup: Setup, target: str, draft: str):
    """The reply ends with a sentence, what was written stays, and the chat goes on locally."""
    events, heard = events_of(engine), list[Event]()
    engine.listen = heard.append
    engine.load(replace(setup, rpc=server.address, device=target, device_draft=draft))
    loaded = events.wait(Loaded)
    assert "RPC0" in [device.name for device in loaded.devices]
    engine.generate(QUESTION)
    whole = events.wait(Finished)
    assert whole.statistics.emitted > 20
    assert whole.statistics.drafted > 0
    events.clear()
    at_round(events, 2, server.kill)
    engine.generate(QUESTION)
    sentence = events.wait(Failed).message
    assert sentence == (
        f"The RPC server {server.address} is gone: what was written is kept, and the models are loaded on this machine alone."
    )
    assert len(events.of(RoundDone)) >= 3
    assert whole.text.startswith(text_of(events))
    local = events.wait(Loaded)
    assert (local.setup.rpc, local.setup.device, local.setup.device_draft) == ("", *(
        "none" if name == "none" else "" for name in (target, draft)
    ))  # fmt: skip
    engine.generate(QUESTION)
    assert events.wait(Finished).statistics.emitted > 20
    assert heard[-len(events) :] == list(events), "a trace has all of it"


@needs_server
def test_a_draft_on_a_server_of_its_own_goes_ahead(server: Server, engine: ChatEngine, setup: Setup):
    """And not one that shares the server, is told not to, or may share the target's cores; the text is the same."""
    events = events_of(engine)
    ways = [
        ("none", "RPC0", "on"), ("none", "RPC0", "auto"), ("none", "RPC0", "off"),
        ("RPC0", "RPC0", "on"), ("RPC0", "none", "on"),
    ]  # fmt: skip
    texts, guesses = set(), []
    for number, (target, draft, ahead) in enumerate(ways, 1):
        engine.load(replace(setup, rpc=server.address, device=target, device_draft=draft, async_draft=ahead))
        events.wait(Loaded, number)
        engine.generate(QUESTION)
        finished = events.wait(Finished, number)
        if target == "none":
            texts.add(finished.text)
        guesses.append(finished.statistics.guesses)
    assert len(texts) == 1
    assert guesses[0] > 20
    assert guesses[1:] == [0, 0, 0, 0]
    assert [event.message for event in events.of(Notice)].count(NOT_AHEAD) == 2


@needs_server
def test_what_fits_on_the_server_is_planned_before_loading(server: Server, engine: ChatEngine, setup: Setup):
    """The draft's device is a choice of the plan, and so are the layers."""
    events = events_of(engine)
    engine.load(replace(setup, rpc=server.address))
    events.wait(Loaded)
    assert [event.what for event in events.of(Loading)].count("plan") == 1
    placed = engine.process.call(automatic_choices).result(PATIENCE)
    assert placed["device_draft"] == "RPC0" and placed["gpu_layers"] == ALL


@needs_server
def test_a_target_on_two_servers_and_a_draft_on_the_other(server: Server, engine: ChatEngine, setup: Setup):
    """Unless it is told otherwise the target is on both and the draft on one; the text is the same."""
    events, other, texts, places = events_of(engine), Server(), [], []
    try:
        for number, device in enumerate(("", "RPC0"), 1):
            engine.load(replace(setup, rpc=f"{server.address},{other.address}", device=device))
            loaded = events.wait(Loaded, number)
            assert loaded.draft is not None
            places.append([
                {use.device for use in model.memory if use.weights and use.device != "CPU"}
                for model in (loaded.target, loaded.draft)
            ])  # fmt: skip
            engine.generate(QUESTION)
            texts.append(events.wait(Finished, number).text)
    finally:
        other.kill()
    (divided, one), (target, draft) = places
    assert divided == {"RPC0", "RPC1"} and len(one) == 1
    assert target == {"RPC0"} and draft == {"RPC1"}
    assert texts[0] == texts[1] != ""


def automatic_choices(session: Session) -> dict[str, object]:
    assert session.pair is not None
    return session.pair._automatic._chosen


@needs_server
def test_the_knobs_reach_the_process_and_stop_ends_a_reply(server: Server, engine: ChatEngine, setup: Setup):
    events = events_of(engine)
    engine.load(replace(setup, rpc=server.address))
    events.wait(Loaded)
    engine.knobs = replace(KNOBS, predict=199)
    at_round(events, 2, engine.stop)
    engine.generate(QUESTION)
    stopped = events.wait(Finished)
    assert stopped.reason is StopReason.CANCELLED
    assert stopped.knobs.predict == 199
    assert stopped.statistics.rounds < 60
    rounds = [event.round for event in events.of(RoundDone)]
    assert all(round.knobs is rounds[0].knobs for round in rounds), "each round keeps it"


@needs_server
def test_models_move_between_the_server_and_this_machine(server: Server, engine: ChatEngine, setup: Setup):
    """The server serves one process at a time, so that of the first set-up must have ended when the third is loaded."""
    events = events_of(engine)
    for number, address in enumerate((server.address, "", server.address), 1):
        engine.load(replace(setup, rpc=address))
        loaded = events.wait(Loaded, number)
        assert ("RPC0" in [device.name for device in loaded.devices]) == bool(address)
        engine.generate(QUESTION)
        assert events.wait(Finished, number).statistics.emitted > 20
    assert not events.of(LoadFailed)


@needs_server
def test_servers_that_cannot_be_used(remote: None, engine: ChatEngine, setup: Setup):
    """Each is named, and the next attempt works without it."""
    events, nobody = events_of(engine), free_address()
    engine.load(replace(setup, rpc=nobody))
    failed = events.wait(LoadFailed)
    assert failed.without_servers
    assert failed.message.startswith(f"The RPC server {nobody} cannot be used (Connection refused):")
    with fake_server(hello(99, 0)) as other:
        engine.load(replace(setup, rpc=other))
        assert f"The RPC server {other} cannot be used (it speaks version 99.0" in events.wait(LoadFailed, 2).message
    engine.load(setup)
    events.wait(Loaded)


@needs_server
def test_the_server_goes_away_while_models_load(server: Server, engine: ChatEngine, setup: Setup):
    events = events_of(engine)
    events.hook = lambda event: server.kill() if getattr(event, "what", "") == "target" else None
    engine.load(replace(setup, rpc=server.address))
    failed = events.wait(LoadFailed)
    assert failed == LoadFailed(f"The RPC server {server.address} is gone.", without_servers=True)
    engine.load(setup)
    events.wait(Loaded)


def test_a_driver_that_fails(engine: ChatEngine, setup: Setup, monkeypatch: pytest.MonkeyPatch):
    """ggml ends the process then. This one takes it for a build with a GPU; the engine's process has none."""
    monkeypatch.setattr("spectui.engine.isolation.process.gpu_backends", lambda: ("cuda",))
    events = events_of(engine)
    engine.load(setup)
    events.wait(Loaded)
    process = engine.process
    assert process is not None
    at_round(events, 2, lambda: os.kill(process.pid, signal.SIGABRT))
    engine.generate(QUESTION)
    assert events.wait(Failed).message == (
        "The engine's process ended by signal SIGABRT: what was written is kept, and the models are loaded again."
    )
    assert events.wait(Loaded, 2).setup == setup
    engine.generate(QUESTION)
    assert events.wait(Finished).statistics.emitted > 20
    assert engine.process not in (None, process)


@pytest.fixture
def isolated(engine: ChatEngine, setup: Setup, monkeypatch: pytest.MonkeyPatch) -> ChatEngine:
    """The engine with the pair loaded in a process of its own."""
    monkeypatch.setattr("spectui.engine.isolation.engine.needs_process", lambda setup: True)
    engine.load(setup)
    events_of(engine).wait(Loaded)
    return engine


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


def variable(session: Session) -> str | None:
    return os.environ.get("GGML_OP_OFFLOAD_MIN_BATCH")


def test_ggml_finds_the_least_batch_for_a_gpu_in_its_variable(
    isolated: ChatEngine, setup: Setup, monkeypatch: pytest.MonkeyPatch
):
    """It reads it once, so another number needs another process; without one a person's own stays."""
    monkeypatch.setenv("GGML_OP_OFFLOAD_MIN_BATCH", "11")
    events, found = events_of(isolated), []
    for number, least in enumerate((7, 7, 0), 2):
        isolated.load(replace(setup, op_offload_min_batch=least, ctx_size=64 * number))
        events.wait(Loaded, number)
        process = isolated.process
        assert process is not None
        found.append((process.pid, process.call(variable).result(PATIENCE)))
    assert [each for _, each in found] == ["7", "7", "11"]
    assert found[0][0] == found[1][0]


OFFLOAD = """
import json, sys
from dataclasses import replace
from spectui.engine.events import Loaded
from spectui.engine.isolation import engine
from spectui.engine.loading.plan import make_plan
from spectui.knobs import Knobs, Setup
from tests.engine.waiting import Events

engine.deque = Events
chat = engine.ChatEngine(Knobs())
setup = Setup(**json.loads(sys.argv[1]))
found = []
for number, least in enumerate((0, 4096), 1):
    asked = replace(setup, op_offload_min_batch=least)
    made = make_plan(asked, True).target
    chat.load(asked)
    loaded = chat.events.wait(Loaded, number).target.memory
    found.append([{use.device: use.compute for use in each} for each in (made, loaded)])
chat.close()
print(json.dumps(found))
"""


@needs_vulkan
def test_a_gpu_computes_layers_of_the_hosts_memory_from_that_batch_on(tmp_path: Path):
    """With no layer on it, it has buffers for prompts; not where a prompt's passes are below the least batch."""
    model = str(write_model(tmp_path / "model.gguf"))
    setup = {"model": model, "ctx_size": 256, "gpu_layers": 0, "no_profile": "on"}
    (planned, loaded), (planned_without, loaded_without) = on_the_device(OFFLOAD, json.dumps(setup))
    assert planned["Vulkan0"] > 2**16 and loaded["Vulkan0"] == pytest.approx(planned["Vulkan0"], abs=2**13)
    assert not planned_without.get("Vulkan0") and not loaded_without.get("Vulkan0")


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


@pytest.mark.parametrize("own", [False, True])
def test_the_models_are_freed_and_loaded_again(
    engine: ChatEngine, setup: Setup, monkeypatch: pytest.MonkeyPatch, own: bool
):
    monkeypatch.setattr("spectui.engine.isolation.engine.needs_process", lambda setup: own)
    events = events_of(engine)
    engine.load(setup)
    events.wait(Loaded)
    process = engine.process
    assert (process is not None) == own
    engine.generate(QUESTION)
    events.wait(RoundDone)
    engine.unload()
    events.wait(Unloaded)
    if process is None:
        assert events.wait(Finished).reason is StopReason.CANCELLED
        assert engine._worker.call(lambda session: session.target_context).result(PATIENCE) is None
    else:
        assert process._process is not None and process._process.poll() is not None, "it has ended"
    engine.load(setup)
    events.wait(Loaded, 2)
    engine.knobs = replace(KNOBS, predict=4)
    engine.generate(QUESTION)
    assert events.wait(Finished, 1 if own else 2).reason is StopReason.LIMIT


def test_calls_return_or_raise_what_they_do_in_this_process(setup: Setup):
    process = EngineProcess(KNOBS)
    try:
        process.call(Session.load, setup).result(PATIENCE)
        finished = process.call(Session.generate, QUESTION).result(PATIENCE)
        rounds = [event.round for event in process.events if isinstance(event, RoundDone)]
        assert process.call(verify, QUESTION, finished, rounds).result(PATIENCE).same
        with pytest.raises(SpectuiError, match="There is no target model"):
            process.call(Session.load, replace(setup, model="nothing.gguf")).result(PATIENCE)
        os.kill(process.pid, signal.SIGSTOP)  # it could have loaded before it is killed
        pending = process.call(Session.load, setup)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(SpectuiError, match="The engine's process ended"):
            pending.result(PATIENCE)
        with pytest.raises(SpectuiError, match="ended"):
            process.call(Session.load, setup).result(PATIENCE)
    finally:
        process.close(PATIENCE)


def test_a_process_that_does_not_stop_is_ended_by_stopping_once_more(setup: Setup, monkeypatch: pytest.MonkeyPatch):
    """As when the connection to a server hangs."""
    monkeypatch.setattr("spectui.engine.isolation.process.STOP_S", 0.0)
    process = EngineProcess(KNOBS)
    events = process.events = Events()
    process.load(setup)
    events.wait(Loaded)
    at_round(events, 2, lambda: os.kill(process.pid, signal.SIGSTOP))
    process.generate(QUESTION)
    events.wait(RoundDone, 3)
    process.stop()
    process.stop()
    assert "The engine's process ended by signal SIGKILL" in events.wait(Failed).message
    process.close(PATIENCE)


def test_the_process_ends_with_its_parent(setup: Setup):
    process = EngineProcess(KNOBS)
    process.call(Session.load, setup).result(PATIENCE)
    child = process._process
    assert child is not None and child.stdin is not None
    process._commands.put(None)  # closes its standard input, as the parent's death does
    assert child.wait(PATIENCE) == 0


@needs_server
def test_a_prompt_is_computed_before_the_first_round(server: Server, engine: ChatEngine):
    """llama_synchronize does not wait for a server, so the first round would compute the prompt."""
    events = events_of(engine)
    engine.knobs = Knobs(temperature=0, predict=2, drafter="off")
    engine.load(replace(alone(), rpc=server.address, ctx_size=512, ubatch=512))
    events.wait(Loaded)
    engine.generate([Message("user", "one two three four five six seven eight nine ten " * 20)])
    finished = events.wait(Finished)
    first = events.of(RoundDone)[0].round.seconds
    assert finished.prompt_tokens > 200
    assert first < finished.prompt_s, "a token takes less than 200"
