"""Past replies of a model, as tokens on disk, so that what it wrote once can be drafted in other conversations."""

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
"""Tokens kept per model, the latest, and in memory up to twice as many. An automaton over so many takes about 20 MB and a
quarter of a second."""

_BREAK = -1
"""Stands between replies, so that no match reaches from one into the next."""


class Replies:
    """What a model wrote lately, and the automaton to find it in. A disk that fails costs the memory, never the reply."""

    def __init__(self, model: Path, n_vocab: int) -> None:
        name = hashlib.sha256(f"{model.name} {model.stat().st_size}".encode()).hexdigest()[:24]
        self._file = paths.state_directory() / f"replies-{name}.tokens"
        self._n_vocab = n_vocab
        self.automaton = SuffixAutomaton()
        self._extend(self._read())

    def add(self, reply: Sequence[int]) -> None:
        """A reply is finished. The file is read again first: another spectui may have written meanwhile."""
        self._extend((*reply, _BREAK))
        if len(self.automaton.tokens) > 2 * MOST:  # it cannot forget its beginning alone
            latest = self.automaton.tokens[-MOST:]
            self.automaton.clear()
            self._extend(latest)
        kept = [*self._read(), *reply, _BREAK][-MOST:]
        with suppress(OSError):
            write_atomic(self._file, np.array(kept, "<i4").tobytes())

    def _extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.automaton.extend(token)

    def _read(self) -> list[int]:
        """The tokens on disk; none if there is no file, or it is damaged."""
        try:
            if not self._file.is_file():  # a pipe would be waited for
                return []
            with self._file.open("rb") as file:
                data = file.read(4 * MOST + 1)
        except OSError:
            return []
        if len(data) % 4 or len(data) > 4 * MOST:
            return []
        tokens = np.frombuffer(data, "<i4")
        sound = bool(np.all((tokens >= _BREAK) & (tokens < self._n_vocab)))
        return [int(token) for token in tokens] if sound else []


def forget() -> int:
    """Delete the replies of every model from the disk; returns how many files that were."""
    files = list(paths.state_directory().glob("replies-*.tokens"))
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)
