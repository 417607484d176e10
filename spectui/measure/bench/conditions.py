"""The conditions that all runs of a bench share: models, set-up, sampling, seed, length, versions and machine. Other runs are
not comparable."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import spectui
from spectui.config import shown
from spectui.knobs import Knobs, Setup, specs, title
from spectui.llama.build import cpu_name, fingerprint
from spectui.llama.cpu.cores import allowed_cpus
from spectui.measure.bench.settings import SWEPT
from spectui.paths import expanded

_ELSEWHERE = ("model", "draft", "system", "seed", "predict", "server", "server_model", "server_key_file", *SWEPT)
"""Settings that are fields of their own, or in a run's prompt. Runs of several servers stand in one table."""

SERVERS = "servers"
"""The target's name of runs by servers."""

_DEFAULTS = {key: default for owner in (Setup, Knobs) for key, default, _ in specs(owner) if key not in _ELSEWHERE}


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """`target` and `draft` are the names of the files, "" without a draft.

    `predict`: most tokens of a reply. `settings`: those of set-up and sampling that are not the default. `machine`: see
    `machine`. `kernels`: what multiplies the pair's weights, in a sentence; `models`: what was loaded, and where its layers
    are; `devices`: all there are. These three are "" for servers.
    """

    target: str
    draft: str
    seed: int
    predict: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    kernels: str = ""
    models: str = ""
    devices: str = ""


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


def conditions(setup: Setup, knobs: Knobs, loaded: Mapping[str, str]) -> Conditions:
    """Those of runs of this pair. `loaded`: `kernels`, `models` and `devices`."""
    values = {key: getattr(setup if hasattr(setup, key) else knobs, key) for key in _DEFAULTS}
    names = (SERVERS, None) if setup.server else (setup.model, setup.draft)
    target, draft = (expanded(name) if name else None for name in names)
    return Conditions(
        target=target.name if target else "",
        draft=draft.name if draft else "",
        seed=knobs.seed,
        predict=knobs.predict,
        settings={key: value for key, value in values.items() if value != _DEFAULTS[key]},
        machine=machine(),
        **loaded,
    )


def difference(then: Conditions, now: Conditions) -> str:
    """The first difference; "" if there is none."""
    for name in ("target", "draft", "seed", "predict", "kernels", "models", "devices"):
        if getattr(then, name) != getattr(now, name):
            return _worded(name, getattr(then, name), getattr(now, name))
    parts = [(then.machine, now.machine), (_DEFAULTS | dict(then.settings), _DEFAULTS | dict(now.settings))]
    pairs = ((key, before.get(key, ""), after.get(key, "")) for before, after in parts for key in {**before, **after})
    return next((_worded(key, before, after) for key, before, after in pairs if before != after), "")


def _worded(key: str, then: object, now: object) -> str:
    return f"{title(key)} {shown(then) or 'none'}, not {shown(now) or 'none'}"
