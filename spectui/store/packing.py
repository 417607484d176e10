"""A reply's rounds as bytes: one row of the database holds a second's worth of them.

Each record is a row of its values under one heading of field names, in JSON, compressed: about 20 bytes a token, and 80
more where the target's five likeliest are known. Because
the names are there, a field that is added to the records later, with a default, leaves older rows readable.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, check, specs
from spectui.speculation.records import DraftToken, Likeliest, Round, Token
from spectui.text import safe

MOST_BYTES = 16 * 1024 * 1024
"""Of a chunk, unpacked: far above a second's rounds, and what a made-up one cannot exceed."""

_PARTS = ("knobs", "drafted", "tokens", "likeliest")  # of a round; they have rows of their own
_LARGEST = 2**62  # of a number, so that none is infinite, or too large for what is calculated with it
_Record = TypeVar("_Record", Knobs, DraftToken, Token)


class PackedError(SpectuiError):
    """Bytes that are no packed rounds."""


def pack(rounds: Sequence[Round]) -> bytes:
    """The rounds as bytes."""
    knobs: list[Knobs] = []
    rows = []
    names = [name for name in _names(Round) if name not in _PARTS]
    row, draft_row, token_row = attrgetter(*names), attrgetter(*_names(DraftToken)), attrgetter(*_names(Token))
    for round in rounds:
        if not knobs or knobs[-1] != round.knobs:
            knobs.append(round.knobs)
        drafted, tokens = list(map(draft_row, round.drafted)), list(map(token_row, round.tokens))
        rows.append([row(round), len(knobs) - 1, drafted, tokens, _likeliest_row(round.likeliest)])
    table = {
        "round": names, "draft": _names(DraftToken), "token": _names(Token),
        "knobs": [dataclasses.asdict(each) for each in knobs], "rows": rows,
    }  # fmt: skip
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode())


def unpack(packed: bytes) -> tuple[Round, ...]:
    """The rounds that `pack` made these bytes of; texts are made safe to show. Raises PackedError."""
    try:
        table = json.loads(zlib.decompressobj().decompress(packed, MOST_BYTES))
        knobs = [_knobs(each) for each in table["knobs"]]
        return tuple(
            Round(
                **_fields(Round, table["round"], values),
                knobs=knobs[number],
                drafted=tuple(_made(DraftToken, table["draft"], row) for row in drafted),
                tokens=tuple(_made(Token, table["token"], row) for row in tokens),
                likeliest=_likeliest(likeliest),
            )
            for values, number, drafted, tokens, likeliest in table["rows"]
        )
    except (
        zlib.error, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, UsageError
    ) as error:  # fmt: skip
        raise PackedError(f"A part of this conversation's tokens is damaged ({type(error).__name__}).") from error


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _likeliest_row(likeliest: Likeliest | None) -> list[Any] | None:
    if likeliest is None:
        return None
    numbers = [b64encode(packed).decode() for packed in (likeliest.ids, likeliest.p)]
    return [likeliest.each, *numbers, likeliest.texts]


def _likeliest(row: list[Any] | None) -> Likeliest | None:
    if row is None:
        return None
    each, ids, p, texts = row
    made = Likeliest(each, b64decode(ids), b64decode(p), tuple(safe(text) for text in texts))
    if not len(made.ids) == len(made.p) == 4 * len(made.texts):
        raise ValueError(row)
    return made


def _knobs(table: Mapping[str, Any]) -> Knobs:
    made = _made(Knobs, list(table), list(table.values()))
    for key, _, spec in specs(Knobs):
        check(key, getattr(made, key), spec)
    return made


def _made(kind: type[_Record], names: Sequence[str], values: Sequence[Any]) -> _Record:
    return kind(**_fields(kind, names, values))


def _fields(kind: type, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """The values by name, texts made safe. Raises ValueError for one that is not of its field's kind."""
    allowed = _allowed(kind)
    fields = {}
    for name, value in zip(names, values, strict=True):
        if name not in allowed:
            continue
        types, words = allowed[name]
        if type(value) not in types or (words and value not in words):
            raise ValueError(name)
        if isinstance(value, str):
            value = safe(value)
        elif value is not None and not -_LARGEST < value < _LARGEST:
            raise ValueError(name)
        fields[name] = value
    return fields


@cache
def _allowed(kind: type) -> Mapping[str, tuple[frozenset[type], tuple[str, ...]]]:
    """name -> (the types that it may have, the only words that it may be) of each plain field of a record."""
    hints = get_type_hints(kind)
    fields = {}
    for name in _names(kind):
        if name in _PARTS:
            continue
        hint = hints[name]
        words = get_args(hint) if get_origin(hint) is Literal else ()
        types = {str} if words else set(get_args(hint) or (hint,))
        fields[name] = (frozenset(types | {int} if float in types else types), words)
    return fields
