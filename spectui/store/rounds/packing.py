"""Rounds as bytes: a row of the database (a chunk) holds the rounds of about a second.

The bytes are compressed JSON: the field names once, and a row of values for each record; with the target's five likeliest
tokens about 70 bytes a token. Because the names are stored, older chunks stay readable when a field with a default is added
to the records. Times are stored to the microsecond and probabilities to three digits: no more is ever shown, and more digits
do not compress. What follows from other values, such as a token's position, is not stored.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from array import array
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Literal, get_args, get_origin, get_type_hints

from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, check, spec_of, specs
from spectui.speculation.records import DraftToken, Likeliest, Reason, Round, Token
from spectui.text import safe

MOST_BYTES = 16 * 1024 * 1024
"""Of an unpacked chunk: far more than a second's rounds take. A malicious chunk cannot take more memory."""

_PARTS = ("knobs", "drafted", "tokens", "likeliest", "reason")  # of a round; they have rows of their own
_FOLLOWING = ("round", "position")  # of a token: they follow from its round and its index there
_MOST_TIMES = int(spec_of(Knobs, "draft_max").high or 0) + 1  # of a reason: one for each draft length
_TIMES = ("passes", "drafting")  # of a reason; tuples
_LARGEST = 2**62  # of a number, so that none is infinite, or too large for what is calculated with it


class PackedError(SpectuiError):
    """The bytes are not packed rounds."""


def pack(rounds: Sequence[Round]) -> bytes:
    """The rounds as bytes."""
    knobs: list[Knobs] = []
    pieces: dict[tuple[int, str], int] = {}
    rows = []
    names = [name for name in _names(Round) if name not in _PARTS]
    token_names = [name for name in _names(Token) if name not in _FOLLOWING]
    row, token_row = attrgetter(*names), attrgetter(*token_names)
    for each in rounds:
        if not knobs or knobs[-1] != each.knobs:
            knobs.append(each.knobs)
        values = [round(value, 6) if type(value) is float else value for value in row(each)]
        drafted, tokens = _rounded(each.drafted), _rounded(map(token_row, each.tokens))
        likeliest = _likeliest_row(each.likeliest, pieces)
        rows.append([values, len(knobs) - 1, drafted, tokens, likeliest, reason_row(each.reason)])
    table = {
        "round": names, "draft": _names(DraftToken), "token": token_names,
        "knobs": [dataclasses.asdict(each) for each in knobs], "pieces": list(pieces), "rows": rows,
    }  # fmt: skip
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode())


def unpack(packed: bytes) -> tuple[Round, ...]:
    """The rounds that `pack` made these bytes from, with texts made safe to show. Raises PackedError."""
    try:
        table = json.loads(zlib.decompressobj().decompress(packed, MOST_BYTES))
        knobs = [read_knobs(each) for each in table["knobs"]]
        pieces = [_piece(*each) for each in table.get("pieces", ())]
        rounds = []
        for values, number, drafted, tokens, likeliest, *reason in table["rows"]:  # older rows have no reason
            fields = checked_fields(Round, table["round"], values)
            made = Round(
                **fields,
                knobs=knobs[number],
                drafted=tuple(DraftToken(**checked_fields(DraftToken, table["draft"], row)) for row in drafted),
                tokens=(),
                likeliest=_likeliest(likeliest, pieces),
                reason=read_reason(reason[0]) if reason and reason[0] is not None else None,
            )
            rounds.append(dataclasses.replace(made, tokens=tuple(_tokens(table["token"], tokens, made))))
        return tuple(rounds)
    except (
        zlib.error, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError,
        OverflowError, UsageError,
    ) as error:  # fmt: skip
        raise PackedError(f"A part of this conversation's tokens is damaged ({type(error).__name__}).") from error


def _names(kind: type) -> list[str]:
    return list(kind.__annotations__)


def _rounded(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows of drafted or emitted tokens, in which every float is a probability, rounded."""
    return [[rounded_share(value) if type(value) is float else value for value in row] for row in rows]


def rounded_share(p: float) -> float:
    return float(f"{p:.3g}")


def _likeliest_row(likeliest: Likeliest | None, pieces: dict[tuple[int, str], int]) -> list[Any] | None:
    """[each, index in `pieces` of each token, probabilities]: the same few tokens are likely in many rounds."""
    if likeliest is None:
        return None
    found = zip(array("i", likeliest.ids), likeliest.texts, strict=True)
    numbers = [pieces.setdefault(each, len(pieces)) for each in found]
    return [likeliest.each, numbers, list(map(rounded_share, array("f", likeliest.p)))]


def _likeliest(row: list[Any] | None, pieces: Sequence[tuple[int, str]]) -> Likeliest | None:
    if row is None:
        return None
    if len(row) == 4:  # as the first version packed them
        each, packed_ids, packed_p, texts = row
        made = Likeliest(each, b64decode(packed_ids), b64decode(packed_p), tuple(safe(text) for text in texts))
    else:
        each, numbers, shares = row
        found = [pieces[number] for number in numbers]
        ids = array("i", (token for token, _ in found))
        made = Likeliest(each, ids.tobytes(), array("f", shares).tobytes(), tuple(text for _, text in found))
    if not len(made.ids) == len(made.p) == 4 * len(made.texts):
        raise ValueError(row)
    return made


def reason_row(reason: Reason | None) -> dict[str, Any] | None:
    """What differs from the defaults."""
    if reason is None:
        return None
    given = {name: value for name, value in reason._asdict().items() if value != Reason._field_defaults.get(name)}
    return {
        name: rounded_share(value)
        if type(value) is float
        else [*map(rounded_share, value)]
        if type(value) is tuple
        else value
        for name, value in given.items()
    }


def read_reason(row: Mapping[str, Any]) -> Reason:
    times = [tuple(map(float, row.get(name, ()))) for name in _TIMES]
    for each in times:
        if len(each) > _MOST_TIMES or not all(0 <= time < _LARGEST for time in each):
            raise ValueError(each)
    plain = {name: value for name, value in row.items() if name not in _TIMES}
    return Reason(**checked_fields(Reason, list(plain), list(plain.values())), passes=times[0], drafting=times[1])


def _piece(number: int, text: str) -> tuple[int, str]:
    return number, safe(text)


def _tokens(names: Sequence[str], rows: Iterable[Sequence[Any]], of: Round) -> Iterator[Token]:
    for index, row in enumerate(rows):
        yield Token(**{"round": of.index, "position": of.position + index, **checked_fields(Token, names, row)})


def read_knobs(table: Mapping[str, Any]) -> Knobs:
    made = Knobs(**checked_fields(Knobs, list(table), list(table.values())))
    for key, _, spec in specs(Knobs):
        check(key, getattr(made, key), spec)
    return made


def checked_fields(kind: type, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """The values by field name, texts made safe. Raises ValueError for a value that its field cannot have."""
    allowed = _allowed(kind)
    fields = {}
    for name, value in zip(names, values, strict=True):
        if name not in allowed:
            continue
        types, words = allowed[name]
        if type(value) not in types or (words and value not in words):
            raise ValueError(name)
        if isinstance(value, list | tuple):
            if not all(isinstance(each, str) for each in value):
                raise ValueError(name)
            fields[name] = tuple(map(safe, value))
            continue
        if isinstance(value, str):
            value = safe(value)
        elif value is not None and not -_LARGEST < value < _LARGEST:
            raise ValueError(name)
        fields[name] = value
    return fields


@cache
def _allowed(kind: type) -> Mapping[str, tuple[frozenset[type], tuple[str, ...]]]:
    """name -> (the types it may have, the only words it may be) for each plain field of a record."""
    hints = get_type_hints(kind)
    fields = {}
    for name in _names(kind):
        if name in (_PARTS if kind is Round else _TIMES):  # they have rows of their own
            continue
        hint = hints[name]
        words = get_args(hint) if get_origin(hint) is Literal else ()
        types = {str} if words else set(get_args(hint) or (hint,))
        if get_origin(hint) is tuple:  # several texts
            types = {list, tuple}
        fields[name] = (frozenset(types | {int} if float in types else types), words)
    return fields
