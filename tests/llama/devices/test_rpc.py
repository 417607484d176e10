"""RPC servers are asked before ggml is, because ggml ends the process where one cannot be used."""

import signal
import socket
import struct
import threading
from dataclasses import replace
from time import monotonic

import pytest

from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.llama.build import backends
from spectui.llama.devices import rpc
from spectui.llama.devices.rpc import (
    PROTOCOL,
    ServerError,
    add_servers,
    addresses,
    on_this_machine,
    problems,
    reset_when_closed,
    without_servers,
)
from tests.helpers.rpc_server import Server, fake_server, free_address, hello, needs_server

PATIENCE = 60.0
HELLO, MEMORY = 14, 11  # commands of the protocol


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for servers that say nothing half a second only."""
    monkeypatch.setattr(rpc, "ANSWER_S", 0.5)


def test_addresses():
    assert addresses("") == []
    assert addresses("a:1, b.example:50052,a:1") == ["a:1", "b.example:50052"]
    assert len(addresses(",".join(f"a:{port}" for port in range(1, 17)))) == 16


@pytest.mark.parametrize(
    "text", ["a", ":1", "a:", "a:x", "a:0", "a:65536", "a:1:2", "[::1]:1", "a b:1", "a:1;b:1", "a:\u0663", "\u00e4:1"]
)
def test_addresses_that_are_none(text):
    with pytest.raises(UsageError, match="rpc is addresses such as"):
        addresses(text)


def test_more_servers_than_llama_cpp_uses():
    with pytest.raises(UsageError, match="at most 16"):
        addresses(",".join(f"a:{port}" for port in range(1, 18)))


@needs_server
def test_the_real_server_speaks_the_version_that_is_expected():
    with Server() as server:
        assert problems([server.address]) == {}
    assert problems([server.address]) == {server.address: "Connection refused"}


@needs_server
def test_a_server_in_use_lives_on_after_it_was_asked(quick: None):
    """It answers when the one that uses it has left, and nobody waits for that any more."""
    with Server() as server:
        with asked(server):
            assert "another program may be using it" in problems([server.address])[server.address]
        answers_again(server)


@needs_server
@pytest.mark.parametrize("resets", [True, False])
def test_a_server_outlives_a_killed_process_that_it_was_to_answer(monkeypatch: pytest.MonkeyPatch, resets: bool):
    """Without the reset llama.cpp's server is ended; the day that this changes, the reset can go."""
    with Server() as server:
        monkeypatch.setattr(rpc, "_added", {server.address: 0})
        with asked(server) as connection:
            if resets:
                reset_when_closed()
            server.process.send_signal(signal.SIGSTOP)
            connection.sendall(struct.pack("<BQI", MEMORY, 4, 0))
        server.process.send_signal(signal.SIGCONT)
        if resets:
            answers_again(server)
        else:
            assert server.process.wait(PATIENCE) == -signal.SIGPIPE


def asked(server: Server) -> socket.socket:
    """A connection that the server has accepted."""
    host, _, port = server.address.partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(struct.pack("<BQ24x", HELLO, 24))
    assert len(connection.recv(36, socket.MSG_WAITALL)) == 36
    return connection


def answers_again(server: Server) -> None:
    deadline = monotonic() + PATIENCE
    while problems([server.address]):
        assert server.process.poll() is None and monotonic() < deadline


@pytest.mark.parametrize(("major", "minor"), [(PROTOCOL[0] + 1, 0), (PROTOCOL[0] - 1, 0), (PROTOCOL[0], PROTOCOL[1] + 1)])
def test_another_version(major, minor):
    with fake_server(hello(major, minor)) as address:
        assert f"it speaks version {major}.{minor} of the protocol" in problems([address])[address]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n"])
def test_another_program(answer):
    with fake_server(answer) as address:
        assert problems([address])[address].startswith("it is no RPC server")


def test_servers_that_say_nothing(quick: None):
    with fake_server(None) as one, fake_server(None) as other:
        found = problems([one, other])
    assert set(found) == {one, other}
    assert all("it does not answer" in problem for problem in found.values())


def test_servers_are_asked_at_the_same_time(monkeypatch: pytest.MonkeyPatch):
    """Each of these answers when both were asked."""
    monkeypatch.setattr(rpc, "ANSWER_S", 60.0)
    both_asked = threading.Barrier(2, timeout=PATIENCE).wait
    with fake_server(hello(*PROTOCOL), both_asked) as one, fake_server(hello(*PROTOCOL), both_asked) as other:
        assert problems([one, other]) == {}


def test_a_name_that_is_looked_up_for_ever(quick: None, monkeypatch: pytest.MonkeyPatch):
    hangs = threading.Event()

    class Hanging(socket.socket):
        def connect(self, address: object) -> None:
            hangs.wait()

    monkeypatch.setattr(socket, "socket", Hanging)
    assert problems(["slow.example:1"]) == {"slow.example:1": "it does not answer"}
    hangs.set()


def test_a_build_without_rpc_names_the_command_that_adds_it():
    assert "RPC" not in backends()
    with pytest.raises(ServerError, match=r"no RPC, .* Rebuild it: CMAKE_ARGS='-DGGML_RPC=on' .*'llama-cpp-python==") as found:
        add_servers(free_address())
    assert str(found.value).count("-DGGML") == 1, "the CPU's backend needs no option"


def test_a_set_up_without_the_servers():
    setup = Setup(model="m", rpc="a:1", device="CUDA0,RPC0", device_draft="rpc1", tensor_split="3,1", async_draft="on")
    assert without_servers(setup) == Setup(model="m", device="CUDA0")
    assert without_servers(Setup(rpc="a:1", device="CUDA0,CUDA1", tensor_split="3,1")).tensor_split == "3,1"
    assert without_servers(Setup(rpc="a:1", async_draft="off")).async_draft == "off"
    both = Setup(rpc="a:1", device_draft="CUDA0,CUDA1", tensor_split_draft="3,1")
    assert without_servers(both).tensor_split_draft == "3,1"
    assert without_servers(replace(both, device_draft="CUDA0,RPC0")).tensor_split_draft == ""


def test_what_was_asked_of_servers_is_not_asked_of_the_gpus_that_are_left():
    """The number of a GPU that is gone would be refused, and layers that were divided may not fit on one."""
    there = Setup(rpc="a:1", split_mode="none", main_gpu=1, gpu_layers=-2, main_gpu_draft=1, gpu_layers_draft=20)
    assert without_servers(there) == Setup(split_mode="none")
    named = replace(there, device="CUDA0,CUDA1", device_draft="CUDA0,CUDA1")
    assert without_servers(named) == replace(named, rpc="")
    assert without_servers(replace(there, gpu_layers=0, gpu_layers_draft=0)).gpu_layers == 0


@pytest.mark.parametrize(
    ("address", "here"), [("127.0.0.1:1", True), ("localhost:1", True), ("192.0.2.1:1", False), ("no.such.invalid:1", False)]
)
def test_which_servers_are_on_this_machine(address: str, here: bool) -> None:
    assert on_this_machine(address) is here
