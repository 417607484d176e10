"""SmolLM2 with a draft and without; sessions are closed; and the llama.cpp that has RPC."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spectui.engine.events import Event
from spectui.engine.session import Session
from tests.helpers.rpc_server import LIBRARIES
from tests.helpers.smollm2 import alone, opened, setup

Opened = tuple[Session, list[Event]]


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test opens in its own thread, at its end."""
    opened: list[Session] = []
    begin = Session.__init__

    def noted(self: Session, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        if threading.current_thread() is threading.main_thread():
            opened.append(self)

    monkeypatch.setattr(Session, "__init__", noted)
    yield
    for session in opened:
        session.close()


@pytest.fixture(scope="module")
def pair() -> Iterator[Opened]:
    session, events = opened(setup())
    yield session, events
    session.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[Opened]:
    session, events = opened(alone())
    yield session, events
    session.close()


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started have a llama.cpp with RPC."""
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(LIBRARIES))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIBRARIES))
