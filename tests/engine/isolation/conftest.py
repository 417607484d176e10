"""A pair of random weights, and engines and servers for it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from spectui.engine.isolation.process import EngineProcess
from spectui.knobs import Setup
from tests.engine.isolation.helpers import KNOBS, load
from tests.engine.waiting import PATIENCE, Events
from tests.helpers.rpc_server import Server


@pytest.fixture
def setup(setup: Setup) -> Setup:
    """The pair, with room for a long reply."""
    return replace(setup, ctx_size=2048)


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
