"""The shares of a model that is divided among GPUs: `tensor_split`. Importing this loads no library."""

from __future__ import annotations

from spectui.errors import UsageError


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
