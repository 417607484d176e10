"""How much memory a context needs, calculated before it is created."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from spectui.errors import SpectuiError
from spectui.gguf_files.check import metadata_of
from spectui.llama.library import listening, llama

if TYPE_CHECKING:
    from spectui.llama.model import Model

GGML_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30,
}  # fmt: skip
"""ggml_type of the cell types (ggml.h)."""

_BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q5_1": 6, "q5_0": 5.5, "q4_1": 5, "q4_0": 4.5, "iq4_nl": 4.5}


def cell_bytes(model: Model, type_k: str, type_v: str) -> float:
    """Bytes of K and V per token of context: layers x heads x (key length x bits + value length x bits) / 8.

    0 for a model that is recurrent throughout and has no cells.
    """
    if llama.llama_model_is_recurrent(model.handle):
        return 0.0
    file = metadata_of(model.path)
    # Layers of hybrid models differ, and llama.cpp gives no metadata that are arrays with a number per layer.
    if not file.number("attention.head_count") or llama.llama_model_is_hybrid(model.handle):
        return sum(_logged_cell_bytes(model, type_k, type_v))
    return bytes_of_cells(file.number, type_k, type_v)


def bytes_of_cells(number: Callable[[str], float], type_k: str, type_v: str) -> float:
    """The same from the file's numbers: `number` gives one of the architecture, 0 if the file has none, or one per layer."""
    heads = number("attention.head_count")
    if not heads:
        return 0.0
    kv_heads = number("attention.head_count_kv") or heads
    key, value = (number(f"attention.{each}_length") or number("embedding_length") / heads for each in ("key", "value"))
    return number("block_count") * kv_heads * (key * _BITS[type_k] + value * _BITS[type_v]) / 8


def _logged_cell_bytes(model: Model, type_k: str, type_v: str) -> list[float]:
    """The same for each kind of layer, from llama.cpp's log of a small context; [] if the log does not say."""
    params = llama.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 256
    params.type_k, params.type_v = GGML_TYPES[type_k], GGML_TYPES[type_v]
    log: list[str] = []
    with listening(log.append):
        context = llama.llama_init_from_model(model.handle, params)
    if context:
        llama.llama_free(context)
    # The log describes a recurrent state with the same words, as one cell.
    sizes = [re.search(r"size =\s+([\d.]+) MiB \(\s*(\d{2,}) cells", line) for line in log]
    return [float(size[1]) * 2**20 / int(size[2]) for size in sizes if size]


def check_cells(model: Model, n_ctx: int, type_k: str, type_v: str, window: int | None = None) -> None:
    """Raise SpectuiError if the cells of `n_ctx` tokens need more than all free memory of the machine.

    `window`: cells of layers that look back over a sliding window, if they keep fewer.

    The system grants more memory than it has, and kills the process when it uses it, so this must be checked before.
    """
    import psutil

    from spectui.llama.devices.listing import list_devices

    if window is not None and window < n_ctx:
        sizes = _logged_cell_bytes(model, type_k, type_v)  # of the layers that keep all, then of those with a window
        needed = sum(size * cells for size, cells in zip(sizes, (n_ctx, window), strict=False))
    else:
        needed = cell_bytes(model, type_k, type_v) * n_ctx
    available = psutil.virtual_memory().available + sum(
        d.free for d in list_devices() if d.kind == "gpu" and not d.unified
    )
    if needed > available:
        most = int(n_ctx * available / needed) // 256 * 256
        d = _d(model)
        smaller = f"-c{d} {most} or less" if most else "a smaller model"
        raise SpectuiError(
            f"A context of {n_ctx} tokens{_of(model)} needs {needed / 2**30:.1f} GiB and {available / 2**30:.1f} GiB are free: "
            f"choose {smaller}, or a smaller -ctk{d} and -ctv{d}."
        )


def _of(model: Model) -> str:
    return " for the draft" if model.role == "draft" else ""


def _d(model: Model) -> str:
    """What the draft's flags end with; "" for the target's."""
    return "d" if model.role == "draft" else ""


def refusal(model: Model, n_ctx: int, reason: str) -> str:
    """The sentence for a context that llama.cpp did not make, from its first error line ("" if it logged none)."""
    d, why = _d(model), reason or "llama.cpp does not say why"
    if re.search("cache type|flash", reason, re.IGNORECASE):
        advice = f"choose -fa{d} on, or cells of f16 (-ctk{d} and -ctv{d})"
    else:
        advice = f"choose a smaller -c{d}, or another device (-dev{d})"
    return f"A context of {n_ctx} tokens could not be made{_of(model)} ({why}): {advice}."


def failure(model: Model, n_tokens: int, code: int, reason: str) -> str:
    """The sentence for tokens that llama_decode did not evaluate, from its code and first error line ("" if it logged none)."""
    d = _d(model)
    if code == 1:
        return f"The context is full: start a new chat, or load the model with a larger -c{d}."
    if code == -2:  # an allocation failed (llama-context.cpp)
        advice = f"there is too little memory, so load the models with a smaller -c{d}, or with fewer layers on GPUs (-ngl{d})"
    else:
        advice = f"send the prompt again, and if that fails too load the models on another device (-dev{d})"
    return f"llama.cpp could not evaluate {n_tokens} tokens (code {code}{f', {reason}' if reason else ''}): {advice}."
