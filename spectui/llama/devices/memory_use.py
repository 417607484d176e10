"""How much memory a model and its context take on each device: simulated before loading, and as logged after it.

`llama_get_memory_breakdown` answers for a model that was loaded with `no_alloc`: exact sizes, nothing allocated, in 0.2 s. It
returns a std::map, which is read here as libstdc++ (Linux) and libc++ (macOS) lay it out. So call `simulated` only in a
process whose crash does no harm. The log has the sizes of a loaded model on every system.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from spectui.errors import SpectuiError
from spectui.kernels.plugin import DEVICE
from spectui.llama.devices.listing import device_name, list_names, server_buffers
from spectui.llama.devices.records import MemoryUse, added
from spectui.llama.library import symbol

HOST = "CPU"
"""ggml's name of the CPU's device; buffers of no other device count as its."""

_TOGETHER = "Meta"
"""Begins the name of the device that split mode tensor makes of several GPUs."""

_BREAKDOWN = "_Z26llama_get_memory_breakdownPK13llama_context"
_LINE = re.compile(r"\s(\S+)\s+(model|KV|RS|compute) buffer size =\s*([\d.]+) MiB")
_OUTPUT = re.compile(r"output buffer size =\s*([\d.]+) MiB")
_PART = {"model": "weights", "KV": "cells", "RS": "cells", "compute": "compute"}


def logged(lines: Iterable[str]) -> tuple[MemoryUse, ...]:
    """The sizes that llama.cpp logged while it loaded a model or created a context."""
    sizes: list[MemoryUse] = []
    compute: dict[str, MemoryUse] = {}
    for line in lines:
        match = _LINE.search(line)
        if match is None:
            continue
        size = round(float(match[3]) * 2**20)
        use = MemoryUse(_device_of(match[1]), **{_PART[match[2]]: size})
        if match[1].endswith("_Mapped"):
            use = use._replace(mapped=size)
        if match[2] == "compute":
            compute[match[1]] = use  # a buffer that was made again replaces the one before
        else:
            sizes.append(use)
    return added([*sizes, *compute.values()])


def divided(uses: Iterable[MemoryUse], shares: Mapping[str, float], whole: bool = False) -> tuple[MemoryUse, ...]:
    """The uses with those of the GPUs of split mode tensor, which llama.cpp does not tell apart, divided among them.

    `shares`: GPU -> its share; {} in other split modes. `whole`: the sizes are those of undivided tensors, as a simulation has
    them; else those of the GPU with the largest share, as the log has them. The buffer for computing has one size on each.
    """
    found = []
    for use in uses:
        if not use.device.startswith(_TOGETHER):
            found.append(use)
            continue
        of = sum(shares.values()) if whole else max(shares.values(), default=1.0)
        for name, share in shares.items():
            weights, cells = (round(part * share / of) for part in (use.weights, use.cells))
            found.append(MemoryUse(name, weights, cells, use.compute))
    return added(found)


def logged_weights(
    lines: Iterable[str], n_bytes: int, tied: int, shares: Mapping[str, float] = MappingProxyType({})
) -> tuple[MemoryUse, ...]:
    """The sizes that llama.cpp logged while it loaded a model whose tensors have `n_bytes` in all.

    For a mapped file it logs the range that is mapped, with all that lies between: tensors that were copied to GPUs, or
    repacked. So the host has what the GPUs do not have, if that is less, but at least what was repacked. `tied`: bytes of an
    embedding that is the output too; then the host keeps one and a GPU gets another, or it is repacked. `shares`: as in
    `divided`.
    """
    uses = divided(logged(lines), shares)
    on_gpus = sum(use.weights for use in uses if use.device != HOST)
    rest = n_bytes - on_gpus + (tied if on_gpus else 0)

    def on_host(use: MemoryUse) -> MemoryUse:
        repacked = use.weights - use.mapped
        twice = tied if not on_gpus and repacked > rest - tied else 0
        weights = max(repacked, min(use.weights, max(0, rest) + twice))
        return use._replace(weights=weights, mapped=weights - repacked)

    return tuple(on_host(use) if use.device == HOST else use for use in uses)


def logged_output(lines: Iterable[str], rows: int, more: int) -> MemoryUse:
    """What the results of passes of `rows` rows take in the host's memory: the logits and what a device keeps of each row, and
    so many bytes `more`.

    llama.cpp logs the buffer when it has room for one row, and makes it larger, unlogged, when a pass needs more.
    """
    of_one = next((float(match[1]) * 2**20 for line in lines if (match := _OUTPUT.search(line))), 0.0)
    return MemoryUse(HOST, compute=round(of_one * rows) + more)


def _device_of(buffer: str) -> str:
    """The device whose name a buffer's begins with, as CUDA0 and CUDA0_Split do, unlike CUDA_Host; or that of a server."""
    if buffer.startswith("RPC"):
        return server_buffers().get(buffer, HOST)
    if buffer.startswith(_TOGETHER):
        return _TOGETHER
    for name in list_names():
        rest = buffer.removeprefix(name)
        if rest != buffer and not rest[:1].isalnum():
            return name
    return HOST


_ROOT, _LEFT, _RIGHT = (8, 0, 8) if sys.platform == "darwin" else (16, 16, 24)
"""Byte of a std::map at which its root node is, and bytes of a node at which the next ones are: of libc++, or of libstdc++."""

_ENTRY = 32
"""Byte of a node at which its entry is, in both."""


class _Map(ctypes.Structure):
    """Room for a std::map. As a result it is returned where this machine's calling convention has it: ARM64 has a register of
    its own for the address, and no argument."""

    _fields_ = (("content", ctypes.c_size_t * 6),)


class _Entry(ctypes.Structure):
    """What a node of the map holds: a buffer type, and what a context takes of it (llama_memory_breakdown_data)."""

    _fields_ = (
        ("buffer", ctypes.c_void_p),
        ("weights", ctypes.c_size_t),
        ("cells", ctypes.c_size_t),
        ("compute", ctypes.c_size_t),
    )


def simulated(context: Any) -> tuple[MemoryUse, ...]:
    """What a context (llama_context *) and its model take, or would take if the model was loaded with `no_alloc`.

    Raises SpectuiError where this build of llama.cpp cannot be asked.
    """
    try:
        breakdown = symbol(_BREAKDOWN, _Map, ctypes.c_void_p)
    except AttributeError:
        raise SpectuiError("This build of llama.cpp cannot be asked how much memory a model will take.") from None
    breakdown_map = breakdown(ctypes.cast(context, ctypes.c_void_p))
    is_host = symbol("ggml_backend_buft_is_host", ctypes.c_bool, ctypes.c_void_p)
    device_of = symbol("ggml_backend_buft_get_device", ctypes.c_void_p, ctypes.c_void_p)

    def nodes(address: int | None) -> Iterator[MemoryUse]:
        if not address:
            return
        yield from nodes(ctypes.c_void_p.from_address(address + _LEFT).value)
        entry = _Entry.from_address(address + _ENTRY)
        device = None if is_host(entry.buffer) else device_of(entry.buffer)
        name = device_name(device) if device else HOST
        yield MemoryUse(HOST if name == DEVICE else name, entry.weights, entry.cells, entry.compute)
        yield from nodes(ctypes.c_void_p.from_address(address + _RIGHT).value)

    return added(nodes(ctypes.c_void_p.from_buffer(breakdown_map, _ROOT).value))
