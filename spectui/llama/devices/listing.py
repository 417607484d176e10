"""ggml's devices and their buffers: which exist, how much memory is free, and which one a name means."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from spectui.errors import UsageError
from spectui.kernels.plugin import DEVICE
from spectui.llama.cpu.quota import free_memory
from spectui.llama.devices.records import Device
from spectui.llama.library import symbol
from spectui.paths import program

_KINDS = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel"}

_VARIABLES = "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GGML_VK_VISIBLE_DEVICES GGML_OP_OFFLOAD_MIN_BATCH"
"""Environment variables that choose among the GPUs, so that one name may mean different cards, and passes for them."""


class _Properties(ctypes.Structure):
    """ggml_backend_dev_props (ggml-backend.h), 56 bytes."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("device_id", ctypes.c_char_p),
        ("capabilities", ctypes.c_bool * 5),
    )


_count = symbol("ggml_backend_dev_count", ctypes.c_size_t)
_get = symbol("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
_name = symbol("ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p)
_description = symbol("ggml_backend_dev_description", ctypes.c_char_p, ctypes.c_void_p)
_type = symbol("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
_buffer_type = symbol("ggml_backend_dev_buffer_type", ctypes.c_void_p, ctypes.c_void_p)
_buffer_name = symbol("ggml_backend_buft_name", ctypes.c_char_p, ctypes.c_void_p)
_properties = symbol("ggml_backend_dev_get_props", None, ctypes.c_void_p, ctypes.POINTER(_Properties))

_OPENING = ("CUDA", "ROCm", "MUSA", "SYCL", "CANN")
"""Backends that open a context on a card when they are asked for its memory: 0.3 to 0.5 GB of it, until the process ends."""

_in_use: set[str] = set()
"""The devices that a model was loaded on: their contexts are open."""


def list_devices() -> tuple[Device, ...]:
    """Every device with its memory as it is now. Call it in the thread that computes.

    A card that no model was loaded on is not opened: its memory is as a short process found it, once for each load.
    """
    return tuple(map(_device, device_handles()))


def device_handles() -> Iterator[int]:
    """ggml's handles of all devices, without that of spectui's kernels: it is the CPU."""
    return (handle for handle in map(_get, range(_count())) if device_name(handle) != DEVICE)


def list_names() -> tuple[str, ...]:
    """The names of all devices but the CPU."""
    return tuple(device_name(handle) for handle in device_handles() if _type(handle) != 0)


def server_buffers() -> dict[str, str]:
    """Name of the buffers on each device of an RPC server -> name of the device.

    The buffers are called "RPC0[host:port]" with the device's number on its server. Names count all servers' devices.
    """
    found: dict[str, str] = {}
    counted: dict[str, int] = {}
    for handle in device_handles():
        name = device_name(handle)
        if name.startswith("RPC"):
            server = _text(_description(handle))
            number = counted[server] = counted.get(server, -1) + 1
            found[f"RPC{number}[{server}]"] = name
    return found


def has_gpus() -> bool:
    """Is there a GPU, integrated ones and those of RPC servers too?"""
    return any(_type(handle) in (1, 2) for handle in device_handles())


def device_name(handle: int) -> str:
    """The name of a ggml_backend_dev_t."""
    return _text(_name(handle))


def offloading(devices: Sequence[Device]) -> list[Device]:
    """The devices that llama.cpp uses if none is named: all GPUs, and without one the first integrated GPU."""
    gpus = [device for device in devices if device.kind == "gpu"]
    return gpus or [device for device in devices if device.kind == "igpu"][:1]


def _device(handle: int) -> Device:
    name = device_name(handle)
    kind = _KINDS.get(_type(handle), "accel")
    if name.startswith(_OPENING) and name not in _in_use:
        return next(
            (each for each in survey() if each.name == name), Device(name, _text(_description(handle)).strip(), kind, 0, 0)
        )
    properties = _Properties()
    _properties(handle, ctypes.byref(properties))
    free = properties.memory_free
    if kind == "cpu":  # ggml says that all of the host's memory is free
        free = min(free, free_memory())
    return Device(
        name=name,
        description=_text(properties.description).strip(),
        kind=kind,
        free=free,
        total=properties.memory_total,
        id=_text(properties.device_id).lower() or None,
    )


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def look_again() -> None:
    """Forget what `survey` and the driver said: a load begins, and cards, drivers and memory may be others than at the last."""
    survey.cache_clear()
    _driver.cache_clear()


@cache
def survey() -> tuple[Device, ...]:
    """All devices, as a process of its own sees them; () if it fails. It ends, and so do the contexts that it opened."""
    command = program(__name__)
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=True)
        return tuple(Device(*fields) for fields in json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return ()


def gpu_key() -> tuple[Any, ...]:
    """What identifies the GPUs: names, sizes, driver, and variables about them. () on a machine without one."""
    gpus = [(device.name, device.description, device.total) for device in list_devices() if device.kind != "cpu"]
    if not gpus:
        return ()
    return (*gpus, _driver(), *(os.environ.get(name, "") for name in _VARIABLES.split()))


@cache
def _driver() -> tuple[str, str]:
    """The versions of NVIDIA's driver ("" without one) and of the system, which brings the other drivers."""
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            version = pynvml.nvmlSystemGetDriverVersion()
        finally:
            pynvml.nvmlShutdown()
    except (pynvml.NVMLError, OSError):
        version = ""
    return str(version), platform.release()


def selected(names: str, devices: Sequence[Device], flag: str = "--device") -> list[Device] | None:
    """The GPUs that "CUDA0,CUDA1" means; [] for "none" or "CPU" (no offload), None for "" (llama.cpp decides).

    `flag` is what the names were given with. Raises UsageError if there is no such device.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        return None
    if len(wanted) == 1 and wanted[0].lower() in ("none", "cpu"):
        return []
    by_name = {device.name.lower(): device for device in devices if device.kind != "cpu"}
    for name in wanted:
        if sum(name.lower() == other.lower() for other in wanted) > 1:
            raise UsageError(f"{flag} names {name} twice: name each device once.")
        if name.lower() in ("none", "cpu"):
            raise UsageError(f"{name} stands alone among devices: name GPUs, or {name} without them, not {names!r}.")
        if name.lower() not in by_name:
            known = ", ".join(device.name for device in devices)
            way_on = "name one of them, or leave" if by_name else "leave"
            raise UsageError(f"There is no device {name!r}, only {known}: {way_on} {flag} out to go on without it.")
    return [by_name[name.lower()] for name in wanted]


def handles(devices: Sequence[Device]) -> ctypes.Array[ctypes.c_void_p]:
    """A NULL-terminated ggml_backend_dev_t array. The caller keeps it alive while the model loads."""
    named = {device_name(handle): handle for handle in device_handles()}
    _in_use.update(device.name for device in devices)
    return (ctypes.c_void_p * (len(devices) + 1))(*(named[device.name] for device in devices), None)


class _Override(ctypes.Structure):
    """llama_model_tensor_buft_override."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffers", ctypes.c_void_p))


def tensor_overrides(wanted: Sequence[tuple[str, str]]) -> Any:
    """The array that llama.cpp takes, ended by an empty one, which the caller keeps alive while the model loads.

    `wanted`: (regular expression for tensors' names, name of the buffers). Raises UsageError if there are no such buffers.
    """
    known: dict[str, int] = {}
    for handle in device_handles():
        if buffers := _buffer_type(handle):
            known[_text(_buffer_name(buffers))] = buffers
    found = (_Override * (len(wanted) + 1))()
    for index, (pattern, name) in enumerate(wanted):
        if name not in known:
            raise UsageError(f"There are no buffers {name!r} for the tensors {pattern!r}, only {', '.join(known)}.")
        found[index].pattern, found[index].buffers = pattern.encode(), known[name]
    return found


if __name__ == "__main__":
    _in_use.update(list_names())
    print(json.dumps(list_devices()))
