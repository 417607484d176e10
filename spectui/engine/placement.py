"""What a set-up means on this machine: defaults that depend on it, and what must be loaded anew for which change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from spectui.engine.events import Message
from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.llama import reference_path
from spectui.llama.devices import gpu_key, list_devices
from spectui.llama.library import build_key


def _file(path: str | None) -> tuple[str, int, int]:
    """What identifies a model file: path, bytes, time of the last change in ns."""
    path = os.path.expanduser(path or "")
    status = os.stat(path)
    return path, status.st_size, status.st_mtime_ns


def target_key(setup: Setup, extra_buffers: bool) -> tuple[Any, ...]:
    """What the target must be loaded anew for."""
    split = (setup.gpu_layers, setup.split_mode, setup.main_gpu, setup.tensor_split)
    return (*_file(setup.model), setup.device, *split, extra_buffers)


def memory_key(setup: Setup, flash_attn: str) -> tuple[Any, ...]:
    """What the target's memory must be made anew for."""
    size = (setup.ctx_size, setup.batch, setup.ubatch)
    return (*size, setup.threads, flash_attn, setup.cache_type_k, value_type(setup))


def value_type(setup: Setup) -> str:
    """The type of the target's V cells: bf16 for --strict on a CPU whose llama.cpp has no `reference_path`.

    ggml's CPU attention divides the cells of a single row among the threads only where K and V are of one type. With cells of
    two types prompts are read up to four times as slowly (`python -m tests.benchmarks.exactness`); CUDA has no such kernel.
    """
    divides = setup.cache_type_k == setup.cache_type_v == "f16" and not reference_path.available()
    return "bf16" if setup.strict == "on" and divides and target_on_cpu(setup) else setup.cache_type_v


def target_on_cpu(setup: Setup) -> bool:
    """Whether every layer of the target is computed on the CPU."""
    return _on_cpu(setup.gpu_layers, setup.device)


def drafts_on_cpu(setup: Setup) -> bool:
    return _on_cpu(setup.gpu_layers_draft, setup.device_draft)


def _on_cpu(gpu_layers: int, device: str) -> bool:
    offloads = any(device.kind in ("gpu", "igpu") for device in list_devices())
    return not offloads or gpu_layers == 0 or device.strip().lower() in ("none", "cpu")


_PASTED = 2500
"""Bytes from which what a person gives is long: some 500 tokens and more."""


def is_long(messages: Iterable[Message]) -> bool:
    """Was something long given, with little before it?

    It decides the target's attention, so it must not change with the reply, the knobs, or what is in memory; and what came
    before is read again when the answer turns to yes, so that must be little.
    """
    before = 0
    for message in messages:
        size = len(message.content.encode("utf-8", "replace"))
        if message.role != "assistant" and size >= max(_PASTED, 4 * before):
            return True
        before += size
    return False


def target_flash(setup: Setup, long: bool) -> str:
    """Flash attention for the target, where the set-up leaves it open: on a CPU not behind a long text.

    ggml's CPU flash attention takes the rows of a pass one by one. Behind 1,700 tokens a pass over 16 takes a 1.5B
    382 ms with it and 276 ms without (llama-bench -p 16 -d 1700 -fa 0,1), and a 135M with heads of 64 five times as long.
    It stays on for short ones and for --strict: without it a single row rounds differently from several, from the first token.
    """
    open_choice = setup.flash_attn == "auto" and setup.strict == "off" and setup.cache_type_v in _PLAIN_TYPES
    return "off" if long and open_choice and target_on_cpu(setup) else setup.flash_attn


def draft_flash(setup: Setup) -> str:
    """Flash attention for the draft, where the set-up leaves it open: not on a CPU.

    A pass over one token costs a 0.5B draft 27 ms with ggml's CPU flash attention and 17 ms without, at 1,000 cells; heads of
    64 are the worst.
    """
    open_choice = setup.flash_attn == "auto" and setup.cache_type_v_draft in _PLAIN_TYPES
    return "off" if open_choice and drafts_on_cpu(setup) else setup.flash_attn


_PLAIN_TYPES = ("f16", "bf16", "f32")
"""Types of V cells that need no flash attention."""


def slice_of(setup: Setup, flash_attn: str) -> int:
    """Tokens that are computed at once, of a longer prompt.

    Without flash attention the scores of a slice are kept whole: 120 MB at 512 tokens, and slower than at 128.
    """
    return setup.ubatch if flash_attn == setup.flash_attn else min(setup.ubatch, 128)


def draft_key(setup: Setup, extra_buffers: bool) -> tuple[Any, ...]:
    """What the draft must be loaded anew for."""
    if setup.draft is None:
        return ()
    size = (setup.ctx_size, setup.ctx_size_draft, setup.batch, setup.ubatch, setup.threads, setup.threads_draft)
    cells = (setup.flash_attn, setup.cache_type_k_draft, setup.cache_type_v_draft)
    return (
        *_file(setup.draft),
        setup.device_draft,
        setup.gpu_layers_draft,
        *size,
        *cells,
        setup.requantise_draft,
        extra_buffers,
    )


def target_costs_key(setup: Setup, extra_buffers: bool, flash_attn: str) -> tuple[Any, ...]:
    """What the costs of the target's passes depend on: nothing of the draft, and not the size of the context."""
    context = (setup.ubatch, threads(setup.threads), flash_attn, setup.cache_type_k, value_type(setup))
    return (build_key(), gpu_key(), target_key(setup, extra_buffers), context)


def draft_costs_key(setup: Setup, extra_buffers: bool, copy: str) -> tuple[Any, ...]:
    """What the costs of the draft's passes depend on: nothing of the target. `copy`: the file that was really loaded."""
    cells = (draft_flash(setup), setup.cache_type_k_draft, setup.cache_type_v_draft)
    context = (setup.ubatch, threads(setup.threads_draft or setup.threads), *cells)
    model = (*_file(setup.draft), copy, setup.device_draft, setup.gpu_layers_draft, extra_buffers)
    return (build_key(), gpu_key(), model, context)


def shares(text: str) -> list[float]:
    """ "3,1" as numbers; llama.cpp takes slashes too. Raises UsageError."""
    try:
        return [float(part) for part in text.replace("/", ",").split(",") if part.strip()]
    except ValueError:
        raise UsageError(f"tensor-split is numbers with commas, such as 3,1, not {text!r}.") from None


def threads(wanted: int) -> int:
    """As many threads as cores that this process may use, where nothing else is asked for."""
    if wanted > 0:
        return wanted
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or allowed, allowed))
