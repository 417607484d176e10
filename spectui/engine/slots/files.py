"""Saved conversations on the disk, so that they are not read again after a restart. Each is an uncompressed .npz, whose parts
have CRC-32 checksums."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

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

_Arrays = dict[str, Any]


class Slot(NamedTuple):
    """A conversation that is not in the contexts. `keys`: of the target and of the draft (see `Pair.state_keys`)."""

    keys: tuple[str, str]
    target: SavedState
    draft: SavedState | None
    budget: LossBudget

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.target.nbytes + (self.draft.nbytes if self.draft is not None else 0)


def begins(tokens: Sequence[int], others: Sequence[int]) -> bool:
    """Whether these tokens begin with the others, but for a few of their last ones."""
    return len(others) - common_prefix(tokens, others) < WORTH


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

    def best(self, keys: tuple[str, str], prompt: Sequence[int], least: int) -> Slot | None:
        """The conversation of this target with the longest common prefix, of at least so many tokens."""
        best: Path | None = None
        for file in _files(keys[0]) if self.wanted else ():
            common = common_prefix(self._tokens_of(file), prompt)
            if common >= least:
                best, least = file, common + 1
        if best is None:
            return None
        try:
            with np.load(best) as arrays:
                same_draft = str(arrays["draft_key"]) == keys[1]
                draft = _state("draft", arrays) if same_draft and "draft.tokens" in arrays else None
                slot = Slot(keys, _state("target", arrays), draft, LossBudget(*arrays["budget"].tolist()))
            os.utime(best)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            self._tell(f"A saved conversation could not be read, so its prompt is read anew: {error}")
            best.unlink(missing_ok=True)
            return None
        return slot

    def write(self, slot: Slot) -> None:
        """Write it in place of what it goes on from."""
        tokens = slot.target.tokens.tolist()
        name = hashlib.blake2b(slot.target.tokens.tobytes(), digest_size=8).hexdigest()
        file = paths.kept_directory() / f"{slot.keys[0]}-{name}.npz"
        arrays: _Arrays = {"draft_key": np.array(slot.keys[1]), **_arrays("target", slot.target)}
        arrays["budget"] = np.array([slot.budget.balance, slot.budget.tokens, slot.budget.passes])
        if slot.draft is not None:
            arrays |= _arrays("draft", slot.draft)
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with replacing(file) as part, part.open("wb") as out:
                np.savez(out, **arrays)
            for other in _files(slot.keys[0]):
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
                    self._tokens[version] = arrays["target.tokens"].tolist()
            return self._tokens[version]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return []


def _arrays(name: str, state: SavedState) -> _Arrays:
    arrays: _Arrays = {f"{name}.tokens": state.tokens, f"{name}.cells": state.cells, f"{name}.hidden": state.hidden}
    for number, checkpoint in enumerate(state.checkpoints):
        arrays[f"{name}.{number}.length"] = np.array(checkpoint.length)
        arrays[f"{name}.{number}.state"] = checkpoint.state
        arrays[f"{name}.{number}.hidden"] = np.array(checkpoint.hidden, np.float32)
    return arrays


def _state(name: str, arrays: Any) -> SavedState:
    def checkpoint(number: int) -> Checkpoint:
        length, state, hidden = (arrays[f"{name}.{number}.{part}"] for part in ("length", "state", "hidden"))
        return Checkpoint(int(length), state, hidden if hidden.ndim else float(hidden))

    number = sum(key.startswith(f"{name}.") and key.endswith(".length") for key in arrays)
    tokens, cells, hidden = (arrays[f"{name}.{part}"] for part in ("tokens", "cells", "hidden"))
    return SavedState(tokens, cells, hidden, tuple(map(checkpoint, range(number))))


def _files(key: str = "") -> list[Path]:
    return list(paths.kept_directory().glob(f"{key}*.npz"))


def _drop_oldest() -> None:
    for part in leftovers(paths.kept_directory()):
        part.unlink(missing_ok=True)
    files = sorted(((file.stat().st_mtime_ns, file.stat().st_size, file) for file in _files()), reverse=True)
    total = 0
    for _, size, file in files:
        total += size
        if total > MOST_BYTES:
            with suppress(OSError):
                file.unlink()
