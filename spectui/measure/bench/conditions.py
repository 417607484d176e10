"""The conditions that all runs of a bench share: models, set-up, sampling, seed, length, versions and machine. Other runs are
not comparable."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import spectui
from spectui.knobs import Knobs, Setup, specs, title
from spectui.llama.build import cpu_name, fingerprint
from spectui.llama.cpu.cores import allowed_cpus
from spectui.measure.bench.settings import SWEPT

_ELSEWHERE = ("model", "draft", "system", "seed", "predict", "server", "server_model", "server_key_file", *SWEPT)
"""Settings that a run has in fields of their own, or in its prompt. Runs of several servers stand in one table."""

SERVERS = "servers"
"""The target's name of runs by servers."""

_DEFAULTS = {key: default for owner in (Setup, Knobs) for key, default, _ in specs(owner) if key not in _ELSEWHERE}


class Conditions(NamedTuple):
    """`target` and `draft` are the names of the files, "" without a draft, and the sizes are theirs in bytes, 0 if unknown.

    `settings`: those of set-up and sampling that are not the default. `machine`: see `machine`.
    """

    target: str
    draft: str
    seed: int
    predict: int
    target_bytes: int
    draft_bytes: int
    settings: Mapping[str, Any]
    machine: Mapping[str, str]


def machine() -> dict[str, str]:
    """What measures: the program, llama.cpp and its libraries, the processor, its cores and the system."""
    return {
        "spectui": spectui.__version__,
        "llama-cpp-python": version("llama-cpp-python"),
        "llama.cpp's libraries": fingerprint(),
        "CPU": cpu_name(),
        "cores": str(len(allowed_cpus())),
        "system": f"{platform.system()} {platform.machine()}",
    }


def conditions(setup: Setup, knobs: Knobs) -> Conditions:
    """Those of runs of this pair. A draft that is made when the models are loaded has no size before."""
    values = {key: getattr(setup if hasattr(setup, key) else knobs, key) for key in _DEFAULTS}
    names = (SERVERS, None) if setup.server else (setup.model, setup.draft)
    target, draft = (Path(name).expanduser() if name else None for name in names)
    return Conditions(
        target.name if target else "",
        draft.name if draft else "",
        knobs.seed,
        knobs.predict,
        _size(target),
        _size(draft),
        {key: value for key, value in values.items() if value != _DEFAULTS[key]},
        machine(),
    )


def difference(then: Conditions, now: Conditions) -> str:
    """The first difference; "" if there is none."""
    for name in ("target", "draft", "seed", "predict"):
        if getattr(then, name) != getattr(now, name):
            return _worded(name, getattr(then, name), getattr(now, name))
    for role in ("target", "draft"):
        sizes = getattr(then, f"{role}_bytes"), getattr(now, f"{role}_bytes")
        if all(sizes) and sizes[0] != sizes[1]:
            return f"another {role} {getattr(now, role)}, of {sizes[0]} bytes instead of {sizes[1]}"
    for key, value in now.machine.items():
        if (other := then.machine.get(key, "")) != value:
            return f"{key} {other or 'unknown'}, not {value}"
    before, after = (_DEFAULTS | dict(each.settings) for each in (then, now))
    return next((_worded(key, before[key], after.get(key)) for key in before if before[key] != after.get(key)), "")


def _worded(key: str, then: object, now: object) -> str:
    return f"{title(key)} {'none' if then == '' else then}, not {'none' if now == '' else now}"


def _size(file: Path | None) -> int:
    try:
        return file.stat().st_size if file is not None else 0
    except OSError:
        return 0
