"""The shares of a model that is divided among GPUs: `tensor_split`. Importing this loads no library."""

from __future__ import annotations

from collections.abc import Sequence

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


def percentages(numbers: Sequence[float]) -> list[int]:
    """The same shares as whole numbers that add up to 100; equal ones where all are 0."""
    return _divided(100, numbers)


def with_share(now: Sequence[int], at: int, share: int) -> list[int]:
    """These percentages with another one at this index. The others keep their proportions and give or take the difference."""
    others = _divided(100 - share, [number for index, number in enumerate(now) if index != at])
    return [*others[:at], share, *others[at:]]


def _divided(whole: int, numbers: Sequence[float]) -> list[int]:
    """`whole` divided in these proportions. The remainder of rounding down goes to the parts that lost most."""
    total = sum(numbers)
    exact = [whole * number / total if total else whole / len(numbers) for number in numbers]
    found = [int(each) for each in exact]
    for at in sorted(range(len(found)), key=lambda at: found[at] - exact[at])[: whole - sum(found)]:
        found[at] += 1
    return found
