"""ggml's devices: which exist, how much memory is free, and which one a name means."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

from spectui.errors import UsageError
from spectui.llama.library import symbol
from spectui.llama.records import Device

_KINDS = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel"}

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
"""Environment variables that choose among the GPUs, so that one name may mean different cards."""


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
_properties = symbol("ggml_backend_dev_get_props", None, ctypes.c_void_p, ctypes.POINTER(_Properties))


def list_devices() -> tuple[Device, ...]:
    """Every device with its memory as it is now. Call it in the thread that computes."""
    devices = []
    for index in range(_count()):
        properties = _Properties()
        _properties(_get(index), ctypes.byref(properties))
        devices.append(
            Device(
                name=(properties.name or b"").decode("utf-8", "replace"),
                description=(properties.description or b"").decode("utf-8", "replace").strip(),
                kind=_KINDS.get(properties.type, "accel"),
                free=properties.memory_free,
                total=properties.memory_total,
                id=properties.device_id.decode("utf-8", "replace").lower() if properties.device_id else None,
            )
        )
    return tuple(devices)


def gpu_key() -> tuple[Any, ...]:
    """What identifies the GPUs: names, sizes, driver, and which of them are visible. () on a machine without one."""
    gpus = [(device.name, device.description, device.total) for device in list_devices() if device.kind != "cpu"]
    if not gpus:
        return ()
    return (*gpus, _driver(), *(os.environ.get(name, "") for name in _VISIBLE))


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
        if name.lower() in ("none", "cpu"):
            raise UsageError(f"{name} stands alone among devices: name GPUs, or {name} without them, not {names!r}.")
        if name.lower() not in by_name:
            known = ", ".join(device.name for device in devices)
            way_on = "name one of them, or leave" if by_name else "leave"
            raise UsageError(f"There is no device {name!r}, only {known}: {way_on} {flag} out to go on without it.")
    return [by_name[name.lower()] for name in wanted]


def handles(devices: Sequence[Device]) -> ctypes.Array[ctypes.c_void_p]:
    """A NULL-terminated ggml_backend_dev_t array. The caller keeps it alive while the model loads."""
    names = [device.name for device in list_devices()]
    return (ctypes.c_void_p * (len(devices) + 1))(*(_get(names.index(device.name)) for device in devices), None)
