"""Target or draft on an RPC server: replies, plans, and servers that go away."""

import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

from spectui.engine.events import Event, Failed, Finished, Loaded, LoadFailed, Loading, Message, Notice, RoundDone
from spectui.engine.isolation.link import HANGS
from spectui.engine.isolation.process import EngineProcess
from spectui.engine.loading.remarks import NOT_AHEAD
from spectui.engine.loading.simulation import ALL
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.rpc import PROTOCOL
from spectui.speculation.records import StopReason
from tests.engine.isolation.helpers import KNOBS, LONG, QUESTION, at_round, load, text_of
from tests.engine.waiting import PATIENCE, events_of
from tests.helpers.rpc_server import Server, fake_server, free_address, hello, needs_server
from tests.helpers.smollm2 import alone


@needs_server
@pytest.mark.parametrize(("target", "draft"), [("RPC0", "none"), ("none", "RPC0"), ("", "")])
def test_killed_in_the_middle_of_a_reply(server: Server, engine: EngineProcess, setup: Setup, target: str, draft: str):
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
    at_round(engine, 2, server.kill)
    engine.generate(QUESTION)
    sentence = events.wait(Failed).message
    assert sentence == (
        f"The RPC server {server.address} is gone: what was written is kept, and the models are loaded on this machine alone."
    )
    assert len(events.of(RoundDone)) >= 3
    assert whole.text.startswith(text_of(events)) or text_of(events).startswith(whole.text)
    local = events.wait(Loaded)
    assert (local.setup.rpc, local.setup.device, local.setup.device_draft) == ("", *(
        "none" if name == "none" else "" for name in (target, draft)
    ))  # fmt: skip
    engine.knobs = KNOBS
    engine.generate(QUESTION)
    assert events.wait(Finished).statistics.emitted > 20
    assert heard[-len(events) :] == list(events), "a trace has all of it"


@needs_server
def test_a_draft_on_a_server_of_its_own_goes_ahead(server: Server, engine: EngineProcess, setup: Setup):
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
    assert guesses[0] > 0  # a busy machine may begin few of them in time
    assert guesses[1:] == [0, 0, 0, 0]
    assert [event.message for event in events.of(Notice)].count(NOT_AHEAD) == 2


def draft_threads(session: Session) -> int:
    from spectui.llama.library import llama

    assert session.pair.draft_context is not None
    return int(llama.llama_n_threads(session.pair.draft_context.handle))


@needs_server
def test_a_draft_ahead_has_one_thread(server: Server, engine: EngineProcess, setup: Setup):
    """Two threads that compute with OpenMP would slow each other down."""
    events, found = events_of(engine), []
    for number, ahead in enumerate(("on", "off"), 1):
        engine.load(replace(setup, rpc=server.address, device="none", device_draft="RPC0", threads_draft=2, async_draft=ahead))
        events.wait(Loaded, number)
        assert engine.link is not None
        found.append(engine.link.call("call", draft_threads).result(PATIENCE))
    assert found == [1, 2]


@needs_server
def test_what_fits_on_the_server_is_planned_before_loading(server: Server, engine: EngineProcess, setup: Setup):
    """The draft's device is a choice of the plan, and so are the layers."""
    events = load(engine, replace(setup, rpc=server.address))
    assert [event.what for event in events.of(Loading)].count("plan") == 1
    placed = engine.link.call("call", automatic_choices).result(PATIENCE)
    assert placed["device_draft"] == "RPC0" and placed["gpu_layers"] == ALL


@needs_server
def test_a_target_on_two_servers_and_a_draft_on_the_other(server: Server, engine: EngineProcess, setup: Setup):
    """Unless it is told otherwise the target is on both and the draft on one; the text is the same."""
    events, texts, places = events_of(engine), [], []
    with Server() as other:
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
    (divided, one), (target, draft) = places
    assert divided == {"RPC0", "RPC1"} and len(one) == 1
    assert target == {"RPC0"} and draft == {"RPC1"}
    assert texts[0] == texts[1] != ""


def automatic_choices(session: Session) -> dict[str, object]:
    assert session.pair is not None
    return session.pair._automatic._chosen


@needs_server
def test_the_knobs_reach_the_process_and_stop_ends_a_reply(server: Server, engine: EngineProcess, setup: Setup):
    events = load(engine, replace(setup, rpc=server.address))
    at_round(engine, 2, engine.stop)
    engine.generate(QUESTION)
    stopped = events.wait(Finished)
    assert stopped.reason is StopReason.CANCELLED
    assert stopped.knobs.predict == LONG
    rounds = [event.round for event in events.of(RoundDone)]
    assert all(round.knobs is rounds[0].knobs for round in rounds), "each round keeps it"


@needs_server
def test_models_move_between_the_server_and_this_machine(server: Server, engine: EngineProcess, setup: Setup):
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
def test_servers_that_cannot_be_used(remote: None, engine: EngineProcess, setup: Setup):
    """Each is named, and the next attempt works without it."""
    events, nobody = events_of(engine), free_address()
    engine.load(replace(setup, rpc=nobody))
    failed = events.wait(LoadFailed)
    assert failed.without_servers
    assert failed.message.startswith(f"The RPC server {nobody} cannot be used (Connection refused):")
    with fake_server(hello(99, 0)) as other:
        engine.load(replace(setup, rpc=other))
        assert f"The RPC server {other} cannot be used (it speaks version 99.0" in events.wait(LoadFailed, 2).message
        engine.load(replace(setup, rpc=f"{nobody},{other}"))
        both = events.wait(LoadFailed, 3).message
    assert f"{nobody} cannot be used (Connection refused), nor can {other} (it speaks" in both
    engine.load(setup)
    events.wait(Loaded)


def connections() -> Iterator[socket.socket]:
    """Those of this process."""
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):
            connection = socket.socket(fileno=int(name))
            if connection.family == socket.AF_INET:
                yield connection
            connection.detach()


def linger(session: Session) -> list[tuple[int, int]]:
    """SO_LINGER of each connection."""
    return [struct.unpack("ii", each.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) for each in connections()]


def shut(session: Session) -> None:
    for each in connections():
        each.shutdown(socket.SHUT_RDWR)


@needs_server
def test_a_connection_that_breaks_off(server: Server, engine: EngineProcess, setup: Setup):
    """The server goes on, as one does that lacks memory for what it was sent."""
    events = load(engine, replace(setup, rpc=server.address, async_draft="on"))
    assert engine.link is not None
    engine.link.call("call", shut).result(PATIENCE)
    engine.generate(QUESTION)
    assert events.wait(Failed).message == (
        f"The RPC server {server.address} broke off the connection, as it does when its memory is full: what was written is "
        "kept, and the models are loaded on this machine alone."
    )
    events.wait(Loaded, 2)
    assert [event.message for event in events.of(Notice)].count(NOT_AHEAD) == 1, "not again"


@needs_server
def test_connections_end_with_a_reset(server: Server, engine: EngineProcess, setup: Setup):
    """So that ending the engine's process in the middle of a pass does not end the server: see `rpc.reset_when_closed`."""
    with Server() as other:
        engine.load(replace(setup, rpc=f"{server.address},{other.address}", device="RPC0", device_draft="RPC1"))
        events_of(engine).wait(Loaded)
        assert engine.link is not None
        assert engine.link.call("call", linger).result(PATIENCE) == [(1, 0)] * 2


@needs_server
@pytest.mark.skipif(sys.platform != "linux", reason="no limit for another process")
def test_a_server_without_memory(server: Server, engine: EngineProcess):
    """It is named, and the models load without it."""
    import resource

    events, pid = events_of(engine), server.process.pid
    resource.prlimit(pid, resource.RLIMIT_AS, (psutil.Process(pid).memory_info().vms + 2**20, resource.RLIM_INFINITY))
    engine.load(replace(alone(), rpc=server.address))
    message = events.wait(LoadFailed).message
    assert f"does not fit into memory (failed to allocate RPC0[{server.address}] buffer" in message
    assert server.process.poll() is None
    engine.load(alone())
    events.wait(Loaded)


@needs_server
def test_the_server_goes_away_while_models_load(server: Server, engine: EngineProcess, setup: Setup):
    events = events_of(engine)
    events.hook = lambda event: server.kill() if getattr(event, "what", "") == "target" else None
    engine.load(replace(setup, rpc=server.address))
    failed = events.wait(LoadFailed)
    assert failed == LoadFailed(f"The RPC server {server.address} is gone.", without_servers=True)
    engine.load(setup)
    events.wait(Loaded)


@needs_server
def test_a_server_that_says_no_more_than_hello(
    remote: None, engine: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch
):
    """ggml waits for ever. A person can end that, and then load the models on this machine alone."""
    monkeypatch.setattr("spectui.engine.isolation.link.STOP_S", 0.0)
    events, connections, waits = events_of(engine), list[socket.socket](), threading.Event()
    with fake_server(hello(*PROTOCOL), lambda: len(connections) == 2 and waits.set(), connections) as address:
        engine.load(replace(setup, rpc=address))
        assert waits.wait(PATIENCE)
        engine.stop()
        events.wait_for_notice(HANGS)
        engine.stop()
        failed = events.wait(LoadFailed)
    assert failed == LoadFailed("The engine did not stop, so its process was ended.", without_servers=True)


@needs_server
def test_a_prompt_is_computed_before_the_first_round(server: Server, engine: EngineProcess):
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
