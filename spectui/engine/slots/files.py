"""Saved conversations on the disk, so that they are not read again after a restart. Each is an uncompressed .npz, whose parts
have CRC-32 checksums."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from spectui import paths
from spectui.atomic import leftovers, replacing
from spectui.llama.cells.checkpoints import Checkpoint
from spectui.llama.cells.saved_state import SavedState
from spectui.speculation.evaluator import common_prefix
from spectui.speculation.policies.strategy import LossBudget

MOST_BYTES = 4 << 30
"""On the disk, of all conversations of all models; the latest used stay."""

WORTH = 32
"""Tokens from which saving or restoring is worth it: both take as long as reading a few."""

_LEAST = 256
"""Tokens from which a conversation is written: fewer are read again in about a second."""

_DAMAGED = (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile)

Kept = TypeVar("Kept")


class Slot(NamedTuple):
    """A conversation that is not in the contexts. `states`: the target's, and the draft's behind it if there is one."""

    states: tuple[SavedState, ...]
    budget: LossBudget

    @property
    def tokens(self) -> list[int]:
        """The target's."""
        tokens: list[int] = self.states[0].tokens.tolist()
        return tokens


def begins(tokens: Sequence[int], others: Sequence[int]) -> bool:
    """Whether these tokens begin with the others, but for a few of their last ones."""
    return len(others) - common_prefix(tokens, others) < WORTH


def longest(kept: Iterable[tuple[Kept, list[int]]], prompt: Sequence[int], least: int) -> tuple[Kept | None, int]:
    """What has the longest common prefix with the prompt, of at least so many tokens, by its tokens. Returns also how many
    another one needs to be better."""
    best: Kept | None = None
    for one, tokens in kept:
        common = common_prefix(tokens, prompt)
        if common >= least:
            best, least = one, common + 1
    return best, least


class StateFiles:
    """The files in spectui's cache directory. A file that is damaged or cannot be written is told once, and does without."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.wanted = False
        """Whether anything is written and read."""
        self._last: list[int] = []  # the tokens that were written last
        self._tokens: dict[tuple[Path, int], list[int]] = {}  # by file and the time when it was written

    def wants(self, tokens: Sequence[int]) -> bool:
        """Whether a conversation of these tokens is to be written: it is long enough, and not there."""
        return self.wanted and len(tokens) >= _LEAST and tokens != self._last

    def best(self, key: str, prompt: Sequence[int], least: int) -> Slot | None:
        """The conversation of the target with this key that has the longest common prefix, of at least so many tokens."""
        files = _files(key) if self.wanted else []
        best, _ = longest(((file, self._tokens_of(file)) for file in files), prompt, least)
        if best is None:
            return None
        try:
            with np.load(best) as arrays:
                states = [_state(f"{at}.", arrays) for at in range(int(arrays["states"]))]
                slot = Slot(tuple(states), LossBudget(*arrays["budget"].tolist()))
            os.utime(best)
        except _DAMAGED as error:
            self._tell(f"A saved conversation could not be read, so its prompt is read anew: {error}")
            best.unlink(missing_ok=True)
            return None
        return slot

    def write(self, slot: Slot) -> None:
        """Write it in place of what it goes on from."""
        target, tokens, budget = slot.states[0], slot.tokens, slot.budget
        name = hashlib.blake2b(target.tokens.tobytes(), digest_size=8).hexdigest()
        file = paths.kept_directory() / f"{target.key}-{name}.npz"
        arrays: dict[str, Any] = {"states": len(slot.states), "budget": [budget.balance, budget.tokens, budget.passes]}
        for at, state in enumerate(slot.states):
            lengths = [checkpoint.length for checkpoint in state.checkpoints]
            arrays |= {f"{at}.key": state.key, f"{at}.tokens": state.tokens, f"{at}.lengths": lengths}
            for number, checkpoint in enumerate(state.checkpoints):
                arrays |= {f"{at}.{number}.state": checkpoint.state, f"{at}.{number}.hidden": checkpoint.hidden}
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with replacing(file) as part, part.open("wb") as out:
                np.savez(out, **arrays)
            for other in _files(target.key):
                if other != file and begins(tokens, self._tokens_of(other)):
                    other.unlink(missing_ok=True)
            self._last = tokens
            _drop_oldest()
        except OSError as error:
            self.wanted = False
            self._tell(f"The conversation is read again after the next start, because it could not be saved: {error}")

    def _tokens_of(self, file: Path) -> list[int]:
        """The file's tokens; [] if it is damaged."""
        try:
            version = file, file.stat().st_mtime_ns
            if version not in self._tokens:
                with np.load(file) as arrays:
                    self._tokens[version] = arrays["0.tokens"].tolist()
            return self._tokens[version]
        except _DAMAGED:
            return []


def _state(place: str, arrays: Any) -> SavedState:
    """The state whose parts have names that begin so."""
    checkpoints = (
        Checkpoint(length, arrays[f"{place}{number}.state"], arrays[f"{place}{number}.hidden"])
        for number, length in enumerate(arrays[f"{place}lengths"].tolist())
    )
    return SavedState(str(arrays[f"{place}key"]), arrays[f"{place}tokens"], tuple(checkpoints))


def _files(key: str = "") -> list[Path]:
    return list(paths.kept_directory().glob(f"{key}*.npz"))


def _drop_oldest() -> None:
    for part in leftovers(paths.kept_directory()):
        part.unlink(missing_ok=True)
    files = sorted(_files(), key=lambda file: file.stat().st_mtime_ns)
    while sum(file.stat().st_size for file in files) > MOST_BYTES:
        files.pop(0).unlink(missing_ok=True)
