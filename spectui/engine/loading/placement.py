"""What a set-up means on this machine: a record of each of its models, with what the set-up leaves open decided."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from spectui.engine.costs.files import MEASURED
from spectui.engine.events import Event, Loading, Notice
from spectui.engine.loading.plan import PlacementError, make_plan, on_servers
from spectui.errors import SpectuiError, UsageError
from spectui.gguf_files.check import metadata_of
from spectui.gguf_files.heads import are_heads
from spectui.gguf_files.metadata import Tensor
from spectui.kernels.plugin import LLAMA_CPP, Kernels, identity
from spectui.knobs import Setup
from spectui.llama.build import build_key
from spectui.llama.cpu import reference_path
from spectui.llama.cpu.cores import fast_cores
from spectui.llama.cpu.quota import cpu_quota
from spectui.llama.devices.listing import gpu_key, list_devices, offloading, selected
from spectui.llama.devices.memory_use import HOST
from spectui.llama.devices.records import Device, MemoryUse, has_own_devices
from spectui.llama.devices.rpc import on_this_machine

_PLAIN_TYPES = ("f16", "bf16", "f32")
"""Types of V cells that do not need flash attention."""

_OWN_TYPES = {"f16", "q8_0"}
"""Types of cells whose flash attention spectui's kernels compute."""

_CHOICES = ("gpu_layers", "gpu_layers_draft", "device_draft", "tensor_split")
"""Settings that automatic choices are made of."""

_SPLIT = ("gpu_layers", "split_mode", "main_gpu", "tensor_split")
_OVERRIDES = ("override_tensor", "n_cpu_moe", "cpu_moe")

_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""The tensors of experts, as llama.cpp finds them (LLM_FFN_EXPS_REGEX, common/common.h)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Placed:
    """The target or the draft of a set-up, as it is loaded on this machine."""

    setup: Setup
    role: str
    """"target" or "draft"."""
    path: str
    """The file that is loaded: of a draft perhaps a copy."""
    heads: bool
    """It is a file of heads that draft for a target, and nothing else."""
    devices: tuple[Device, ...]
    """The GPUs that it uses."""
    threads: int
    kernels: Kernels = LLAMA_CPP

    def of(self, name: str) -> Any:
        """The set-up's value for this role: of `gpu_layers`, a draft's is `gpu_layers_draft`."""
        return getattr(self.setup, f"{name}_draft" if self.role == "draft" else name)

    @property
    def on_cpu(self) -> bool:
        """Whether every layer is computed on the CPU."""
        return not self.devices or self.of("gpu_layers") == 0

    @property
    def overrides(self) -> tuple[tuple[str, str], ...]:
        """llama.cpp's -ot, -ncmoe and -cmoe: (regular expression for tensors' names, name of the buffers). The first that fits
        counts. Raises UsageError."""
        placed = []
        for part in filter(None, (part.strip() for part in self.of("override_tensor").split(","))):
            pattern, equals, buffers = part.partition("=")
            if not (pattern and equals and buffers):
                name = f"override-tensor{'-draft' if self.role == 'draft' else ''}"
                raise UsageError(f"{name} is PATTERN=BUFFER with commas, such as exps=CPU, not {part!r}.")
            placed.append((pattern, buffers))
        placed += [(rf"blk\.{layer}{_EXPERTS}", HOST) for layer in range(self.of("n_cpu_moe"))]
        return (*placed, (_EXPERTS, HOST)) if self.of("cpu_moe") == "on" else tuple(placed)

    @property
    def of_cpu(self) -> tuple[Tensor, ...]:
        """The matrices that the CPU multiplies by: those of layers that are on no GPU, the output being the last, and those
        that overrides leave in the host's memory."""
        file, layers, placed = metadata_of(self.path), self.of("gpu_layers"), self.overrides
        last = file.number("block_count")
        first = last + 1 if self.on_cpu else 0 if layers < 0 else last + 1 - layers

        def on_cpu(matrix: Tensor) -> bool:
            with suppress(re.error):  # llama.cpp says so
                for pattern, buffers in placed:
                    if re.search(pattern, matrix.name):
                        return buffers == HOST
            return (int(matrix.layer) if matrix.layer.isdecimal() else last) < first

        return tuple(filter(on_cpu, file.tensors.matrices))

    @property
    def reads_host(self) -> bool:
        """Whether its GPUs multiply prompts with weights that are in the host's memory: a server's cannot."""
        here = any(not device.name.startswith("RPC") for device in self.computing)
        return here and self.of("split_mode") != "tensor" and metadata_of(self.path).tensors.mappable

    @property
    def computing(self) -> tuple[Device, ...]:
        """The GPUs that compute layers."""
        return self.devices if self.of("gpu_layers") else ()

    @property
    def types(self) -> tuple[str, str]:
        """The types of its K and V cells."""
        return self.of("cache_type_k"), self.of("cache_type_v")

    @property
    def wanted_flash(self) -> str:
        """Flash attention as a person asked for it; a draft's "auto" is the target's."""
        of_draft = self.setup.flash_attn_draft if self.role == "draft" else "auto"
        return self.setup.flash_attn if of_draft == "auto" else of_draft

    @property
    def flash_attn(self) -> str:
        """Flash attention: as it is wanted; where that is open, off for a draft on a CPU with llama.cpp's kernels.

        At 1,000 cells a pass of a 0.5B draft over one token takes 27 ms with ggml's CPU flash attention and 17 ms without;
        heads of 64 are the worst.
        """
        open_choice = self.role == "draft" and self.wanted_flash == "auto" and self.types[1] in _PLAIN_TYPES
        own = bool(self.kernels.set) and set(self.types) <= _OWN_TYPES
        return "off" if open_choice and self.on_cpu and not own else self.wanted_flash

    @property
    def chunk(self) -> int:
        """Tokens of a prompt that are computed at once.

        Without flash attention the scores of a whole chunk are in memory: 120 MB at 512 tokens, and slower than at 128.
        """
        return self.setup.ubatch if self.flash_attn == self.wanted_flash else min(self.setup.ubatch, 128)

    @property
    def rounds_by_threads(self) -> bool:
        """Whether the logits depend on the number of threads: ggml's CPU attention divides the cells of a single row among them
        where llama.cpp has no `reference_path`."""
        divides = reference_path.divides(*self.types) and not reference_path.available()
        return divides and self.wanted_flash != "off"

    @property
    def weights_key(self) -> tuple[Any, ...]:
        """If this changes, the model must be loaded again."""
        placed = (self.of(name) for name in ("device", *_SPLIT, *_OVERRIDES))
        return (*_file(self.path), *placed, self.setup.no_repack)

    @property
    def context_key(self) -> tuple[Any, ...]:
        """If this changes, the context must be created again."""
        size = (self.of("ctx_size"), self.setup.batch, self.setup.ubatch, self.setup.swa_full)
        return (*size, self.setup.threads, self.of("threads"), self.wanted_flash, *self.types)

    @property
    def state_key(self) -> tuple[Any, ...]:
        """What the bits in its cells depend on, beside the tokens."""
        return (measured_with(self.kernels), gpu_key(), self.weights_key, self.context_key, self.flash_attn, self.chunk)

    def costs_key(self, ahead: bool = False) -> tuple[Any, ...]:
        """What its costs on this machine depend on. A target's are compared behind a context, if that has room for it.

        The other model does not matter. `ahead`: a draft computes while the target does.
        """
        room = min(self.setup.ctx_size or MEASURED, MEASURED) if self.role == "target" else 0
        context = (room, self.setup.ubatch, self.setup.swa_full, self.threads_beside(ahead), self.flash_attn, *self.types)
        return (measured_with(self.kernels), gpu_key(), self.weights_key, context)

    def threads_beside(self, ahead: bool) -> int:
        """The number of threads of a draft. `ahead`: it computes while the target does. Two threads that compute with OpenMP
        would slow each other down, and one thread does without it."""
        return 1 if ahead else self.threads

    def _checked(self) -> Placed:
        """Itself, if its GPUs can be used so. Raises UsageError."""
        suffix, written = "-draft" if self.role == "draft" else "", self.of("tensor_split")
        gpus = f"{len(self.devices)} GPU{'s' if len(self.devices) > 1 else ''}"
        split = len(shares(written, f"tensor-split{suffix}"))
        if self.devices and split and split != len(self.devices):
            has = f"{split} share{'s' if split > 1 else ''}"
            raise UsageError(f"tensor-split{suffix} {written} has {has} and the {self.role} uses {gpus}: give one for each.")
        gpu = self.of("main_gpu")
        if self.devices and self.of("split_mode") == "none" and gpu >= len(self.devices):
            raise UsageError(f"There is no main-gpu{suffix} {gpu}: the {self.role} uses {gpus}, counted from 0.")
        return self


@dataclass(frozen=True)
class Resolved:
    """A set-up with its models placed. `draft`: None without one."""

    setup: Setup
    target: Placed
    draft: Placed | None

    @property
    def on_cpu(self) -> bool:
        """Whether both models are computed on the CPU."""
        return self.target.on_cpu and (self.draft is None or self.draft.on_cpu)

    @property
    def target_key(self) -> tuple[Any, ...]:
        """If this changes, the target must be loaded again."""
        return (*self.target.weights_key, self.setup.kernels)

    @property
    def draft_key(self) -> tuple[Any, ...]:
        """If this changes, the draft must be loaded again. It has the size of the target's context."""
        if self.draft is None:
            return ()
        ways = (self.setup.ctx_size, self.setup.requantise_draft, self.setup.async_draft, self.setup.kernels)
        return (*self.draft.weights_key, *self.draft.context_key, *ways)

    def drafts_ahead(self, layers: int, layers_draft: int) -> bool:
        """Whether the draft goes on while the target computes: where each has devices of its own.

        `layers`: that can be on GPUs. Never on the CPU: the threads of two passes wait for each other's there. An RPC server on
        this machine may compute on the CPU too, so that with "auto" it is not the draft's own device where the target computes
        on this CPU.
        """
        wanted, draft = self.setup.async_draft, self.draft
        if draft is None or wanted == "off" or 0 <= self.setup.gpu_layers_draft < layers_draft:
            return False
        target = self.target.computing
        target_here = not target or 0 <= self.setup.gpu_layers < layers or _any_here(target)
        if wanted == "auto" and target_here and _any_here(draft.devices):
            return False
        return has_own_devices(target, draft.devices)


def resolve(setup: Setup) -> Resolved:
    """The set-up's models on this machine. Raises UsageError for a placement that cannot be."""
    target = place_target(setup)
    return Resolved(setup, target, place_draft(setup, setup.draft, target) if setup.draft is not None else None)


def place_target(setup: Setup) -> Placed:
    """The set-up's target on this machine. Raises UsageError for a placement that cannot be."""
    devices = list_devices()
    chosen = selected(setup.device, devices)
    used = tuple(offloading(devices) if chosen is None else chosen)
    return Placed(setup, "target", setup.model or "", False, used, threads(setup.threads))._checked()


def place_draft(setup: Setup, path: str, target: Placed) -> Placed:
    """The draft in this file, or the heads in it or in the target's, on this machine.

    It is on one GPU unless it is told otherwise: the one with the most free memory, and for heads that of the target's last
    layers, whose rows they read. A pass of a draft is short, so that handing its activations from card to card would cost more
    than it gains. Raises UsageError for a placement that cannot be.
    """
    devices, heads = list_devices(), are_heads(metadata_of(path))
    used = selected(setup.device_draft, devices, "--device-draft")
    if used is None:
        most_room = sorted(offloading(devices), key=lambda gpu: -gpu.free)[:1]
        used = _of_last_layers(target) if heads else most_room
    number = threads(setup.threads_draft or setup.threads)
    return Placed(setup, "draft", path, heads, tuple(used), number)._checked()


class AutomaticPlacement:
    """Chooses layers on GPUs, and the draft's GPU, before anything is freed or loaded.

    It remembers what it chose, so that the same set-up is placed the same way while its models are loaded.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._asked: tuple[Any, ...] = ()
        self._planned = Setup()  # the set-up that these choices were made for
        self._chosen: dict[str, Any] = {}

    def place(self, setup: Setup, loaded: Iterable[MemoryUse]) -> Setup:
        """The set-up with its choices made. `loaded`: the memory of what is loaded now, which may be freed.

        Without GPUs there is nothing to choose. A server of llama.cpp answers one process at a time: while models are loaded
        on servers no other process can plan, and what was chosen for the first ones stays. Raises UsageError for a placement
        that cannot be, and PlacementError for one that would end the process.
        """
        resolved = resolve(setup)
        if resolved.on_cpu:
            return setup
        asked = (resolved.target_key, resolved.draft_key, resolved.target.context_key)
        loaded = tuple(loaded)
        if on_servers(loaded):
            same = [key for key in self._chosen if getattr(setup, key) == getattr(self._planned, key)]
            return replace(setup, **{key: self._chosen[key] for key in same}) if setup.device == self._planned.device else setup
        if not loaded or asked != self._asked:
            self._emit(Loading("plan", 0.0))
            try:
                made = make_plan(setup, loaded)
            except PlacementError:
                raise
            except SpectuiError as error:
                _log.info("no plan: %s", error)  # loading tells it, if it fails for the same reason
                return setup
            if made.missing:
                self._emit(Notice(made.sentence()))
            self._asked, self._planned = asked, setup
            self._chosen = {key: getattr(made.setup, key) for key in _CHOICES}
        return replace(setup, **self._chosen)


def shares(text: str, name: str = "tensor-split") -> list[float]:
    """The numbers in "3,1", divided by the largest; llama.cpp accepts slashes too. Raises UsageError, which names the setting
    as `name`."""
    try:
        numbers = [float(part) for part in text.replace("/", ",").split(",") if part.strip()]
    except ValueError:
        numbers = [-1.0]
    if not all(0 <= number < float("inf") for number in numbers) or (numbers and not any(numbers)):
        raise UsageError(f"{name} is numbers from 0 up with commas, not all 0, such as 3,1, not {text!r}.")
    return [number / max(numbers) for number in numbers]  # a number or a sum beyond a C float's would be infinite


def _of_last_layers(target: Placed) -> list[Device]:
    """The GPU that computes the target's last layers, which are the last to stay on the CPU; [] if none does."""
    computing = list(target.computing)
    if target.setup.split_mode == "none":
        return computing[target.setup.main_gpu :][:1]
    split = shares(target.setup.tensor_split) or [1.0] * len(computing)
    return [device for device, share in zip(computing, split, strict=False) if share][-1:]


def _any_here(devices: Iterable[Device]) -> bool:
    """Whether an RPC server on this machine is among them."""
    return any(device.name.startswith("RPC") and on_this_machine(device.description) for device in devices)


def measured_with(kernels: Kernels = LLAMA_CPP) -> str:
    """What costs on this CPU depend on whatever the set-up: llama.cpp's build, how much of the cores' time there is, and which
    kernels multiply the weights."""
    own = f", {kernels.name} {identity()}" if kernels.set else ""
    return f"{build_key()}, quota {cpu_quota()}{own}"


def threads(wanted: int) -> int:
    """The number of threads: `wanted`, or, if that is not positive, the fast cores that this process may use all the time, by
    its quota of now."""
    if wanted > 0:
        return wanted
    quota = cpu_quota()
    return fast_cores() if quota is None else max(1, min(fast_cores(), int(quota)))


def _file(path: str) -> tuple[str, int, int]:
    """A model file's identity: path, bytes, time of the last change in ns; zeros if there is no such file."""
    path = os.path.expanduser(path)
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, status.st_size, status.st_mtime_ns
