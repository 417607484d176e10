"""Devices of other machines, through llama.cpp's RPC servers.

ggml ends the process if a server does not answer, is of another version, or goes away. So a server is asked here before ggml
is, and an engine that uses servers runs in a process of its own (`spectui.engine.isolation`). Importing this loads no library.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any

from spectui.errors import LoadError, UsageError
from spectui.knobs import Setup

PROTOCOL = (7, 0)
"""Major and minor version that the pinned llama.cpp speaks (ggml-rpc.h). A server must have the same major one."""

ANSWER_S = 3.0
"""Seconds that a server has to answer."""

_MOST = 16  # GGML_RPC_MAX_SERVERS
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close sends a reset
_HELLO, _CAPABILITIES = 14, 24  # a command of the protocol, and the bytes that follow it
_added: dict[str, int] = {}  # address -> one of its devices


class ServerError(LoadError):
    """A server cannot be used; the models could be loaded without it."""

    without_servers = True


def addresses(text: str) -> list[str]:
    """The servers in "host:port,host:port", each once. Raises UsageError."""
    listed = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for address in listed:
        # llama.cpp looks up IPv4 addresses only.
        match = re.fullmatch(r"[A-Za-z0-9._-]+:([0-9]{1,5})", address)
        if match is None or not 0 < int(match[1]) < 65536:
            raise UsageError(f"rpc is addresses such as 192.168.1.7:50052, with commas, not {address!r}.")
    if len(listed) > _MOST:
        raise UsageError(f"llama.cpp uses at most {_MOST} RPC servers, and rpc names {len(listed)}.")
    return listed


def on_this_machine(address: str) -> bool:
    """Whether this server is a program on this machine, so that it may compute on the same cores. Looks its name up."""
    host = address.partition(":")[0]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))  # an address of another machine cannot be had
        except OSError:
            return False
    return True


def without_servers(setup: Setup) -> Setup:
    """The set-up on the devices of this machine alone."""

    def here(names: str) -> str:
        return ",".join(name for name in names.split(",") if not name.strip().upper().startswith("RPC"))

    # Without its server the draft may have no device of its own, which nobody needs to be told.
    ahead = "auto" if setup.async_draft == "on" else setup.async_draft
    target, draft = here(setup.device), here(setup.device_draft)
    changes: dict[str, Any] = {"rpc": "", "device": target, "device_draft": draft, "async_draft": ahead}
    for suffix, before, now in (("", setup.device, target), ("_draft", setup.device_draft, draft)):
        if not before or now != before:  # what was said of GPUs that are gone; no layers on GPUs stay none
            layers = -1 if getattr(setup, f"gpu_layers{suffix}") else 0
            changes |= {f"tensor_split{suffix}": "", f"main_gpu{suffix}": 0, f"gpu_layers{suffix}": layers}
    return replace(setup, **changes)


def problems(servers: Sequence[str]) -> dict[str, str]:
    """What is wrong with each server that cannot be used: address -> why. Returns within `ANSWER_S` seconds."""
    sentences = dict.fromkeys(servers, "it does not answer")

    def ask(server: str) -> None:
        sentences[server] = _problem(server)

    # A look-up of a name cannot be given a limit, so the threads are not waited for longer.
    threads = [threading.Thread(target=ask, args=(server,), daemon=True) for server in servers]
    deadline = monotonic() + ANSWER_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))
    return {server: sentence for server, sentence in sentences.items() if sentence}


def _problem(server: str) -> str:
    """Why this server cannot be used; "" if it can."""
    host, _, port = server.partition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S / 2)
        # A server that is in use takes the question later, and would be ended by answering it (see `reset_when_closed`).
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        silent, answer = "it does not answer", b""
        try:
            connection.connect((host, int(port)))
            silent += ": another program may be using it, and it serves one at a time"
            connection.sendall(struct.pack("<BQ", _HELLO, _CAPABILITIES) + bytes(_CAPABILITIES))
            while len(answer) < 10:
                more = connection.recv(64)
                if not more:
                    return "it is no RPC server, or one of another version of llama.cpp"
                answer += more
        except TimeoutError:
            return silent
        except OSError as error:
            return error.strerror or str(error)
    size, major, minor = struct.unpack_from("<QBB", answer)
    if size < 3 or size > 1024:
        return "it is no RPC server"
    if major != PROTOCOL[0] or minor > PROTOCOL[1]:
        ours = ".".join(map(str, PROTOCOL))
        return f"it speaks version {major}.{minor} of the protocol, and this llama.cpp {ours}: build both of one version"
    return ""


def reset_when_closed() -> None:
    """Let this process's connections to the servers end with a reset, also where the process is killed.

    A server that answers a connection that was closed otherwise is ended by SIGPIPE: llama.cpp's does not ignore it. Windows
    resets the connections of a killed process anyway.
    """
    ports = {int(server.rpartition(":")[2]) for server in _added}
    with suppress(FileNotFoundError):
        for name in os.listdir("/dev/fd") if ports else ():
            with suppress(OSError):  # it is no connection
                connection = socket.socket(fileno=int(name))
                try:
                    if connection.family == socket.AF_INET and connection.getpeername()[1] in ports:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                finally:
                    connection.detach()  # it is ggml's


def add_servers(text: str) -> None:
    """Make the devices of these servers known to ggml, once in a process. Raises UsageError, or ServerError.

    Call it in the thread that computes.
    """
    new = [server for server in addresses(text) if server not in _added]
    if not new:
        return
    from spectui.llama.library import symbol

    add, register = _functions()
    if unusable := problems(new):
        (server, problem), *others = unusable.items()
        also = "".join(f", nor can {other} ({why})" for other, why in others)
        raise ServerError(
            f"The RPC server {server} cannot be used ({problem}){also}: start ggml-rpc-server there, or leave out --rpc."
        )
    for server in new:
        added = add(server.encode())
        if not added:
            raise ServerError(f"The RPC server {server} has no devices: start ggml-rpc-server there with some.")
        register(added)
        _added[server] = symbol("ggml_backend_reg_dev_get", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(added, 0)


def synchronise() -> None:
    """Return when every server has computed what it was sent: llama_synchronize returns when it is sent.

    A server answers in order, so it is asked something, which takes a tenth of a millisecond on loopback.
    """
    from spectui.llama.library import symbol

    sizes = ctypes.c_size_t(), ctypes.c_size_t()
    ask = symbol("ggml_backend_dev_memory", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    for device in _added.values():
        ask(device, ctypes.byref(sizes[0]), ctypes.byref(sizes[1]))


def _functions() -> tuple[Any, Any]:
    """ggml's functions that find the devices of a server, and that add them to the others. Raises ServerError."""
    from spectui.llama.build import rebuild_command
    from spectui.llama.library import symbol

    backend = symbol("ggml_backend_reg_by_name", ctypes.c_void_p, ctypes.c_char_p)(b"RPC")
    find = symbol("ggml_backend_reg_get_proc_address", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    address = find(backend, b"ggml_backend_rpc_add_server") if backend else None
    if not address:
        raise ServerError(f"This build of llama.cpp has no RPC, which --rpc needs. Rebuild it: {rebuild_command('RPC')}")
    add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(address)
    return add, symbol("ggml_backend_register", None, ctypes.c_void_p)
