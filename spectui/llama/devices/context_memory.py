"""How much memory a context needs, as llama.cpp says of a simulated one, and why it makes none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from spectui.errors import SpectuiError
from spectui.llama.cpu.quota import free_memory

if TYPE_CHECKING:
    from spectui.llama.model import Model

GGML_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30}
"""ggml_type of the cell types (ggml.h)."""

_CELLS = re.compile(r"size =\s+([\d.]+) MiB \(\s*\d+ cells")


def logged_cells(lines: Iterable[str]) -> int:
    """Bytes of all cells and recurrent states of a context, as llama.cpp logged them; a simulated one's too."""
    return round(sum(float(size[1]) * 2**20 for size in map(_CELLS.search, lines) if size))


def check_cells(model: Model, n_ctx: int, needed: int) -> None:
    """Raise SpectuiError if the cells of `n_ctx` tokens need more than all free memory of the machine.

    The system grants more memory than it has, and kills the process when it uses it, so this must be checked before.
    """
    if needed > (available := free_memory()):
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
