"""A reply's rounds in little memory. Unpacked, a token with its draft and the likeliest tokens takes ten times its text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from threading import Lock
from typing import overload

from spectui.speculation.records import Round
from spectui.store.rounds.packing import PackedError, pack, unpack

CHUNK = 64
"""Rounds that are packed together. More would take less memory, and more time within one frame of the window."""

UNPACKED = 4
"""Chunks that stay unpacked after they were read."""


def same(one: Round, other: Round) -> bool:
    """Whether the two are the same round. One of them may have been packed, which rounds its probabilities and times."""
    return (one.index, one.position) == (other.index, other.position) and [token.id for token in one.tokens] == [
        token.id for token in other.tokens
    ]


class PackedRounds(Sequence[Round]):
    """A sequence of rounds to append to. All but the latest are packed, which rounds their numbers as `pack` does.

    One thread adds, and one appends, packs and indexes; any other may iterate, ask for the length, and call `between`.
    """

    def __init__(self) -> None:
        self._unread: tuple[bytes, ...] = ()  # chunks from the disk, whose sizes are not known yet
        self._packed: list[bytes] = []
        self._ends: list[int] = []  # for each of these: how many rounds it and those before it have
        self._latest: list[Round] = []
        self._size = 0
        self._lock = Lock()  # for all of these to be changed together
        self._unpack = lru_cache(UNPACKED)(unpack)

    @classmethod
    def of_chunks(cls, chunks: Iterable[bytes]) -> PackedRounds:
        """The rounds of these chunks, which `pack` made. They are unpacked when something asks for them first.

        If a chunk is damaged, there are no rounds from then on: the first who iterates may have got those before it.
        """
        rounds = cls()
        rounds._unread = tuple(chunks)
        return rounds

    def append(self, round: Round) -> None:
        """Append a round, and pack earlier ones."""
        self.add(round)
        self.settle()

    def add(self, round: Round) -> None:
        """Append a round without packing any, which takes milliseconds: for the engine's thread."""
        self._know()
        self._latest.append(round)
        self._size += 1

    def settle(self) -> None:
        """Pack all but the latest rounds."""
        while len(self._latest) >= 2 * CHUNK:
            packed = pack(self._latest[:CHUNK])
            with self._lock:
                self._packed.append(packed)
                self._ends.append(CHUNK + (self._ends[-1] if self._ends else 0))
                del self._latest[:CHUNK]

    def between(self, start: int, stop: int) -> list[Round]:
        """The rounds from number `start` up to `stop`, which must exist. From any thread."""
        self._know()
        with self._lock:
            packed, ends, latest = tuple(self._packed), tuple(self._ends), tuple(self._latest)
        first = bisect_right(ends, start)
        before = ends[first - 1] if first else 0
        rounds = [round for chunk in packed[first : bisect_left(ends, stop) + 1] for round in unpack(chunk)]
        rounds += latest[: max(0, stop - (ends[-1] if ends else 0))]
        return rounds[start - before :][: stop - start]

    def __len__(self) -> int:
        self._know()
        return self._size

    def __iter__(self) -> Iterator[Round]:
        with self._lock:
            unread, packed, latest = self._unread, tuple(self._packed), tuple(self._latest)
        if unread:
            yield from self._first_read(unread)
            return
        for chunk in packed:
            yield from unpack(chunk)
        yield from latest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedRounds) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, number: int) -> Round: ...

    @overload
    def __getitem__(self, number: slice) -> list[Round]: ...

    def __getitem__(self, number: int | slice) -> Round | list[Round]:
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        index = range(len(self))[number]
        with self._lock:
            chunk = bisect_right(self._ends, index)
            index -= self._ends[chunk - 1] if chunk else 0
            if chunk == len(self._packed):
                return self._latest[index]
        return self._unpack(self._packed[chunk])[index]

    def _know(self) -> None:
        """Unpack what was not unpacked yet, to know how many rounds there are."""
        if self._unread:
            deque(self, maxlen=0)

    def _first_read(self, chunks: Sequence[bytes]) -> Iterator[Round]:
        ends = [0]
        try:
            for chunk in chunks:
                rounds = unpack(chunk)
                ends.append(ends[-1] + len(rounds))
                yield from rounds
        except PackedError:
            chunks, ends = (), [0]  # the message has the text: only its colours and figures are lost
        with self._lock:
            if self._unread:  # another thread may have been quicker
                self._unread, self._packed, self._ends, self._size = (), list(chunks), ends[1:], ends[-1]
