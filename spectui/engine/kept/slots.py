"""Conversations that stay read: what a pair computed of each is saved before another one takes its place, and restored when it
goes on. In memory, and on disk for the next start: there each is an uncompressed .npz, whose parts have CRC-32 checksums.

Saved states and not sequences of one KV cache: there a neighbour's cells would change how attention rounds, and the text.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from spectui import paths
from spectui.atomic import leftovers, replacing
from spectui.engine.pair import Pair
from spectui.llama.cells import saved_state
from spectui.llama.cells.checkpoints import Checkpoint
from spectui.llama.cells.saved_state import SavedState
from spectui.llama.context import Context
from spectui.llama.cpu.quota import free_memory
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.evaluator import common_prefix
from spectui.speculation.policies.strategy import LossBudget

_SHARE, _MOST = 8, 2 << 30
"""By default the states in memory take an eighth of what is free, and 2 GiB at most."""

MOST_BYTES = 4 << 30
"""On the disk, of all conversations of all models; the latest used stay."""

_WORTH = 32
"""Tokens from which saving or restoring is worth it: both take as long as reading a few."""

_LEAST = 256
"""Tokens from which a conversation is written: fewer are read again in about a second."""

_DAMAGED = (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile)


class Slot(NamedTuple):
    """A conversation that is not in the contexts. `states`: the target's, and the draft's behind it if there is one."""

    states: tuple[SavedState, ...]
    budget: LossBudget

    @property
    def tokens(self) -> list[int]:
        """The target's."""
        tokens: list[int] = self.states[0].tokens.tolist()
        return tokens


class Slots:
    """The conversations of all models that were loaded, the latest last. A file that is damaged or cannot be written is told
    once, and does without."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` is called with a sentence if a file fails."""
        self._tell = tell
        self._most, self._on_disk = 0, False
        self._slots: list[Slot] = []
        self._written: list[int] = []  # the tokens that were written last
        self._writing: Thread | None = None
        self._tokens: dict[tuple[Path, int], list[int]] = {}  # by file and the time when it was written

    def keep_most(self, bytes_in_memory: int, on_disk: bool) -> None:
        """Keep so many bytes at most (below 0: a share of what is free then), and the latest conversations on the disk, if
        wanted."""
        self._most = bytes_in_memory
        self._on_disk = on_disk and self._most != 0

    def begin(self, pair: Pair, prompt: Sequence[int]) -> str:
        """Let the contexts hold the conversation that has most of the prompt; save the one that they held, if it would lose
        what was read. Returns where the conversation was: "" (in the contexts, or nowhere), "memory", "disk"."""
        tokens = pair.context.tokens
        common = common_prefix(tokens, prompt)
        if len(tokens) - common >= _WORTH:
            self.keep(pair)
        slot, where = self._best(pair.state_keys[0], prompt, common + _WORTH)
        if slot is None:
            return ""
        states = {state.key: state for state in slot.states}
        for context, key in _contexts(pair):
            if key not in states or not saved_state.restore(context, states[key]):
                context.clear()
        if not pair.context.tokens:
            return ""
        pair.strategy.budget = replace(slot.budget)
        return where

    def _best(self, key: str, prompt: Sequence[int], least: int) -> tuple[Slot | None, str]:
        """The conversation of the target with this key that has the longest common prefix, of at least so many tokens; and
        where it was."""
        kept: list[tuple[Slot | Path, list[int]]] = [(slot, slot.tokens) for slot in self._slots if slot.states[0].key == key]
        kept += [(file, self._tokens_of(file)) for file in _files(key)] if self._on_disk else []
        lengths = ((one, common_prefix(tokens, prompt)) for one, tokens in kept)
        best, common = max(lengths, key=itemgetter(1), default=(None, 0))
        if best is None or common < least:
            return None, ""
        if isinstance(best, Path):
            read = self._read(best)
            return (read, "disk") if read is not None else self._best(key, prompt, least)  # a damaged file is gone now
        self._slots.sort(key=lambda slot: slot is best)
        return best, "memory"

    def keep(self, pair: Pair) -> None:
        """Save the conversation in the contexts, if it is long enough."""
        if self._most and (new := _saved(pair)) is not None:
            keys, tokens = {state.key for state in new.states}, new.tokens
            self._slots = [slot for slot in self._slots if slot.states[-1].key not in keys or not _begins(tokens, slot.tokens)]
            self._slots.append(new)
            most = self._most if self._most > 0 else min((free_memory() + self._bytes) // _SHARE, _MOST)
            while self._bytes > most:
                del self._slots[0]

    @property
    def _bytes(self) -> int:
        """What the states in memory take."""
        return sum(state.nbytes for slot in self._slots for state in slot.states)

    def clear(self) -> None:
        """Drop all, also from the disk."""
        self._slots.clear()
        if self._writing is not None:
            self._writing.join()
        paths.delete_kept()

    def write(self, pair: Pair, wait: bool) -> None:
        """Write the conversation in the contexts to the disk, in a thread of its own, and `wait` for it or not."""
        if self._writing is not None:
            self._writing.join()
        tokens = pair.context.tokens
        wanted = self._on_disk and len(tokens) >= _LEAST and tokens != self._written
        if wanted and (slot := _saved(pair)) is not None:
            self._writing = Thread(target=self._write, args=(slot,), name="spectui-states", daemon=True)
            self._writing.start()
            if wait:
                self._writing.join()

    def _write(self, slot: Slot) -> None:
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
                if other != file and _begins(tokens, self._tokens_of(other)):
                    other.unlink(missing_ok=True)
            self._written = tokens
            _drop_oldest()
        except OSError as error:
            self._on_disk = False
            self._tell(f"The conversation is read again after the next start, because it could not be saved: {error}")

    def _read(self, file: Path) -> Slot | None:
        """The conversation in the file; None if it is damaged."""
        try:
            with np.load(file) as arrays:
                states = [_state(f"{at}.", arrays) for at in range(int(arrays["states"]))]
                slot = Slot(tuple(states), LossBudget(*arrays["budget"].tolist()))
            os.utime(file)
        except _DAMAGED as error:
            self._tell(f"A saved conversation could not be read, so its prompt is read anew: {error}")
            file.unlink(missing_ok=True)
            return None
        return slot

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


def _begins(tokens: Sequence[int], others: Sequence[int]) -> bool:
    """Whether these tokens begin with the others, but for a few of their last ones."""
    return len(others) - common_prefix(tokens, others) < _WORTH


def _saved(pair: Pair) -> Slot | None:
    """What the contexts hold; None if that is little, or llama.cpp does not save it."""
    if len(pair.context.tokens) < _WORTH:
        return None
    target, *drafts = (saved_state.save(context, key) for context, key in _contexts(pair))
    return Slot((target, *filter(None, drafts)), replace(pair.strategy.budget)) if target is not None else None


def _contexts(pair: Pair) -> list[tuple[Context, str]]:
    """Those whose states are saved, with their keys. A draft that computes beside the target reads again."""
    drafts = pair.draft_context if not isinstance(pair.drafter, AheadDrafter) else None
    contexts = [pair.context, *([drafts] if drafts is not None else [])]
    return list(zip(contexts, pair.state_keys, strict=False))


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
