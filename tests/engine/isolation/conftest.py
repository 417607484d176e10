"""A pair of random weights, and engines and servers for it."""

from collections.abc import Iterator

import pytest

from spectui.engine.isolation.process import EngineProcess
from spectui.knobs import Setup
from spectui.llama.quantiser import quantise
from tests.engine.isolation.helpers import KNOBS, load
from tests.engine.waiting import PATIENCE, Events
from tests.helpers.rpc_server import Server
from tests.llama.ggufs import write_model


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """A pair of random weights, on this machine."""
    place = tmp_path_factory.mktemp("pair")
    target = write_model(place / "target.gguf", template="{% for message in messages %}{{ message.content }}{% endfor %}")
    quantise(target, place / "draft.gguf", "Q4_0")
    return Setup(model=str(target), draft=str(place / "draft.gguf"), ctx_size=256, threads=1, no_profile="on")


@pytest.fixture
def server(remote: None) -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineProcess]:
    monkeypatch.setattr("spectui.engine.worker.deque", Events)
    engine = EngineProcess(KNOBS)
    yield engine
    engine.close(PATIENCE)


@pytest.fixture
def isolated(engine: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch) -> EngineProcess:
    """The engine with the pair loaded in a process of its own."""
    load(engine, setup)
    return engine
