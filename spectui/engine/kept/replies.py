"""Past replies of a model, as tokens on disk, so that other conversations can draft from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from spectui import paths
from spectui.atomic import write_atomic
from spectui.speculation.drafters.suffix import SuffixAutomaton

MOST = 32_768
"""Latest tokens on disk per model; up to twice as many in memory. An automaton over so many takes 20 MB and 0.25 s."""

_BREAK = -1
"""Separates replies, so that no match extends from one into the next."""


class Replies:
    """A model's past replies, and the automaton that finds matches in them. Failures of the disk are ignored."""

    def __init__(self, model: Path, n_vocab: int) -> None:
        name = hashlib.sha256(f"{model.name} {model.stat().st_size}".encode(errors="surrogateescape")).hexdigest()[:24]
        self._file = paths.state_directory() / f"replies-{name}.tokens"
        self._n_vocab = n_vocab
        self.automaton = SuffixAutomaton()
        self._extend(self._read())

    def add(self, reply: Sequence[int]) -> None:
        """Add a finished reply, unless it is the last one, decoded again.

        Reads the file again first, because another process may have written to it.
        """
        if self.automaton.tokens[-len(reply) - 1 :] == [*reply, _BREAK]:
            return
        self._extend((*reply, _BREAK))
        if len(self.automaton.tokens) > 2 * MOST:  # an automaton cannot delete its oldest tokens
            latest = self.automaton.tokens[-MOST:]
            self.automaton.clear()
            self._extend(latest)
        tokens = [*self._read(), *reply, _BREAK][-MOST:]
        with suppress(OSError):
            write_atomic(self._file, np.array(tokens, "<i4").tobytes())

    def _extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.automaton.extend(token)

    def _read(self) -> list[int]:
        """The tokens on disk; none if the file does not exist or is damaged."""
        try:
            tokens = np.fromfile(self._file, "<i4", MOST)
        except OSError:
            return []
        sound = bool(np.all((tokens >= _BREAK) & (tokens < self._n_vocab)))
        return list(map(int, tokens)) if sound else []


def saved() -> list[Path]:
    """The files of replies on the disk, one for each model."""
    return list(paths.state_directory().glob("replies-*.tokens"))


def delete_all() -> int:
    """Delete the replies of all models from the disk; returns the number of files."""
    files = saved()
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)
