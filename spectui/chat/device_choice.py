"""Which devices a role runs on, as llama.cpp's flags say it, and what picking one makes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from spectui.engine.events import Device
from spectui.knobs import Setup

Role = Literal["device", "device_draft"]
_LAYERS: dict[Role, str] = {"device": "gpu_layers", "device_draft": "gpu_layers_draft"}


def selectable(device: Device) -> bool:
    """A model can be put there; an accelerator of the CPU (BLAS, AMX) works along by itself."""
    return device.kind in ("cpu", "gpu", "igpu")


def chosen(setup: Setup, role: Role, devices: Sequence[Device]) -> frozenset[str]:
    """The names of the devices that a role uses: an empty flag means all GPUs, and the CPU where there is none."""
    cpus = frozenset(device.name for device in devices if device.kind == "cpu")
    flag = getattr(setup, role)
    if flag == "none" or getattr(setup, _LAYERS[role]) == 0:
        return cpus
    if flag:
        return frozenset(name.strip() for name in flag.split(","))
    gpus = frozenset(device.name for device in devices if device.kind == "gpu")
    return gpus or frozenset(device.name for device in devices if device.kind == "igpu") or cpus


def pick(setup: Setup, role: Role, name: str, devices: Sequence[Device]) -> Setup:
    """The set-up after a device was picked: a GPU joins or leaves, the CPU takes all. Unchanged where nothing is left
    to choose."""
    kind = next(device.kind for device in devices if device.name == name)
    now = chosen(setup, role, devices)
    if kind == "cpu":
        return setup if name in now else _changed(setup, {role: "none"})
    gpus = [device.name for device in devices if device.kind in ("gpu", "igpu")]
    then = [other for other in gpus if (other in now) != (other == name)]
    if not then:
        return _changed(setup, {role: "none"})
    changes: dict[str, str | int] = {role: ",".join(then)}
    if getattr(setup, _LAYERS[role]) == 0:
        changes[_LAYERS[role]] = -1
    return _changed(setup, changes)


def _changed(setup: Setup, changes: Mapping[str, Any]) -> Setup:
    return dataclasses.replace(setup, **changes)
