"""Models whose passes over two tokens cost more than two passes over one, as they were measured when they were loaded."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from spectui.chat.figures.break_even import break_even
from spectui.engine.costs.files import TargetCosts
from spectui.speculation.policies.draft import RoundTimes
from spectui.text import printable

_MORE = 1.1
"""A pass over two tokens is dear from this many times two passes over one on: less may be noise."""


def dear_passes(stored: Mapping[str, TargetCosts]) -> Iterator[str]:
    """A line for each such model of `stored` (path -> costs), and one that says what to do."""
    dear = {path: costs.verify for path, costs in stored.items() if _two(costs.verify) > _MORE * 2}
    for path, verify in dear.items():
        passes = tuple(verify.get(n, float("inf")) / verify[1] for n in range(1, max(verify) + 1))
        needed = break_even(RoundTimes(passes, (0.0,) * len(passes)))
        which = "no draft pays" if needed is None else "drafts pay where more than {:.0%} of their tokens are accepted"
        yield (
            f"{printable(Path(path).name)} on this machine: a pass over two tokens takes {_two(verify):.1f} times as long as "
            f"one over one. Even at no cost for drafting, {which.format(needed)}."
        )
    if dear:
        command = shlex.join(["spectui", "costs", "-m", printable(next(iter(dear)))])
        yield f"Another type of weights may have cheaper passes; this shows what each size costs:\n{command}"


def _two(verify: Mapping[int, float]) -> float:
    """A pass over two tokens, in passes over one; 0 where it was not measured."""
    return verify[2] / verify[1] if 2 in verify else 0.0
