"""What was measured of the passes of a pair, as it is saved on disk.

A file for the target and another for the draft, each under a key of what it depends on (`Placed.costs_key`), so that another
draft keeps the target's.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import time
from typing import Any, TypeVar

from spectui import paths
from spectui.atomic import write_atomic
from spectui.speculation.policies.cost_model import LOADED, CostModel

EQUAL_SIZES = (2, 3, 4, 6, 8, 16)
"""Pass sizes whose logits are compared with those of passes over one token. ggml's repacked Q4_K has another kernel from 4 rows
on, K-quants in tiles from 8."""

BEHIND = 600
"""Tokens of context behind which logits are compared once more for --strict: kernels may divide a long context among threads
or cores, ggml's on the CPU from 257 tokens on. Fewer where the context is smaller, or takes more than `costs.BOUND_S`
to read."""

MEASURED = BEHIND + max(EQUAL_SIZES)
"""Tokens of context that measuring uses at most."""

_MOST_CONTEXT = 1 / 200
"""What a token of context may add to a pass at most, as a share of a pass over one row with an empty context. Measured: 1/10000
(1.5B, heads of 128) to 1/300 (135M, heads of 64, AVX512-FP16)."""

_LEAST_SIZES = 4
"""A table of fewer sizes is not trusted: its measurement was cut short, because the machine was busy."""

_NOISY_S = 3600.0
"""Seconds after which noisy costs are measured again: the machine may be quiet by then."""

Key = tuple[Any, ...]

_Costs = TypeVar("_Costs", "TargetCosts", "DraftCosts")


@dataclass
class TargetCosts:
    """Seconds per pass size with an empty context, and up to which size the logits are equal."""

    verify: dict[int, float] = field(default_factory=dict)
    """Tokens in a pass -> seconds. Empty: unknown."""
    per_row: float = 0.0
    """Seconds that each token of context adds for each row; 0 where a short context does not show it."""
    per_pass: float = 0.0
    """Seconds that it adds once."""
    equal_up_to: int = 1
    """The largest size tried whose logits equal those of single passes, with all smaller ones."""
    tried: int = 1
    """The largest size whose logits were compared."""
    behind: int | None = None
    """Tokens of context behind which all rows of the passes were compared too; None: not compared there."""
    noisy: bool = False
    """Other processes used the machine during the measurement: the rounds correct the table, and it is not stored for long."""

    def __post_init__(self) -> None:
        self.verify = {int(n): seconds for n, seconds in self.verify.items()}  # JSON has texts for keys

    @property
    def strict_up_to(self) -> int:
        """The largest size that --strict may use: 1 where the passes were not compared behind a context."""
        return 1 if self.behind is None else self.equal_up_to


@dataclass
class DraftCosts:
    """Seconds per drafted token: the first of a round, which also evaluates the target's last tokens, and each further one."""

    first: float = 0.0
    """0: unknown."""
    next: float = 0.0
    noisy: bool = False


def cost_model(target: TargetCosts, draft: DraftCosts, max_drafted: int | None = None) -> CostModel:
    """For the policies to start from. `max_drafted`: see `CostModel`."""
    passes = dict(target.verify)
    if passes:
        # No pass costs less than one over one row. If a larger one was measured as cheaper, the machine was busy for a moment.
        # Nothing would correct that later: plain passes look dear, so every round drafts.
        passes[1] = min(passes.values())
    most = _MOST_CONTEXT * passes.get(1, 0.0)
    trusted = LOADED if len(passes) >= _LEAST_SIZES and not (target.noisy or draft.noisy) else 0
    return CostModel(
        passes, min(target.per_row, most), min(target.per_pass, most), draft.first, draft.next, max_drafted, trusted,
        draft_apart=not draft.noisy,
    )  # fmt: skip


def path(what: str, key: Key) -> Path:
    """The file for what was found out about the models of `key`, whether or not there is one."""
    return paths.state_directory() / f"{what}-{_digest(repr(key))}.json"


def forget(target: Key, draft: Key) -> None:
    """Delete what is stored of the models of these keys."""
    for what, key in (("target-costs", target), ("draft-costs", draft)):
        path(what, key).unlink(missing_ok=True)


def read(file: Path, kind: type[_Costs]) -> _Costs | None:
    """The costs in the file; None if there are none, or they are damaged, or noisy and old."""
    with suppress(OSError, ValueError, TypeError, AttributeError):  # it is missing, or another version's
        digest, _, text = file.read_text(encoding="utf-8").partition("\n")
        costs = kind(**json.loads(text))
        old = costs.noisy and time() - file.stat().st_mtime > _NOISY_S
        return costs if digest == _digest(text) and not old else None
    return None


def write(file: Path, costs: TargetCosts | DraftCosts) -> None:
    """Keep these costs, behind their digest. If the disk fails, the next process measures again."""
    text = json.dumps(asdict(costs))
    with suppress(OSError):
        write_atomic(file, f"{_digest(text)}\n{text}".encode())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
