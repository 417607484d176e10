"""llama.cpp's RPC server on loopback, and one that only says hello."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from spectui.llama.devices.rpc import problems
from tests.helpers.peers import BIN, NOT_THERE

LIBRARIES = BIN
PROGRAM = LIBRARIES / "ggml-rpc-server"

needs_server = pytest.mark.skipif(not PROGRAM.exists(), reason=NOT_THERE)


def free_address() -> str:
    """An address of this machine where nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


class Server:
    """A server in a process of its own."""

    def __init__(self) -> None:
        self.address = free_address()
        port = self.address.partition(":")[2]
        self.process = subprocess.Popen(
            [PROGRAM, "-p", port, "-t", "1"],
            env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while problems([self.address]):
            assert self.process.poll() is None, "the server did not start"

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@contextmanager
def fake_server(
    answer: bytes | None, before: Callable[[], object] = lambda: None, kept: list[socket.socket] | None = None
) -> Iterator[str]:
    """The address of a server that answers HELLO with these bytes; None: with nothing, while it keeps the connection.

    It calls `before` ahead of its answer. `kept`: gets its connections, and then it answers nothing else and keeps them.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    hangs, kept = kept is not None, [] if kept is None else kept

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                kept.append(connection)
                if answer is not None:
                    with suppress(OSError):  # who has read the answer may have reset the connection
                        connection.recv(64)
                        before()
                        connection.sendall(answer)
                        if not hangs:
                            connection.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for connection in kept:
            connection.close()


def hello(major: int, minor: int) -> bytes:
    """What a server of this version of the protocol answers to HELLO."""
    return struct.pack("<QBBBB", 28, major, minor, 0, 0) + bytes(24)
