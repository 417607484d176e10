"""Rounds as bytes: a row of the database (a chunk) holds the rounds of about a second.

The bytes are compressed JSON: a column of values for each field of the rounds and of their tokens; with the target's five
likeliest tokens about 70 bytes a token. Because the columns have names, a chunk stays readable where a field with a default was
added to the records. Times are stored to the microsecond and probabilities to three digits: no more is ever shown, and more
digits do not compress. What follows from other values, such as a token's position, is not stored.

A checksum finds damage, so the values of a chunk that can be decompressed are those that spectui wrote.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.records import DraftToken, Likeliest, Reason, Round, Token
from spectui.text import safe

MOST_BYTES = 16 * 1024 * 1024
"""Of an unpacked chunk: far more than a second's rounds take."""

_PARTS = ("knobs", "drafted", "tokens", "likeliest", "reason")  # of a round; these are packed by themselves
_FOLLOWING = ("round", "position")  # of a token: they follow from its round and its index there
_FAULTS = (zlib.error, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
_Record = TypeVar("_Record")


class PackedError(SpectuiError):
    """The bytes are not packed rounds."""


def pack(rounds: Sequence[Round]) -> bytes:
    """The rounds as bytes."""
    knobs = list(dict.fromkeys(round.knobs for round in rounds))
    pieces: dict[tuple[int, str], int] = {}
    table = {
        "knobs": list(map(dataclasses.asdict, knobs)),
        "rounds": _columns(Round, rounds, _PARTS, lambda seconds: round(seconds, 6)),
        "set": [knobs.index(round.knobs) for round in rounds],
        "draft": _columns(DraftToken, [token for round in rounds for token in round.drafted]),
        "drafted": [len(round.drafted) for round in rounds],
        "token": _columns(Token, [token for round in rounds for token in round.tokens], _FOLLOWING),
        "tokens": [len(round.tokens) for round in rounds],
        "reason": [_reason_row(round.reason) for round in rounds],
        "likeliest": [_likeliest_row(round.likeliest, pieces) for round in rounds],
        "pieces": list(pieces),
    }
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode())


def unpack(packed: bytes) -> tuple[Round, ...]:
    """The rounds that `pack` made these bytes from, with texts made safe to show. Raises PackedError."""
    try:
        table = json.loads(zlib.decompressobj().decompress(packed, MOST_BYTES))
        pieces = [(number, safe(text)) for number, text in table["pieces"]]
        knobs = [Knobs(**_known(Knobs, settings)) for settings in table["knobs"]]
        columns, counts = table["rounds"], table["tokens"]
        firsts = list(zip(columns["index"], columns["position"], counts, strict=True))
        following = {
            "round": [index for index, _, count in firsts for _ in range(count)],
            "position": [position + at for _, position, count in firsts for at in range(count)],
        }
        parts = {
            "knobs": [knobs[number] for number in table["set"]],
            "drafted": _grouped(table["drafted"], _records(DraftToken, table["draft"])),
            "tokens": _grouped(counts, _records(Token, table["token"] | following)),
            "reason": [None if row is None else Reason(**_known(Reason, row)) for row in table["reason"]],
            "likeliest": [None if row is None else _likeliest(row, pieces) for row in table["likeliest"]],
        }
        return tuple(_records(Round, columns | parts))
    except _FAULTS as error:
        raise PackedError(f"A part of this conversation's tokens is damaged ({type(error).__name__}).") from error


def _names(kind: Any) -> list[str]:
    return list(kind.__annotations__)


def _share(p: float) -> float:
    return float(f"{p:.3g}")


def _columns(
    kind: type, records: Sequence[object], without: Sequence[str] = (), rounded: Callable[[float], float] = _share
) -> dict[str, list[Any]]:
    """A column of values for each field of these records but some."""
    values = {name: [getattr(record, name) for record in records] for name in _names(kind) if name not in without}
    return {name: [rounded(value) if type(value) is float else value for value in column] for name, column in values.items()}


def _records(kind: Callable[..., _Record], columns: Mapping[str, Sequence[Any]]) -> list[_Record]:
    """The records of these columns, texts made safe. A field without a column has its default."""
    names = [name for name in _names(kind) if name in columns]
    return [kind(**dict(zip(names, row, strict=True))) for row in zip(*(_safe(columns[name]) for name in names), strict=True)]


def _safe(column: Sequence[Any]) -> Sequence[Any]:
    """The column with its texts made safe, each of them once."""
    if str not in set(map(type, column)):
        return column
    texts = {value: safe(value) for value in column if isinstance(value, str)}
    return [texts.get(value, value) for value in column]


def _known(kind: type, table: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record from JSON, which has lists for tuples; those of a newer spectui are left out."""
    return {
        name: tuple(safe(part) if isinstance(part, str) else part for part in value) if isinstance(value, list) else value
        for name, value in table.items()
        if name in _names(kind)
    }


def _grouped(sizes: Iterable[int], records: Iterable[_Record]) -> list[tuple[_Record, ...]]:
    """The records in groups of these sizes."""
    left = iter(records)
    return [tuple(islice(left, size)) for size in sizes]


def _reason_row(reason: Reason | None) -> dict[str, Any] | None:
    """What differs from the defaults."""
    if reason is None:
        return None
    given = {name: value for name, value in reason._asdict().items() if value != Reason._field_defaults.get(name)}
    return {
        name: _share(value) if type(value) is float else [*map(_share, value)] if type(value) is tuple else value
        for name, value in given.items()
    }


def _likeliest_row(likeliest: Likeliest | None, pieces: dict[tuple[int, str], int]) -> list[Any] | None:
    """[each, index in `pieces` of each token, probabilities]: the same few tokens are likely in many rounds."""
    if likeliest is None:
        return None
    tokens = zip(array("i", likeliest.ids), likeliest.texts, strict=True)
    numbers = [pieces.setdefault(token, len(pieces)) for token in tokens]
    return [likeliest.each, numbers, list(map(_share, array("f", likeliest.p)))]


def _likeliest(row: list[Any], pieces: Sequence[tuple[int, str]]) -> Likeliest:
    row_length, numbers, shares = row
    ids, texts = zip(*map(pieces.__getitem__, numbers), strict=True) if numbers else ((), ())
    return Likeliest(row_length, array("i", ids).tobytes(), array("f", shares).tobytes(), texts)
