"""Create models and contexts from a set-up: the same way to load them and to simulate it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from spectui.engine.events import ModelInfo
from spectui.engine.loading import placement
from spectui.engine.loading.lists import overrides, shares
from spectui.errors import DraftError
from spectui.gguf_files.check import ModelFileError, assists, borrows, heads_in, layers_read
from spectui.gguf_files.compatibility import heads_beside
from spectui.gguf_files.judgement import DFLASH, EAGLE3
from spectui.gguf_files.metadata import Metadata
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.knobs import Knobs, Setup, spec_of
from spectui.llama.context import Context
from spectui.llama.devices.records import Device
from spectui.llama.devices.rpc import on_this_machine
from spectui.llama.drafting import has_own_devices
from spectui.llama.heads import rows
from spectui.llama.heads.assistant import Assistant
from spectui.llama.heads.context import Heads
from spectui.llama.heads.dflash import DFlash
from spectui.llama.heads.eagle import Eagle
from spectui.llama.heads.fit import misfit
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.llama.tokens.vocabulary import check_vocabularies
from spectui.pin import LLAMA_CPP_PYTHON
from spectui.speculation.choice import tokens_to_keep

_ALIGNED = 64
"""Logits in 256 bytes, the largest alignment that Vulkan's specification lets a GPU ask for."""

ROWS = int(spec_of(Knobs, "draft_max").high or 0) + 1
"""Rows of logits that a target pass may need: the longest draft and one more."""

FUNCTIONS_MOVED = (
    "this llama-cpp-python does not have llama.cpp's functions for heads (MTP) where they were; "
    f"install {LLAMA_CPP_PYTHON}, for which spectui is made"
)

Progress = Callable[[float], bool]


def _always(_: float) -> bool:
    return True


def target_model(setup: Setup, progress: Progress = _always, simulated: bool = False, metadata: Metadata | None = None,
                 kernels: Kernels = LLAMA_CPP) -> Model:  # fmt: skip
    """The set-up's target, loaded or simulated. `metadata`: do not load the texts of its tokens. Raises SpectuiError."""
    return _model(setup, setup.model or "", "target", progress, simulated, metadata, kernels)


def draft_model(setup: Setup, path: str, progress: Progress = _always, simulated: bool = False,
                metadata: Metadata | None = None, kernels: Kernels = LLAMA_CPP) -> Model:  # fmt: skip
    """The set-up's draft from `path`, loaded or simulated. `metadata`: if its tokens' texts need not be loaded.

    Raises SpectuiError.
    """
    if metadata is not None:
        with suppress(ModelFileError):  # some architectures need the texts of the tokens
            return _model(setup, path, "draft", progress, simulated, metadata, kernels)
    return _model(setup, path, "draft", progress, simulated, None, kernels)


def _model(setup: Setup, path: str, role: str, progress: Progress, simulated: bool, metadata: Metadata | None,
           kernels: Kernels) -> Model:  # fmt: skip
    draft = role == "draft"

    def of_role(name: str) -> Any:
        return getattr(setup, f"{name}_draft" if draft else name)

    devices = placement.draft_devices(setup) if draft else placement.target_devices(setup)
    gpu_layers, split = of_role("gpu_layers"), shares(of_role("tensor_split"))
    if draft and (borrows(path) or assists(path, setup.model or "") is not None):
        # It reads the target's cells or matrices, and llama.cpp ends the process where it has not their device.
        others = [device for device in _target_devices(setup) if device not in devices]
        if others:
            gpu_layers = gpu_layers if devices else 0
            split = [*(split or [1.0] * len(devices)), *[0.0] * len(others)]
            devices = [*devices, *others]
    return Model(
        path,
        role,
        on_devices=devices,
        gpu_layers=gpu_layers,
        split_mode=of_role("split_mode"),
        main_gpu=of_role("main_gpu"),
        tensor_split=split,
        overrides=overrides(setup, draft),
        extra_buffers=setup.no_repack == "off",
        kernels=kernels,
        same_vocabulary=metadata,
        progress=progress,
        simulated=simulated,
        heads=heads_in(path)[1] if draft else rows.available(),
    )


def tokens_to_keep_on(model: Model) -> int:
    """How many of the likeliest tokens the device of the logits is to keep at first; 0: none.

    On CPUs, looking at whole rows takes less time: with 152k tokens, keeping them made a pass of a 0.5B longer by 0.8 ms, and
    by 1.6 ms for each row of several. Rows must begin where a GPU can address them, or Vulkan ends the process.
    """
    return (tokens_to_keep(Knobs()) or 0) if model.output_on_gpu and model.n_vocab % _ALIGNED == 0 else 0


def target_context(setup: Setup, model: Model, interrupt: Interrupt) -> Context:
    """The context of the set-up's target. Raises SpectuiError."""
    return Context(
        model,
        interrupt,
        n_ctx=setup.ctx_size,
        rows=ROWS,
        batch=setup.batch,
        ubatch=setup.ubatch,
        threads=placement.threads(setup.threads),
        flash_attn=setup.flash_attn,
        type_k=setup.cache_type_k,
        type_v=setup.cache_type_v,
        swa_full=setup.swa_full == "on",
        equal_rows=True,
        keeps=tokens_to_keep_on(model),
        hidden=rows_for_heads(setup, model),
    )


def with_heads_beside(setup: Setup) -> Setup:
    """The set-up with the heads in a file beside the target as its draft, if it names none."""
    if setup.draft is not None or setup.model is None or not rows.available():
        return setup
    return replace(setup, draft=heads_beside(setup.model))


def rows_for_heads(setup: Setup, model: Model) -> tuple[int, ...] | None:
    """What the target keeps for the heads that draft for it, its own or those in the draft's file: the rows of these layers, ()
    for what comes out of the last; None if none draft."""
    if setup.draft is None:
        return () if rows.available() and model.heads else None
    if not heads_in(setup.draft)[1] or heads_problem(setup.draft, model):
        return None
    return layers_read(setup.draft)


def heads_problem(path: str, target: Model) -> str:
    """Why the heads in this file cannot draft for the target, as a sentence; "" if loading them decides."""
    layers = layers_read(path)
    if not rows.available(bool(layers)):  # as a model of its own it would end the process
        return f"The heads in {path!r} cannot draft: {FUNCTIONS_MOVED}."
    if assists(path, target.path) is False:
        return f"The assistant {path!r} was made for another target (a Gemma 4 of another size): choose that of this target."
    return misfit(path, target) if layers else ""


def heads_context(setup: Setup, model: Model, target: Context, interrupt: Interrupt) -> Heads:
    """The context of the target's heads, as large as the target's. `model`: the target's own, or that of a file of heads.

    Raises SpectuiError.
    """
    of, assistant = target.model, assists(model.path, target.model.path)
    if model.reads_layers and not model.same_vocabulary:
        check_vocabularies(of, model)
    elif not model.reads_layers and (of.width, of.n_vocab) != (model.width, model.n_vocab):
        raise DraftError(
            f"The heads in {model.path!r} are those of another model ({model.width} numbers a token and {model.n_vocab} tokens "
            f"instead of {of.width} and {of.n_vocab}): choose the file that was made for this target."
        )
    flash_attn, type_k, type_v = target.flash_attn, setup.cache_type_k, setup.cache_type_v
    if not assistant:  # they have cells of their own
        flash_attn, type_k = placement.draft_flash(setup, model.kernels), setup.cache_type_k_draft
        type_v = setup.cache_type_v_draft
    architecture = model.metadata("general.architecture") or ""
    kinds: dict[str, type[Heads]] = {EAGLE3: Eagle, DFLASH: DFlash}
    return kinds.get(architecture, Assistant if assistant else Heads)(
        model,
        target,
        interrupt,
        n_ctx=target.n_ctx,
        batch=setup.batch,
        ubatch=placement.draft_chunk_of(setup, model.kernels),
        threads=placement.draft_threads(setup, ahead=False),
        flash_attn=flash_attn,
        type_k=type_k,
        type_v=type_v,
        swa_full=setup.swa_full == "on",
    )


NOT_AHEAD = (
    "The draft has no device of its own, so drafting ahead would slow the target down: it waits for its turn. "
    "-devd names a device that the target does not use."
)


def drafts_ahead(setup: Setup, layers: int, layers_draft: int) -> bool:
    """Whether the draft goes on while the target computes: where each has devices of its own. `layers`: that can be on GPUs.

    Never on the CPU: the threads of two passes wait for each other's there. An RPC server on this machine may compute on the
    CPU too, so that with "auto" it is not the draft's own device where the target computes on this CPU.
    """
    if setup.async_draft == "off" or 0 <= setup.gpu_layers_draft < layers_draft:
        return False
    target, draft = _target_devices(setup), placement.draft_devices(setup)
    target_here = not target or 0 <= setup.gpu_layers < layers or _any_here(target)
    if setup.async_draft == "auto" and target_here and _any_here(draft):
        return False
    return has_own_devices(target, draft)


def _any_here(devices: Iterable[Device]) -> bool:
    """Whether an RPC server on this machine is among them."""
    return any(device.name.startswith("RPC") and on_this_machine(device.description) for device in devices)


def slow_down_together(setup: Setup) -> bool:
    """Whether the target's and the draft's devices slow down together: if they share one, or both compute on the CPU."""
    target = _target_devices(setup)
    draft = placement.draft_devices(setup) if setup.draft is not None and setup.gpu_layers_draft else []
    return not (has_own_devices(target, draft) or has_own_devices(draft, target))


def _target_devices(setup: Setup) -> list[Device]:
    return placement.target_devices(setup) if setup.gpu_layers else []


def draft_context(setup: Setup, model: Model, interrupt: Interrupt, n_ctx: int, ahead: bool = False) -> Context:
    """The context of the set-up's draft, beside a target's of `n_ctx` tokens. Raises SpectuiError.

    `ahead`: as in `placement.draft_threads`.
    """
    return Context(
        model,
        interrupt,
        n_ctx=setup.ctx_size_draft or n_ctx,
        rows=1,
        batch=setup.batch,
        ubatch=placement.draft_chunk_of(setup, model.kernels),
        threads=placement.draft_threads(setup, ahead),
        flash_attn=placement.draft_flash(setup, model.kernels),
        type_k=setup.cache_type_k_draft,
        type_v=setup.cache_type_v_draft,
        swa_full=setup.swa_full == "on",
        keeps=tokens_to_keep_on(model),
    )


def heads_info(model: Model, context: Context) -> ModelInfo:
    """Facts about a target's own heads."""
    heads = "1 head" if model.heads == 1 else f"{model.heads} heads"
    return info(model, context, "")._replace(description=f"{heads} of the target", parameters=0, bytes=0)


def info(model: Model, context: Context, remark: str) -> ModelInfo:
    """Facts about a loaded model. `remark`: what was found out about it."""
    return ModelInfo(
        path=model.path,
        description=model.description,
        parameters=model.parameters,
        bytes=model.n_bytes,
        n_vocab=model.n_vocab,
        n_ctx=context.n_ctx,
        trained_ctx=model.scaled_ctx,
        remark=remark,
        memory=context.memory,
        at_once=(context.foresees or 1) if isinstance(context, DFlash) else 1,
        kernels=model.kernels.name,
        kernels_why=model.kernels.why,
    )
