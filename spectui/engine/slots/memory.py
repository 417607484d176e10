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
from spectui.engine.slots.files import WORTH, Slot, StateFiles, begins, longest
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
        slot, where = self._best(pair.state_keys[0], prompt, common + WORTH)
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
        """The slot of the target with this key that has the longest common prefix, of at least so many tokens."""
        slots = ((slot, slot.tokens) for slot in self._slots if slot.states[0].key == key)
        best, least = longest(slots, prompt, least)
        on_disk = self._files.best(key, prompt, least)
        if best is not None:
            self._slots.sort(key=lambda slot: slot is best)
        return (best, "memory") if on_disk is None else (on_disk, "disk")

    def keep(self, pair: Pair) -> None:
        """Save the conversation in the contexts, if it is long enough."""
        if self._most and (new := _saved(pair)) is not None:
            keys, tokens = {state.key for state in new.states}, new.tokens
            self._slots = [slot for slot in self._slots if slot.states[-1].key not in keys or not begins(tokens, slot.tokens)]
            self._slots.append(new)
            while sum(state.nbytes for slot in self._slots for state in slot.states) > self._most:
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
    if len(pair.context.tokens) < WORTH:
        return None
    target, *drafts = (saved_state.save(context, key) for context, key in _contexts(pair))
    return Slot((target, *filter(None, drafts)), replace(pair.strategy.budget)) if target is not None else None


def _contexts(pair: Pair) -> list[tuple[Context, str]]:
    """Those whose states are saved, with their keys. A draft that computes beside the target reads again."""
    drafts = pair.draft_context if not isinstance(pair.drafter, AheadDrafter) else None
    contexts = [pair.context, *([drafts] if drafts is not None else [])]
    return list(zip(contexts, pair.state_keys, strict=False))
