"""The devices that a role runs on, read from llama.cpp's flags, and the flags after a device is picked or named in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from spectui.chat.figures.format import size
from spectui.chat.session import ChatSession
from spectui.engine.events import Device, ModelInfo
from spectui.errors import UsageError
from spectui.knobs import Setup

Role = Literal["device", "device_draft"]
_LAYERS: dict[Role, str] = {"device": "gpu_layers", "device_draft": "gpu_layers_draft"}
_SPLITS: dict[Role, str] = {"device": "tensor_split", "device_draft": "tensor_split_draft"}
ROLES: dict[str, Role] = {"target": "device", "draft": "device_draft"}
"""Name of a model -> its role."""


def selectable(device: Device) -> bool:
    """Whether a model can be placed there. Accelerators of the CPU (BLAS, AMX) are used automatically."""
    return device.kind in ("cpu", "gpu", "igpu")


def used_memory(device: Device, models: Iterable[ModelInfo]) -> int | None:
    """Bytes that are used of a device's memory, by ggml, or those that the models take there where that is more: some drivers,
    and RPC servers on a CPU, report all memory as free whatever is taken. None for a device without memory of its own."""
    taken = sum(use.total for model in models for use in model.memory if use.device == device.name)
    return max(device.total - device.free, taken) if device.total else None


def chosen(setup: Setup, role: Role, devices: Sequence[Device], model: ModelInfo | None = None) -> frozenset[str]:
    """The names of the devices that a role uses.

    An empty flag means all GPUs for the target, one for the draft, and the CPU where there is none. `model`: the role's loaded
    model, which tells which one.
    """
    cpus = frozenset(device.name for device in devices if device.kind == "cpu")
    flag = getattr(setup, role)
    if flag == "none" or getattr(setup, _LAYERS[role]) == 0:
        return cpus
    if flag:
        return frozenset(name.strip() for name in flag.split(",") if name.strip())
    weights = frozenset(use.device for use in model.memory if use.weights) - cpus if model is not None else None
    if weights:
        return weights
    gpus = frozenset(device.name for device in devices if device.kind == "gpu")
    return gpus or frozenset(device.name for device in devices if device.kind == "igpu") or cpus


def pick(setup: Setup, role: Role, name: str, devices: Sequence[Device]) -> Setup:
    """The set-up after a device was picked. For the target a GPU is added or removed; for the draft it replaces the other
    one; the CPU replaces all GPUs. Unchanged if there is nothing to choose."""
    kind = next(device.kind for device in devices if device.name == name)
    now = chosen(setup, role, devices)
    none: dict[str, Any] = {role: "none"}
    if kind == "cpu":
        return setup if name in now else replace(setup, **none)
    gpus = [device.name for device in devices if device.kind in ("gpu", "igpu")]
    if role == "device_draft":
        then = [] if now == {name} else [name]
    else:
        then = [other for other in gpus if (other in now) != (other == name)]
    if not then:
        return replace(setup, **none)
    changes: dict[str, Any] = {role: ",".join(then), _SPLITS[role]: ""}  # the old shares belong to other GPUs
    if getattr(setup, _LAYERS[role]) == 0:
        changes[_LAYERS[role]] = -1
    return replace(setup, **changes)


def devices(session: ChatSession, words: str) -> str:
    """Say or choose what the models run on."""
    models = session.models
    selectables = [device for device in models.devices if selectable(device)]
    if not words:
        loaded = dict(zip(ROLES, (models.target, models.draft), strict=True))
        used = {word: chosen(session.setup, role, models.devices, loaded[word]) for word, role in ROLES.items()}
        used["draft"] = used["draft"] if session.setup.draft is not None else frozenset()
        return "\n".join(
            f"{device.name} {device.description}, {size(device.free)} of {size(device.total)} free: "
            f"{' and '.join(word for word, names in used.items() if device.name in names) or 'no model'}."
            for device in selectables
        )
    word, _, name = words.partition(" ")
    names = {device.name.casefold(): device.name for device in selectables}
    if word not in ROLES or name.strip().casefold() not in names:
        raise UsageError("/devices takes target or draft and a device of the list.")
    models.change(pick(models.setup, ROLES[word], names[name.strip().casefold()], models.devices))
    return ""
