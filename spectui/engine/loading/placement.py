"""A set-up's meaning on this machine: devices, threads and kinds of attention, where it leaves them open."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.engine.loading.lists import shares
from spectui.errors import UsageError
from spectui.gguf_files.check import heads_in
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.knobs import Setup
from spectui.llama.cpu import plugin, reference_path
from spectui.llama.cpu.cores import allowed_cpus, performance_cores
from spectui.llama.cpu.quota import cpu_quota
from spectui.llama.devices.listing import list_devices, offloading, selected
from spectui.llama.devices.records import Device


def rounds_by_threads(setup: Setup) -> bool:
    """Whether the target's logits depend on the number of threads: ggml's CPU attention divides the cells of a single row among
    them where llama.cpp has no `reference_path`."""
    divides = reference_path.divides(setup.cache_type_k, setup.cache_type_v) and not reference_path.available()
    return divides and setup.flash_attn != "off"


def target_on_cpu(setup: Setup) -> bool:
    """Whether every layer of the target is computed on the CPU."""
    return _on_cpu(setup.gpu_layers, setup.device)


def drafts_on_cpu(setup: Setup) -> bool:
    return _on_cpu(setup.gpu_layers_draft, setup.device_draft)


def _on_cpu(gpu_layers: int, device: str) -> bool:
    offloads = any(device.kind in ("gpu", "igpu") for device in list_devices())
    return not offloads or gpu_layers == 0 or device.strip().lower() in ("none", "cpu")


def draft_flash(setup: Setup, kernels: Kernels = LLAMA_CPP) -> str:
    """Flash attention for the draft, if the set-up leaves it open: off on a CPU with llama.cpp's `kernels`.

    At 1,000 cells a pass of a 0.5B draft over one token takes 27 ms with ggml's CPU flash attention and 17 ms without; heads
    of 64 are the worst.
    """
    wanted = draft_flash_wanted(setup)
    open_choice = wanted == "auto" and setup.cache_type_v_draft in _PLAIN_TYPES
    own = plugin.attends(kernels) and {setup.cache_type_k_draft, setup.cache_type_v_draft} <= _OWN_TYPES
    return "off" if open_choice and drafts_on_cpu(setup) and not own else wanted


def draft_flash_wanted(setup: Setup) -> str:
    """What a person asked for, for the draft."""
    return setup.flash_attn if setup.flash_attn_draft == "auto" else setup.flash_attn_draft


_PLAIN_TYPES = ("f16", "bf16", "f32")
"""Types of V cells that do not need flash attention."""

_OWN_TYPES = {"f16", "q8_0"}
"""Types of cells whose flash attention spectui's kernels compute."""


def draft_chunk_of(setup: Setup, kernels: Kernels = LLAMA_CPP) -> int:
    """Tokens of a prompt that the draft computes at once.

    Without flash attention the scores of a whole chunk are in memory: 120 MB at 512 tokens, and slower than at 128.
    """
    return setup.ubatch if draft_flash(setup, kernels) == draft_flash_wanted(setup) else min(setup.ubatch, 128)


def target_devices(setup: Setup) -> list[Device]:
    """The GPUs that the target uses; [] for none. Raises UsageError for a placement that cannot be."""
    devices = list_devices()
    chosen = selected(setup.device, devices)
    chosen = offloading(devices) if chosen is None else chosen
    _check_split(chosen, "target", setup.tensor_split, setup.split_mode, setup.main_gpu)
    return chosen


def draft_devices(setup: Setup) -> list[Device]:
    """The GPUs that the draft uses; [] for none. Unless named, one: the one with the most free memory, and for heads that of
    the target's last layers, whose rows they read.

    A pass of a draft is short, so that handing its activations from card to card would cost more than it gains. Raises
    UsageError for a placement that cannot be.
    """
    devices = list_devices()
    chosen = selected(setup.device_draft, devices, "--device-draft")
    if chosen is None and heads_in(setup.draft or "")[1]:
        chosen = _of_last_layers(setup)
    elif chosen is None:
        chosen = sorted(offloading(devices), key=lambda gpu: -gpu.free)[:1]
    _check_split(chosen, "draft", setup.tensor_split_draft, setup.split_mode_draft, setup.main_gpu_draft)
    return chosen


def _of_last_layers(setup: Setup) -> list[Device]:
    """The GPU that computes the target's last layers, which are the last to stay on the CPU; [] if none does."""
    chosen = target_devices(setup) if setup.gpu_layers else []
    if setup.split_mode == "none":
        return chosen[setup.main_gpu :][:1]
    split = shares(setup.tensor_split) or [1.0] * len(chosen)
    return [device for device, share in zip(chosen, split, strict=False) if share][-1:]


def _check_split(chosen: Sequence[Device], role: str, tensor_split: str, split_mode: str, main_gpu: int) -> None:
    """Raise UsageError if the role's GPUs cannot be used so."""
    suffix = "-draft" if role == "draft" else ""
    split = shares(tensor_split, f"tensor-split{suffix}")
    gpus = f"{len(chosen)} GPU{'s' if len(chosen) > 1 else ''}"
    if chosen and split and len(split) != len(chosen):
        has = f"{len(split)} share{'s' if len(split) > 1 else ''}"
        raise UsageError(
            f"tensor-split{suffix} {tensor_split} has {has} and the {role} uses {gpus}: give one for each."
        )
    if chosen and split_mode == "none" and main_gpu >= len(chosen):
        raise UsageError(f"There is no main-gpu{suffix} {main_gpu}: the {role} uses {gpus}, counted from 0.")


def threads(wanted: int) -> int:
    """The number of threads: `wanted`, or, if that is not positive, the fast cores that this process may use all the time."""
    if wanted > 0:
        return wanted
    import psutil

    allowed = allowed_cpus()
    cores = performance_cores(allowed) or psutil.cpu_count(logical=False) or len(allowed)
    quota = cpu_quota()
    return max(1, min(cores, len(allowed), len(allowed) if quota is None else int(quota)))


def draft_threads(setup: Setup, ahead: bool) -> int:
    """The draft's number of threads. `ahead`: it computes while the target does. Two threads that compute with OpenMP would
    slow each other down, and one thread does without it."""
    return 1 if ahead else threads(setup.threads_draft or setup.threads)
