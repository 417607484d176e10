"""Create models, contexts and drafters from a set-up: the same way to load them and to simulate it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from spectui.engine.events import ModelInfo
from spectui.engine.loading.placement import Placed, shares
from spectui.errors import DraftError, SpectuiError
from spectui.gguf_files.check import ModelFileError, metadata_of
from spectui.gguf_files.compatibility import heads_beside
from spectui.gguf_files.heads import DFLASH, EAGLE3, are_heads, assists, borrows, layers_read
from spectui.gguf_files.metadata import Metadata
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.knobs import Knobs, Setup, spec_of
from spectui.llama.context import Context
from spectui.llama.devices.context_memory import check_cells
from spectui.llama.heads.context import Assistant, DFlash, Eagle, Heads, misfit
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model, TooLargeError
from spectui.llama.tokens.vocabulary import LackingError, TokenBytes, VocabularyError, check_vocabularies
from spectui.speculation.choice import tokens_to_keep
from spectui.speculation.drafters.cross_vocabulary.drafters import TranslationError, translating_drafter
from spectui.speculation.drafters.model import DraftModel, ModelDrafter
from spectui.speculation.evaluator import Evaluator

_ALIGNED = 64
"""Logits in 256 bytes, the largest alignment that Vulkan's specification lets a GPU ask for."""

ROWS = int(spec_of(Knobs, "draft_max").high or 0) + 1
"""Rows of logits that a target pass may need: the longest draft and one more."""

TOO_LITTLE_MEMORY = "there is too little memory for a second copy of the weights"

Progress = Callable[[float], bool]


def load(placed: Placed, target: Placed, progress: Progress = lambda _: True, simulated: bool = False,
         metadata: Metadata | None = None) -> Model:  # fmt: skip
    """Load or simulate a model beside its target, or the target itself.

    Where kernels' second copy of the weights cannot be had, it computes with the weights as they are in the file.

    `metadata`: of a file whose tokens' texts need not be loaded. Raises SpectuiError.
    """
    if metadata is not None and metadata.n_tokens:
        with suppress(ModelFileError):  # some architectures need the texts of the tokens
            return _load(placed, target, progress, simulated, metadata)
    try:
        return _load(placed, target, progress, simulated, None)
    except TooLargeError:
        if not (placed.kernels.set or (placed.on_cpu and placed.setup.no_repack == "off")):
            raise
    without_copy = replace(placed.setup, no_repack="on")
    placed = replace(placed, setup=without_copy, kernels=Kernels(why=TOO_LITTLE_MEMORY))
    return _load(placed, target, progress, simulated, None)


def _load(placed: Placed, target: Placed, progress: Progress, simulated: bool, metadata: Metadata | None) -> Model:
    draft = placed.role == "draft"
    devices, gpu_layers, split = list(placed.devices), placed.of("gpu_layers"), shares(placed.of("tensor_split"))
    if draft and (borrows(heads := metadata_of(placed.path)) or assists(metadata_of(target.path), heads) is not None):
        # It reads the target's cells or matrices, and llama.cpp ends the process where it has not their device.
        others = [device for device in target.computing if device not in devices]
        if others:
            gpu_layers = gpu_layers if devices else 0
            split = [*(split or [1.0] * len(devices)), *[0.0] * len(others)]
            devices = [*devices, *others]
    return Model(
        placed.path,
        placed.role,
        on_devices=devices,
        gpu_layers=gpu_layers,
        split_mode=placed.of("split_mode"),
        main_gpu=placed.of("main_gpu"),
        tensor_split=split,
        overrides=placed.overrides,
        extra_buffers=placed.setup.no_repack == "off",
        kernels=placed.kernels,
        threads=placed.threads,
        same_vocabulary=metadata,
        progress=progress,
        simulated=simulated,
        heads=placed.heads or not draft,
    )


def tokens_to_keep_on(model: Model) -> int:
    """How many of the likeliest tokens the device of the logits is to keep at first; 0: none.

    On CPUs, looking at whole rows takes less time: with 152k tokens, keeping them made a pass of a 0.5B longer by 0.8 ms, and
    by 1.6 ms for each row of several. Rows must begin where a GPU can address them, or Vulkan ends the process.
    """
    return (tokens_to_keep(Knobs()) or 0) if model.output_on_gpu and model.n_vocab % _ALIGNED == 0 else 0


def _settings(placed: Placed) -> dict[str, Any]:
    """What contexts of all kinds take of a placed model."""
    return {
        "batch": placed.setup.batch,
        "ubatch": placed.chunk,
        "flash_attn": placed.flash_attn,
        "type_k": placed.types[0],
        "type_v": placed.types[1],
        "swa_full": placed.setup.swa_full == "on",
    }


def bytes_of_cells(placed: Placed, n_ctx: int) -> int:
    """What llama.cpp takes for the cells of `n_ctx` tokens (0: what it was trained with) of a model on the CPU.

    It says so of a simulated model, within some 30 ms; 0 where it refuses that one.
    """
    return _simulated_cells(replace(placed, kernels=LLAMA_CPP, devices=()), n_ctx, placed.weights_key)


@lru_cache(maxsize=8)
def _simulated_cells(placed: Placed, n_ctx: int, _of_file: tuple[Any, ...]) -> int:
    """Asked for the kernels and for the context: the second time costs nothing, unless the file was written anew."""
    with suppress(SpectuiError):
        model = load(placed, placed, simulated=True, metadata=metadata_of(placed.path))
        try:
            rows = ROWS if placed.role == "target" else 1
            context = Context(model, Interrupt(), n_ctx=n_ctx, rows=rows, **_settings(placed))
            context.close()
            return context.bytes_of_cells
        finally:
            model.close()
    return 0


def _context(placed: Placed, model: Model, interrupt: Interrupt, n_ctx: int, **others: Any) -> Context:
    """A context of a model that is no heads. Raises SpectuiError, also if its cells need more than the free memory."""
    if placed.on_cpu and not model.simulated:
        check_cells(model, n_ctx or model.trained_ctx, bytes_of_cells(placed, n_ctx))
    return Context(model, interrupt, n_ctx=n_ctx, keeps=tokens_to_keep_on(model), **_settings(placed), **others)


def target_context(placed: Placed, model: Model, interrupt: Interrupt) -> Context:
    """The context of a target. Raises SpectuiError."""
    hidden = rows_for_heads(placed.setup, model)
    return _context(
        placed, model, interrupt, placed.setup.ctx_size, rows=ROWS, threads=placed.threads, equal_rows=True, hidden=hidden
    )


def draft_context(placed: Placed, model: Model, interrupt: Interrupt, n_ctx: int, ahead: bool = False) -> Context:
    """The context of a draft, beside a target's of `n_ctx` tokens. `ahead`: as in `Placed.threads_beside`.

    Raises SpectuiError.
    """
    n_ctx = placed.setup.ctx_size_draft or n_ctx
    return _context(placed, model, interrupt, n_ctx, rows=1, threads=placed.threads_beside(ahead))


def drafter_for(target: Model, draft: Model, context: Evaluator) -> tuple[DraftModel, str]:
    """The drafter, which uses the draft's `context`, and a sentence to show if the vocabularies differ, else "".

    Raises VocabularyError if the draft's text cannot be turned into the target's tokens.
    """
    if draft.same_vocabulary:
        return ModelDrafter(context, target.n_vocab), ""
    try:
        check_vocabularies(target, draft)
    except VocabularyError as difference:
        if target.textless or draft.textless:
            raise
        try:
            drafter, how = translating_drafter(context, TokenBytes(target), TokenBytes(draft))
            return drafter, f"{difference} {how}"
        except TranslationError as error:
            if isinstance(difference, LackingError):
                return ModelDrafter(context, target.n_vocab), f"{difference} It drafts until such a token is in the text."
            raise VocabularyError(f"{difference} {error}") from error
    return ModelDrafter(context, target.n_vocab), ""


def with_heads_beside(setup: Setup) -> Setup:
    """The set-up with the heads in a file beside the target as its draft, if it names none."""
    if setup.draft is not None or setup.model is None:
        return setup
    return replace(setup, draft=heads_beside(setup.model))


def rows_for_heads(setup: Setup, model: Model) -> tuple[int, ...] | None:
    """What the target keeps for the heads that draft for it, its own or those in the draft's file: the rows of these layers, ()
    for what comes out of the last; None if none draft."""
    if setup.draft is None:
        return () if model.heads else None
    if not are_heads(metadata_of(setup.draft)) or heads_problem(setup.draft, model):
        return None
    return layers_read(metadata_of(setup.draft))


def heads_problem(path: str, target: Model) -> str:
    """Why the heads in this file cannot draft for the target, as a sentence; "" if loading them decides."""
    heads = metadata_of(path)
    if assists(metadata_of(target.path), heads) is False:
        return f"The assistant {path!r} was made for another target (a Gemma 4 of another size): choose that of this target."
    return misfit(path, target) if layers_read(heads) else ""


def heads_context(placed: Placed, model: Model, target: Context, interrupt: Interrupt) -> Heads:
    """The context of the target's heads, as large as the target's. `model`: the target's own, or that of a file of heads.

    Raises SpectuiError.
    """
    of, assistant = target.model, assists(metadata_of(target.model.path), metadata_of(model.path))
    if model.reads_layers and not model.same_vocabulary:
        check_vocabularies(of, model)
    elif not model.reads_layers and (of.width, of.n_vocab) != (model.width, model.n_vocab):
        raise DraftError(
            f"The heads in {model.path!r} are those of another model ({model.width} numbers a token and {model.n_vocab} tokens "
            f"instead of {of.width} and {of.n_vocab}): choose the file that was made for this target."
        )
    settings, setup = _settings(placed), placed.setup
    if assistant:  # it reads the target's cells
        settings |= {"flash_attn": target.flash_attn, "type_k": setup.cache_type_k, "type_v": setup.cache_type_v}
    architecture = model.metadata("general.architecture") or ""
    kinds: dict[str, type[Heads]] = {EAGLE3: Eagle, DFLASH: DFlash}
    kind = kinds.get(architecture, Assistant if assistant else Heads)
    return kind(model, target, interrupt, n_ctx=target.n_ctx, threads=placed.threads, **settings)


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
        at_once=(context.max_drafted or 1) if isinstance(context, DFlash) else 1,
        kernels=model.kernels.name,
        kernels_why=model.kernels.why,
    )
