"""A reply's rounds in little memory. Unpacked, a token with its draft and the likeliest tokens takes ten times its text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import overload

from spectui.speculation.records import Round
from spectui.store.rounds.packing import pack, unpack

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

    One thread appends and indexes; any other may iterate, ask for the length, and call `between`.
    """

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self._packed: list[bytes] = []
        self._latest: list[Round] = []
        self._size = 0
        self._lock = Lock()  # for `_packed` and `_latest` to be changed together
        self._read: OrderedDict[int, tuple[Round, ...]] = OrderedDict()
        for round in rounds:
            self.append(round)

    def append(self, round: Round) -> None:
        """Append a round."""
        self._latest.append(round)
        if len(self._latest) == 2 * CHUNK:
            packed = pack(self._latest[:CHUNK])
            with self._lock:
                self._packed.append(packed)
                del self._latest[:CHUNK]
        self._size += 1

    def between(self, start: int, stop: int) -> list[Round]:
        """The rounds from number `start` up to `stop`, which must exist. From any thread."""
        with self._lock:
            packed, latest = tuple(self._packed), tuple(self._latest)
        first = min(start // CHUNK, len(packed))
        rounds = [round for each in packed[first : -(-stop // CHUNK)] for round in unpack(each)]
        rounds += latest[: max(0, stop - len(packed) * CHUNK)]
        return rounds[start - first * CHUNK :][: stop - start]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Round]:
        with self._lock:
            packed, latest = tuple(self._packed), tuple(self._latest)
        for each in packed:
            yield from unpack(each)
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
            return [self[each] for each in range(*number.indices(len(self)))]
        chunk, index = divmod(range(len(self))[number], CHUNK)
        if chunk >= len(self._packed):
            return self._latest[index + (chunk - len(self._packed)) * CHUNK]
        if chunk not in self._read:
            self._read[chunk] = unpack(self._packed[chunk])
            if len(self._read) > UNPACKED:
                self._read.popitem(last=False)
        self._read.move_to_end(chunk)
        return self._read[chunk][index]
