"""Commands that come while the engine's process loads, writes or ends: each of them ends with an event."""

import os
import signal
import sys
import threading
from dataclasses import replace

import pytest

from spectui.engine.events import Event, Failed, Finished, Loaded, LoadFailed, Loading
from spectui.engine.isolation.link import REPLACED
from spectui.engine.isolation.process import EngineProcess
from spectui.knobs import Setup
from tests.engine.isolation.helpers import QUESTION, at_round, load
from tests.engine.waiting import PATIENCE, events_of
from tests.helpers.rpc_server import Server, needs_server


@needs_server
def test_a_load_on_servers_that_replaces_another_ends_both(server: Server, engine: EngineProcess, setup: Setup):
    """The first one's process is ended, because the server serves one at a time."""
    events, there = events_of(engine), replace(setup, rpc=server.address)
    with_more = replace(there, ctx_size=128)

    def again(event: Event) -> None:
        if isinstance(event, Loading):
            events.hook = lambda _: None
            engine.load(with_more)

    events.hook = again
    engine.load(there)
    assert events.wait(Loaded).setup == with_more
    assert len(events.of(LoadFailed)) == 1


@needs_server
def test_a_load_on_servers_ends_the_reply(server: Server, engine: EngineProcess, setup: Setup):
    there = replace(setup, rpc=server.address)
    events = load(engine, there)
    at_round(engine, 2, lambda: engine.load(replace(there, ctx_size=128)))
    engine.generate(QUESTION)
    events.wait(Loaded, 2)
    assert [event.message for event in events.of(Failed)] == [REPLACED]
    assert not events.of(Finished)


def test_a_prompt_that_comes_while_the_process_ends(isolated: EngineProcess):
    """In the moment between the process's end and what is done about it."""
    events, process = events_of(isolated), isolated.link
    assert process is not None and process.pid is not None
    ended = isolated.ended

    def late(*arguments: object) -> None:
        isolated.ended = ended
        isolated.generate(QUESTION)
        ended(*arguments)

    isolated.ended = late
    os.kill(process.pid, signal.SIGKILL)
    events.wait(Failed)
    events.wait(Loaded, 2)
    isolated.generate(QUESTION)
    events.wait(Finished)


def test_nothing_is_asked_of_a_closed_engine(isolated: EngineProcess):
    isolated.close(PATIENCE)
    late = threading.Thread(target=isolated.generate, args=(QUESTION,), daemon=True)
    late.start()
    late.join(PATIENCE)
    assert not late.is_alive()


def test_a_process_that_cannot_be_started(engine: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch):
    """As when a new version of spectui has replaced the Python that this one runs on."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/no/python")
        engine.load(setup)
        failed = events_of(engine).wait(LoadFailed)
    assert failed.message.startswith("The engine's process could not be started (No such file or directory): ")
    engine.load(setup)
    events_of(engine).wait(Loaded)
