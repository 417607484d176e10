"""What loaded models and measured costs depend on: if a key changes, they are made again."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from spectui.engine.costs.files import MEASURED
from spectui.engine.loading import placement
from spectui.engine.loading.lists import overrides
from spectui.kernels.plugin import LLAMA_CPP, Kernels, identity
from spectui.knobs import Setup
from spectui.llama.cpu.quota import cpu_quota
from spectui.llama.devices.listing import gpu_key
from spectui.llama.library import build_key


def target_key(setup: Setup) -> tuple[Any, ...]:
    """If this changes, the target must be loaded again."""
    split = (setup.gpu_layers, setup.split_mode, setup.main_gpu, setup.tensor_split)
    return (*_file(setup.model), setup.device, *split, *overrides(setup), setup.no_repack, setup.kernels)


def context_key(setup: Setup) -> tuple[Any, ...]:
    """If this changes, the target's context must be created again."""
    size = (setup.ctx_size, setup.batch, setup.ubatch, setup.swa_full)
    return (*size, setup.threads, setup.flash_attn, setup.cache_type_k, setup.cache_type_v)


def draft_key(setup: Setup) -> tuple[Any, ...]:
    """If this changes, the draft must be loaded again."""
    if setup.draft is None:
        return ()
    size = (setup.ctx_size, setup.ctx_size_draft, setup.batch, setup.ubatch, setup.threads, setup.threads_draft)
    cells = (placement.draft_flash_wanted(setup), setup.swa_full, setup.cache_type_k_draft, setup.cache_type_v_draft)
    ways = (setup.requantise_draft, setup.async_draft, setup.no_repack, setup.kernels)
    return (*_file(setup.draft), *_draft_placement(setup), *size, *cells, *ways)


def measured_with(kernels: Kernels = LLAMA_CPP) -> str:
    """What costs on this CPU depend on whatever the set-up: llama.cpp's build, how much of the cores' time there is, and which
    kernels multiply the weights."""
    own = f", {kernels.name} {identity()}" if kernels.set else ""
    return f"{build_key()}, quota {cpu_quota()}{own}"


def target_costs_key(setup: Setup, kernels: Kernels = LLAMA_CPP) -> tuple[Any, ...]:
    """The key of the target's costs. It does not depend on the draft, or on the size of the context where that has room for
    all that is measured. `kernels`: those of the model that is loaded."""
    size = (min(setup.ctx_size or MEASURED, MEASURED), setup.ubatch, setup.swa_full)
    context = (*size, placement.threads(setup.threads), setup.flash_attn, setup.cache_type_k, setup.cache_type_v)
    model = target_key(replace(setup, kernels=""))
    return (measured_with(kernels), gpu_key(), model, context, setup.op_offload_min_batch)


def draft_costs_key(setup: Setup, copy: str, ahead: bool, kernels: Kernels = LLAMA_CPP) -> tuple[Any, ...]:
    """The key of the draft's costs. It does not depend on the target. `copy`: the file that was loaded, with `kernels`."""
    cells = (placement.draft_flash(setup, kernels), setup.swa_full, setup.cache_type_k_draft, setup.cache_type_v_draft)
    context = (setup.ubatch, placement.draft_threads(setup, ahead), *cells)
    model = (*_file(setup.draft), copy, *_draft_placement(setup), setup.no_repack)
    return (measured_with(kernels), gpu_key(), model, context, setup.op_offload_min_batch)


def heads_costs_key(setup: Setup, target: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key of the costs of the target's own heads. `target`: the key of the target's costs."""
    return (*target, placement.draft_threads(setup, ahead=False), setup.cache_type_k_draft, setup.cache_type_v_draft)


def _file(path: str | None) -> tuple[str, int, int]:
    """A model file's identity: path, bytes, time of the last change in ns."""
    path = os.path.expanduser(path or "")
    status = os.stat(path)
    return path, status.st_size, status.st_mtime_ns


def _draft_placement(setup: Setup) -> tuple[Any, ...]:
    split = (setup.split_mode_draft, setup.main_gpu_draft, setup.tensor_split_draft)
    return (setup.device_draft, setup.gpu_layers_draft, *split, *overrides(setup, draft=True))
