"""The process that makes a plan: why it may give none, and when it ends."""

import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from spectui.engine.loading.plan import PlacementError, make_plan
from spectui.errors import SpectuiError
from spectui.llama.devices.rpc import PROTOCOL
from tests.engine.waiting import PATIENCE
from tests.helpers.rpc_server import fake_server, hello, needs_server
from tests.helpers.smollm2 import whole_alone

ABORT = """
import ctypes
from spectui.engine.loading import simulation
from spectui.llama.library import symbol

abort = symbol("ggml_abort", None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)
simulation.answer = lambda *question: abort(b"ggml.c", 1, {words})
simulation.main()
"""


@pytest.mark.parametrize(
    ("words", "kind", "sentence"),
    [
        (b"GGML_ASSERT(reg) failed", PlacementError, "cannot place the models so (GGML_ASSERT(reg) failed): choose -sm layer"),
        (b"pre-allocated tensor (cache_k_l0) in a buffer (Vulkan0) that cannot run the operation (NONE)", PlacementError,
         "cannot place the models so (pre-allocated tensor (cache_k_l0)"),
        (b"CUDA error", SpectuiError, "cannot be told: llama.cpp ended while it was asked (CUDA error)."),
    ],
)  # fmt: skip
def test_an_assertion_refuses_a_placement_and_a_driver_that_fails_does_not(
    monkeypatch: pytest.MonkeyPatch, words: bytes, kind: type[SpectuiError], sentence: str
):
    """A card that is full now may have room when the models are freed."""
    monkeypatch.setattr("spectui.engine.loading.plan._COMMAND", [sys.executable, "-c", ABORT.format(words=words)])
    with pytest.raises(SpectuiError) as caught:
        make_plan(replace(whole_alone(), split_mode="tensor"))
    assert type(caught.value) is kind
    assert sentence in str(caught.value)


def test_without_memory_for_a_thread_there_is_no_plan(monkeypatch: pytest.MonkeyPatch):
    """Loading then says what there is too little memory for."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(SpectuiError, match="cannot be told"):
        make_plan(whole_alone())


@needs_server
def test_a_plan_ends_with_the_process_that_asked_for_it(remote: None):
    """Also where it waits for a server that hangs, which would find it in use ever after."""
    connections: list[socket.socket] = []
    both = threading.Event()  # the one that asks whether it can be used, and ggml's

    def asked() -> None:
        if len(connections) == 2:
            both.set()

    with fake_server(hello(*PROTOCOL), asked, connections) as address:
        ask = f"from spectui.engine.loading.plan import *\nmake_plan(Setup(model='none', rpc={address!r}))"
        asker = subprocess.Popen([sys.executable, "-c", ask])
        assert both.wait(PATIENCE)
        asker.kill()
        asker.wait()
        connections[1].settimeout(PATIENCE)
        with suppress(ConnectionResetError):
            while connections[1].recv(64):
                pass
