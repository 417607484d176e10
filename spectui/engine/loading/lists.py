"""Settings whose values are lists: the shares of GPUs, and the buffers of tensors. Importing this loads no library."""

from __future__ import annotations

from spectui.errors import UsageError
from spectui.knobs import Setup

_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""The tensors of experts, as llama.cpp finds them (LLM_FFN_EXPS_REGEX, common/common.h)."""

HOST = "CPU"
"""Name of the buffers in the host's memory."""


def shares(text: str, name: str = "tensor-split") -> list[float]:
    """The numbers in "3,1", divided by the largest; llama.cpp accepts slashes too. Raises UsageError, which names the setting
    as `name`."""
    try:
        found = [float(part) for part in text.replace("/", ",").split(",") if part.strip()]
    except ValueError:
        found = [-1.0]
    if not all(0 <= share < float("inf") for share in found) or (found and not any(found)):
        raise UsageError(f"{name} is numbers from 0 up with commas, not all 0, such as 3,1, not {text!r}.")
    return [share / max(found) for share in found]  # a number or a sum beyond a C float's would be infinite


def overrides(setup: Setup, draft: bool = False) -> tuple[tuple[str, str], ...]:
    """llama.cpp's -ot, -ncmoe and -cmoe: (regular expression for tensors' names, name of the buffers) of the target, or of the
    draft. The first that fits counts.

    Raises UsageError.
    """
    suffix = "-draft" if draft else ""
    text = setup.override_tensor_draft if draft else setup.override_tensor
    first_layers = setup.n_cpu_moe_draft if draft else setup.n_cpu_moe
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        pattern, equals, buffers = part.partition("=")
        if not (pattern and equals and buffers):
            raise UsageError(f"override-tensor{suffix} is PATTERN=BUFFER with commas, such as exps=CPU, not {part!r}.")
        found.append((pattern, buffers))
    found += [(rf"blk\.{layer}{_EXPERTS}", HOST) for layer in range(first_layers)]
    if (setup.cpu_moe_draft if draft else setup.cpu_moe) == "on":
        found.append((_EXPERTS, HOST))
    return tuple(found)
