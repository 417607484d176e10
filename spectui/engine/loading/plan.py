"""What a set-up will take on each device, before anything is loaded, and whether it fits."""

from __future__ import annotations

import pickle
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from spectui.errors import SpectuiError
from spectui.knobs import Setup
from spectui.llama.devices.records import Device, MemoryUse, added
from spectui.paths import program

_BOUND_S = 120
"""Seconds after which a plan is given up. One takes 0.5 s."""

_COMMAND = program("spectui.engine.loading.simulation")

_REFUSALS = ("GGML_ASSERT", "pre-allocated tensor")
"""How ggml's last words begin where the placement is to blame: the latter if the cells of a layer are too many for a GPU."""

_MIB = 2**20

PlanInWords = Callable[[Setup, Sequence[MemoryUse]], str]
"""A function that says in a line what a set-up would take if it replaced the loaded models."""


class PlacementError(SpectuiError):
    """With this placement llama.cpp ends its process at an assertion."""


class MemoryPlan(NamedTuple):
    """Memory per device of a target and its draft, in bytes, and what is free on the `devices`.

    `setup`: with the numbers of layers and the draft's device that automatic choices led to. `layers` and `layers_draft`: how
    many of how many are on GPUs. `states`: those of conversations that stay read, if a person has named how much they may take.
    """

    setup: Setup
    devices: tuple[Device, ...]
    target: tuple[MemoryUse, ...]
    draft: tuple[MemoryUse, ...] = ()
    layers: tuple[int, int] = (0, 0)
    layers_draft: tuple[int, int] = (0, 0)
    states: tuple[MemoryUse, ...] = ()

    @property
    def missing(self) -> dict[str, int]:
        """Device -> bytes that it lacks; {} if everything fits."""
        return shortage([*self.target, *self.draft, *self.states], self.devices)

    def sentence(self) -> str:
        """Whether it fits; if not, the flags that may help."""
        if not self.missing:
            return "It fits."
        lacks = " and ".join(f"{name} lacks {bytes // _MIB + 1:,} MiB" for name, bytes in self.missing.items())
        gpus = any(device.kind != "cpu" for device in self.devices if device.name in self.missing)
        fewer = "fewer layers on GPUs (-ngl, -ngld), " if gpus else ""
        return (
            f"It does not fit, {lacks}: choose {fewer}a smaller -c, smaller cells (-ctk q8_0 -ctv q8_0), or a smaller "
            "model or quantisation."
        )

    def brief(self) -> str:
        """What each device needs and has free, in GB as the window has them, and whether it fits, in a line."""
        uses = added([*self.target, *self.draft, *self.states])
        free = {device.name: device.free for device in self.devices}
        needs = ", ".join(f"{use.device} {use.total / 1e9:.1f} of {free.get(use.device, 0) / 1e9:.1f} GB" for use in uses)
        return f"{needs}. {self.sentence()}"


def shortage(uses: Iterable[MemoryUse], devices: Iterable[Device]) -> dict[str, int]:
    """Device -> bytes that it lacks for these uses. What a GPU takes of unified memory counts as the host's too.

    Such a GPU may take a part of the host's memory only: `free` of it is that part.
    """
    free = {device.name: device.free for device in devices if device.total}
    host = next((device.name for device in devices if device.kind == "cpu"), "")
    unified = {device.name for device in devices if device.unified}
    taken: dict[str, int] = {}
    for use in uses:
        for name in (use.device, host) if use.device in unified else (use.device,):
            taken[name] = taken.get(name, 0) + use.total
    return {name: bytes - free[name] for name, bytes in taken.items() if name in free and bytes > free[name]}


def way_out(setup: Setup) -> str:
    """What to do if llama.cpp ends its process when it loads this set-up: the end of a sentence."""
    flags = [flag for flag, mode in (("-sm", setup.split_mode), ("-smd", setup.split_mode_draft)) if mode in ("row", "tensor")]
    if flags:
        return f"choose {' and '.join(f'{flag} layer' for flag in flags)}, which divides models among all kinds of devices"
    return "choose another device (-dev), fewer layers on it (-ngl), or a smaller -c"


def on_servers(uses: Iterable[MemoryUse]) -> bool:
    """Whether a part is on an RPC server, which then answers no other process."""
    return any(use.device.startswith("RPC") for use in uses)


def make_plan(setup: Setup, freed: Iterable[MemoryUse] = ()) -> MemoryPlan:
    """The plan, made by a process of its own: it opens GPUs, and llama.cpp may end it. Any thread may call this.

    `freed`: what is loaded now and will be freed before. Raises SpectuiError, UsageError for settings that cannot be, and
    PlacementError.
    """
    try:
        answer = pickle.loads(_ask(pickle.dumps((setup, tuple(freed)))))
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):  # RuntimeError: there is no memory for a thread
        raise SpectuiError("What this would take cannot be told: llama.cpp ended while it was asked.") from None
    if isinstance(answer, SpectuiError):
        raise answer
    if isinstance(answer, MemoryPlan):
        return answer
    # A driver that fails while the loaded models fill its card says something else, and may not fail without them.
    if answer.startswith(_REFUSALS):
        raise PlacementError(f"llama.cpp cannot place the models so ({answer}): {way_out(setup)}.")
    raise SpectuiError(f"What this would take cannot be told: llama.cpp ended while it was asked ({answer}).")


def _ask(question: bytes) -> bytes:
    """The simulation's answer; nothing if it gives none in time.

    Its standard input stays open: where this process ends, it closes, and so the simulation ends too, also if it waits for a
    server that hangs.
    """
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        bound = threading.Timer(_BOUND_S, process.kill)
        bound.daemon = True
        bound.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(question)
            process.stdin.flush()
            return process.stdout.read()
        finally:
            bound.cancel()


def plan_in_words(setup: Setup, freed: Iterable[MemoryUse] = ()) -> str:
    """The plan in a line, or why there is none. Takes a second or more: do not call it in the window's thread."""
    freed = tuple(freed)
    if setup.rpc and on_servers(freed):
        return "What this would take is not known before it is loaded: the RPC server answers the loaded models alone."
    try:
        return make_plan(setup, freed).brief()
    except SpectuiError as error:
        return str(error)
