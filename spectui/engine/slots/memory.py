"""Conversations that stay read: what a pair computed of each is saved before another one takes its place, and restored when it
goes on. In memory, and on disk for the next start.

Saved states and not sequences of one KV cache: there a neighbour's cells would change how attention rounds, and the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Thread

from spectui import paths
from spectui.engine.pair import Pair
from spectui.engine.slots.files import WORTH, Slot, StateFiles, begins
from spectui.llama.cells import saved_state
from spectui.llama.context import Context
from spectui.llama.cpu.quota import free_memory
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.evaluator import common_prefix

_SHARE, _MOST = 8, 2 << 30
"""By default the states in memory take an eighth of what is free, and 2 GiB at most."""


class Slots:
    """The conversations of all models that were loaded, the latest last."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` is called with a sentence if a file fails."""
        self._files = StateFiles(tell)
        self._most = 0
        self._slots: list[Slot] = []
        self._writing: Thread | None = None

    def keep_most(self, bytes_in_memory: int, on_disk: bool) -> None:
        """Keep so many bytes at most (-1: a share of what is free), and the latest conversations on the disk, if wanted."""
        self._most = min(free_memory() // _SHARE, _MOST) if bytes_in_memory < 0 else bytes_in_memory
        self._files.wanted = on_disk and self._most > 0

    def begin(self, pair: Pair, prompt: Sequence[int]) -> str:
        """Let the contexts hold the conversation that has most of the prompt; save the one that they held, if it would lose
        what was read. Returns where the conversation was: "" (in the contexts, or nowhere), "memory", "disk"."""
        tokens = pair.context.tokens
        common = common_prefix(tokens, prompt)
        if len(tokens) - common >= WORTH:
            self.keep(pair)
        best, where = self._best(pair, prompt, common + WORTH)
        if best is None or not saved_state.restore(pair.context, best.target):
            return ""
        draft = _draft_of(pair)
        if draft is not None and (best.draft is None or not saved_state.restore(draft, best.draft)):
            draft.clear()
        pair.strategy.budget = replace(best.budget)
        return where

    def _best(self, pair: Pair, prompt: Sequence[int], least: int) -> tuple[Slot | None, str]:
        """The slot of this pair's target with the longest common prefix, of at least so many tokens."""
        best: Slot | None = None
        for slot in self._slots:
            if slot.keys[0] == pair.state_keys[0]:
                common = common_prefix(slot.target.tokens.tolist(), prompt)
                if common >= least:
                    best, least = slot, common + 1
        on_disk = self._files.best(pair.state_keys, prompt, least)
        if on_disk is not None:
            return on_disk, "disk"
        if best is None:
            return None, ""
        self._slots = [*(slot for slot in self._slots if slot is not best), best]
        draft = best.draft if best.keys[1] == pair.state_keys[1] else None
        return best._replace(draft=draft), "memory"

    def keep(self, pair: Pair) -> None:
        """Save the conversation in the contexts, if it is long enough."""
        if self._most and (slot := _saved(pair)) is not None:
            tokens = slot.target.tokens.tolist()
            self._slots = [other for other in self._slots if not _is_within(other, slot.keys, tokens)]
            self._slots.append(slot)
            while sum(slot.nbytes for slot in self._slots) > self._most:
                del self._slots[0]

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
        if self._files.wants(pair.context.tokens) and (slot := _saved(pair)) is not None:
            self._writing = Thread(target=self._files.write, args=(slot,), name="spectui-states", daemon=True)
            self._writing.start()
            if wait:
                self._writing.join()


def _saved(pair: Pair) -> Slot | None:
    """What the contexts hold; None if that is little, or llama.cpp does not save it."""
    if len(pair.context.tokens) < WORTH or (target := saved_state.save(pair.context)) is None:
        return None
    draft = _draft_of(pair)
    drafted = saved_state.save(draft) if draft is not None else None
    return Slot(pair.state_keys, target, drafted, replace(pair.strategy.budget))


def _is_within(slot: Slot, keys: tuple[str, str], tokens: Sequence[int]) -> bool:
    """Whether it has next to nothing that these tokens lack."""
    return slot.keys == keys and begins(tokens, slot.target.tokens.tolist())


def _draft_of(pair: Pair) -> Context | None:
    """The draft's context; None without one, and where it computes beside the target: it then reads again."""
    return None if isinstance(pair.drafter, AheadDrafter) else pair.draft_context
