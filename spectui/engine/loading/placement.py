"""A set-up's meaning on this machine: defaults that depend on the machine, and which changes require which reload."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from spectui.engine.cost_files import MEASURED
from spectui.engine.events import Message
from spectui.engine.loading.cores import allowed_cpus, performance_cores
from spectui.engine.loading.overrides import overrides
from spectui.engine.loading.quota import cpu_quota
from spectui.engine.loading.shares import shares
from spectui.errors import UsageError
from spectui.kernels.plugin import LLAMA_CPP, Kernels, identity
from spectui.knobs import Setup
from spectui.llama.cpu import plugin, reference_path
from spectui.llama.devices.listing import gpu_key, list_devices, offloading, selected
from spectui.llama.devices.records import Device
from spectui.llama.library import build_key


def _file(path: str | None) -> tuple[str, int, int]:
    """A model file's identity: path, bytes, time of the last change in ns."""
    path = os.path.expanduser(path or "")
    status = os.stat(path)
    return path, status.st_size, status.st_mtime_ns


def target_key(setup: Setup, extra_buffers: bool) -> tuple[Any, ...]:
    """If this changes, the target must be loaded again."""
    split = (setup.gpu_layers, setup.split_mode, setup.main_gpu, setup.tensor_split)
    return (*_file(setup.model), setup.device, *split, *overrides(setup), extra_buffers, setup.kernels)


def context_key(setup: Setup, flash_attn: str) -> tuple[Any, ...]:
    """If this changes, the target's context must be created again."""
    size = (setup.ctx_size, setup.batch, setup.ubatch, setup.swa_full)
    return (*size, setup.threads, flash_attn, setup.cache_type_k, value_type(setup))


def value_type(setup: Setup) -> str:
    """The type of the target's V cells: bf16 for --strict on a CPU whose llama.cpp has no `reference_path`.

    ggml's CPU attention divides the cells of a single row among the threads only where K and V are of one type. With cells of
    two types prompts are read up to four times as slowly (`python -m tests.benchmarks.exactness`); CUDA has no such kernel.
    """
    return "bf16" if setup.strict == "on" and _divides(setup) and target_on_cpu(setup) else setup.cache_type_v


def rounds_by_threads(setup: Setup) -> bool:
    """Whether the target's logits depend on the number of threads: ggml divides the cells of a single row among them."""
    return setup.flash_attn != "off" and value_type(setup) == setup.cache_type_v and _divides(setup)


def _divides(setup: Setup) -> bool:
    """Whether ggml's CPU attention divides the cells of a single row of the target among the threads."""
    return reference_path.divides(setup.cache_type_k, setup.cache_type_v) and not reference_path.available()


def target_on_cpu(setup: Setup) -> bool:
    """Whether every layer of the target is computed on the CPU."""
    return _on_cpu(setup.gpu_layers, setup.device)


def drafts_on_cpu(setup: Setup) -> bool:
    return _on_cpu(setup.gpu_layers_draft, setup.device_draft)


def _on_cpu(gpu_layers: int, device: str) -> bool:
    offloads = any(device.kind in ("gpu", "igpu") for device in list_devices())
    return not offloads or gpu_layers == 0 or device.strip().lower() in ("none", "cpu")


_PASTED = 2500
"""Bytes from which a message is long: about 500 tokens."""


def is_long(messages: Iterable[Message]) -> bool:
    """Whether the user gave a long text after little text.

    This decides the target's kind of attention, so it must not depend on the reply, the knobs, or the content of the context.
    When it becomes true, the text before is evaluated again, so that must be short.
    """
    before = 0
    for message in messages:
        size = len(message.content.encode("utf-8", "replace"))
        if message.role != "assistant" and size >= max(_PASTED, 4 * before):
            return True
        before += size
    return False


def target_flash(setup: Setup, long: bool, kernels: Kernels = LLAMA_CPP) -> str:
    """Flash attention for the target, if the set-up leaves it open: off on a CPU with a long text and llama.cpp's `kernels`.

    ggml's CPU flash attention computes the rows of a pass one by one. After 1,700 tokens a pass over 16 of a 1.5B takes
    382 ms with it and 276 ms without (llama-bench -p 16 -d 1700 -fa 0,1), and a 135M with heads of 64 five times as long.
    It stays on for short ones and for --strict: without it a single row rounds differently from several, from the first token.
    """
    open_choice = setup.flash_attn == "auto" and setup.strict == "off" and setup.cache_type_v in _PLAIN_TYPES
    own = kernels.set and {setup.cache_type_k, setup.cache_type_v} <= _OWN_TYPES
    return "off" if long and open_choice and target_on_cpu(setup) and not own else setup.flash_attn


def draft_flash(setup: Setup, kernels: Kernels = LLAMA_CPP) -> str:
    """Flash attention for the draft, if the set-up leaves it open: off on a CPU with llama.cpp's `kernels`.

    At 1,000 cells a pass of a 0.5B draft over one token takes 27 ms with ggml's CPU flash attention and 17 ms without; heads
    of 64 are the worst.
    """
    wanted = _draft_flash_wanted(setup)
    open_choice = wanted == "auto" and setup.cache_type_v_draft in _PLAIN_TYPES
    own = plugin.attends(kernels) and {setup.cache_type_k_draft, setup.cache_type_v_draft} <= _OWN_TYPES
    return "off" if open_choice and drafts_on_cpu(setup) and not own else wanted


def _draft_flash_wanted(setup: Setup) -> str:
    return setup.flash_attn if setup.flash_attn_draft == "auto" else setup.flash_attn_draft


_PLAIN_TYPES = ("f16", "bf16", "f32")
"""Types of V cells that do not need flash attention."""

_OWN_TYPES = {"f16", "q8_0"}
"""Types of cells whose flash attention spectui's kernels compute."""


def chunk_of(setup: Setup, flash_attn: str) -> int:
    """Tokens of a prompt that the target computes at once.

    Without flash attention the scores of a whole chunk are in memory: 120 MB at 512 tokens, and slower than at 128.
    """
    return setup.ubatch if flash_attn == setup.flash_attn else min(setup.ubatch, 128)


def draft_chunk_of(setup: Setup, kernels: Kernels = LLAMA_CPP) -> int:
    """Tokens of a prompt that the draft computes at once."""
    return setup.ubatch if draft_flash(setup, kernels) == _draft_flash_wanted(setup) else min(setup.ubatch, 128)


def draft_key(setup: Setup, extra_buffers: bool) -> tuple[Any, ...]:
    """If this changes, the draft must be loaded again."""
    if setup.draft is None:
        return ()
    size = (setup.ctx_size, setup.ctx_size_draft, setup.batch, setup.ubatch, setup.threads, setup.threads_draft)
    cells = (_draft_flash_wanted(setup), setup.swa_full, setup.cache_type_k_draft, setup.cache_type_v_draft)
    return (
        *_file(setup.draft),
        *_draft_placement(setup),
        *size,
        *cells,
        setup.requantise_draft,
        setup.async_draft,
        extra_buffers,
        setup.kernels,
    )


def _draft_placement(setup: Setup) -> tuple[Any, ...]:
    split = (setup.split_mode_draft, setup.main_gpu_draft, setup.tensor_split_draft)
    return (setup.device_draft, setup.gpu_layers_draft, *split, *overrides(setup, draft=True))


def measured_with(kernels: Kernels = LLAMA_CPP) -> str:
    """What costs on this CPU depend on whatever the set-up: llama.cpp's build, how much of the cores' time there is, and which
    kernels multiply the weights."""
    own = f", {kernels.name} {identity()}" if kernels.set else ""
    return f"{build_key()}, quota {cpu_quota()}{own}"


def target_costs_key(
    setup: Setup, extra_buffers: bool, flash_attn: str, kernels: Kernels = LLAMA_CPP
) -> tuple[Any, ...]:
    """The key of the target's costs. It does not depend on the draft, or on the size of the context where that has room for
    all that is measured. `kernels`: those of the model that is loaded."""
    size = min(setup.ctx_size or MEASURED, MEASURED)
    context = (
        size,
        setup.ubatch,
        setup.swa_full,
        threads(setup.threads),
        flash_attn,
        setup.cache_type_k,
        value_type(setup),
    )
    model = target_key(replace(setup, kernels=""), extra_buffers)
    return (measured_with(kernels), gpu_key(), model, context, setup.op_offload_min_batch)


def draft_costs_key(
    setup: Setup, extra_buffers: bool, copy: str, ahead: bool, kernels: Kernels = LLAMA_CPP
) -> tuple[Any, ...]:
    """The key of the draft's costs. It does not depend on the target. `copy`: the file that was loaded, with `kernels`."""
    cells = (draft_flash(setup, kernels), setup.swa_full, setup.cache_type_k_draft, setup.cache_type_v_draft)
    context = (setup.ubatch, draft_threads(setup, ahead), *cells)
    model = (*_file(setup.draft), copy, *_draft_placement(setup), extra_buffers)
    return (measured_with(kernels), gpu_key(), model, context, setup.op_offload_min_batch)


def target_devices(setup: Setup) -> list[Device]:
    """The GPUs that the target uses; [] for none. Raises UsageError for a placement that cannot be."""
    devices = list_devices()
    chosen = selected(setup.device, devices)
    chosen = offloading(devices) if chosen is None else chosen
    _check_split(chosen, "target", setup.tensor_split, setup.split_mode, setup.main_gpu)
    return chosen


def draft_devices(setup: Setup) -> list[Device]:
    """The GPUs that the draft uses; [] for none. Unless named, one: the one with the most free memory.

    A pass of a draft is short, so that handing its activations from card to card would cost more than it gains. Raises
    UsageError for a placement that cannot be.
    """
    devices = list_devices()
    chosen = selected(setup.device_draft, devices, "--device-draft")
    chosen = sorted(draft_candidates(devices), key=lambda gpu: -gpu.free)[:1] if chosen is None else chosen
    _check_split(chosen, "draft", setup.tensor_split_draft, setup.split_mode_draft, setup.main_gpu_draft)
    return chosen


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


def draft_candidates(devices: Iterable[Device]) -> list[Device]:
    """The GPUs that the draft may be put on, if none is named."""
    return offloading(list(devices))


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
