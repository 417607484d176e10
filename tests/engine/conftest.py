"""SmolLM2 with a draft and without, and a pair of random weights; sessions are closed; and the llama.cpp that has RPC."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spectui.engine.events import Event
from spectui.engine.session import Session
from spectui.knobs import Setup
from spectui.llama.quantiser import quantise
from tests.helpers import smollm2
from tests.helpers.rpc_server import LIBRARIES
from tests.llama.ggufs import write_model

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
    session, events = smollm2.opened(smollm2.setup())
    yield session, events
    session.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[Opened]:
    session, events = smollm2.opened(smollm2.alone())
    yield session, events
    session.close()


TEMPLATE = "{% for message in messages %}{{ message.content }}{% if 'refuse' in message.content %}" \
    "{{ raise_exception('I refuse') }}{% endif %}{% endfor %}"  # fmt: skip


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """A target of random weights on this machine, and a copy in Q4_0, which agrees with it now and then."""
    place = tmp_path_factory.mktemp("pair")
    target = write_model(place / "target.gguf", template=TEMPLATE)
    quantise(target, place / "draft.gguf", "Q4_0")
    return Setup(model=str(target), draft=str(place / "draft.gguf"), ctx_size=256, threads=1, no_profile="on")


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started have a llama.cpp with RPC."""
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(LIBRARIES))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIBRARIES))
