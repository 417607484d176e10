"""The devices that a role runs on, read from llama.cpp's flags, and the flags after a device is picked or named in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from spectui.chat.figures.format import size
from spectui.chat.session import ChatSession
from spectui.engine.events import Device, ModelInfo
from spectui.engine.loading.lists import shares
from spectui.errors import UsageError
from spectui.knobs import Setup

Role = Literal["device", "device_draft"]
_LAYERS: dict[Role, str] = {"device": "gpu_layers", "device_draft": "gpu_layers_draft"}
_MODES: dict[Role, str] = {"device": "split_mode", "device_draft": "split_mode_draft"}
SPLITS: dict[Role, str] = {"device": "tensor_split", "device_draft": "tensor_split_draft"}
"""The setting with a role's shares."""
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
        return frozenset(flag_names(flag))
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
    if kind == "cpu":
        return setup if name in now else _changed(setup, {role: "none"})
    gpus = [device.name for device in devices if device.kind in ("gpu", "igpu")]
    if role == "device_draft":
        then = [] if now == {name} else [name]
    else:
        then = [other for other in gpus if (other in now) != (other == name)]
    if not then:
        return _changed(setup, {role: "none"})
    changes: dict[str, str | int] = {role: ",".join(then)}
    if getattr(setup, _LAYERS[role]) == 0:
        changes[_LAYERS[role]] = -1
    changes[SPLITS[role]] = ""  # the old shares belong to other GPUs
    return _changed(setup, changes)


def sharing(setup: Setup, role: Role, devices: Sequence[Device]) -> list[str]:
    """The GPUs that share a role's model, in the order of its tensor split; [] if there are fewer than two.

    A draft shares none but those that are named.
    """
    if getattr(setup, _LAYERS[role]) == 0 or getattr(setup, _MODES[role]) == "none":
        return []
    if role == "device_draft" and setup.draft is None:
        return []
    gpus = {device.name.casefold(): device.name for device in devices if device.kind in ("gpu", "igpu")}
    flag = getattr(setup, role)
    names = [gpus[name.casefold()] for name in flag_names(flag) if name.casefold() in gpus]
    if role == "device" and not flag:
        names = [device.name for device in devices if device.kind == "gpu"]
    return names if len(names) > 1 else []


def flag_names(flag: str) -> list[str]:
    """The names of devices in a flag's value."""
    return [name.strip() for name in flag.split(",") if name.strip()]


def _changed(setup: Setup, changes: Mapping[str, Any]) -> Setup:
    return dataclasses.replace(setup, **changes)


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
    if word == "split":
        return _split(session, name.strip())
    names = {device.name.casefold(): device.name for device in selectables}
    if word not in ROLES or name.strip().casefold() not in names:
        raise UsageError("/devices takes target or draft and a device of the list, or split and shares such as 3,1.")
    models.change(pick(models.setup, ROLES[word], names[name.strip().casefold()], models.devices))
    return ""


def _split(session: ChatSession, text: str) -> str:
    first, _, rest = text.partition(" ")
    name, text = (first, rest.strip()) if first in ROLES else ("target", text)
    models = session.models
    gpus = sharing(session.setup, ROLES[name], models.devices)
    if not gpus:
        raise UsageError(f"The {name} is not on several GPUs, so it has no shares.")
    if text and len(shares(text)) != len(gpus):
        raise UsageError(
            f"/devices split takes {len(gpus)} shares, for {', '.join(gpus)}; without any it lets llama.cpp choose."
        )
    split: dict[str, Any] = {SPLITS[ROLES[name]]: text}
    models.change(dataclasses.replace(models.setup, **split))
    return ""
