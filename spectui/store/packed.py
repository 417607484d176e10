"""A reply's rounds in little memory: a token with its draft and the likeliest beside it is ten times its text otherwise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import overload

from spectui.speculation.records import Round
from spectui.store.packing import pack, unpack

CHUNK = 64
"""Rounds that are packed together: more would take less memory, and more of the frame that it falls into."""

UNPACKED = 4
"""Chunks that are kept as they are after somebody has looked into them."""


def same(one: Round, other: Round) -> bool:
    """Whether it is one round, maybe packed between the two: its probabilities and seconds are rounded then."""
    return (one.index, one.position) == (other.index, other.position) and [token.id for token in one.tokens] == [
        token.id for token in other.tokens
    ]


class PackedRounds(Sequence[Round]):
    """Rounds to append to, all but the latest packed: what is read of them is rounded as `pack` does.

    Belongs to one thread; any other may iterate, and ask `between`.
    """

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self._packed: list[bytes] = []
        self._latest: list[Round] = []
        self._lock = Lock()  # for `_packed` and `_latest` to be changed together
        self._read: OrderedDict[int, tuple[Round, ...]] = OrderedDict()
        for round in rounds:
            self.append(round)

    def append(self, round: Round) -> None:
        """Add one."""
        self._latest.append(round)
        if len(self._latest) == 2 * CHUNK:
            packed = pack(self._latest[:CHUNK])
            with self._lock:
                self._packed.append(packed)
                del self._latest[:CHUNK]

    def between(self, start: int, stop: int) -> list[Round]:
        """The rounds from one number up to another, which must be there. From any thread."""
        with self._lock:
            packed, latest = tuple(self._packed), tuple(self._latest)
        first = min(start // CHUNK, len(packed))
        rounds = [round for each in packed[first : -(-stop // CHUNK)] for round in unpack(each)]
        rounds += latest[: max(0, stop - len(packed) * CHUNK)]
        return rounds[start - first * CHUNK :][: stop - start]

    def __len__(self) -> int:
        return len(self._packed) * CHUNK + len(self._latest)

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
        chunk, place = divmod(range(len(self))[number], CHUNK)
        if chunk >= len(self._packed):
            return self._latest[place + (chunk - len(self._packed)) * CHUNK]
        if chunk not in self._read:
            self._read[chunk] = unpack(self._packed[chunk])
            if len(self._read) > UNPACKED:
                self._read.popitem(last=False)
        self._read.move_to_end(chunk)
        return self._read[chunk][place]
