"""A pair of random weights, and engines and servers for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spectui.engine.events import Loaded
from spectui.engine.isolation.process import EngineProcess
from spectui.knobs import Setup
from spectui.llama.quantiser import quantise
from tests.engine.isolation.helpers import KNOBS
from tests.engine.waiting import PATIENCE, Events, events_of
from tests.helpers.rpc_server import LIBRARIES, Server
from tests.llama.ggufs import write_model


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
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineProcess]:
    monkeypatch.setattr("spectui.engine.worker.deque", Events)
    engine = EngineProcess(KNOBS)
    yield engine
    engine.close(PATIENCE)


@pytest.fixture
def isolated(engine: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch) -> EngineProcess:
    """The engine with the pair loaded in a process of its own."""
    engine.load(setup)
    events_of(engine).wait(Loaded)
    return engine
