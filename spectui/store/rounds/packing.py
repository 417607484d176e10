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
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

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
_Any = TypeVar("_Any")
_Record = TypeVar("_Record", DraftToken, Token, Reason)

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
    for round_ in rounds:
        if not knobs or knobs[-1] != round_.knobs:
            knobs.append(round_.knobs)
        values = [round(value, 6) if type(value) is float else value for value in row(round_)]
        drafted, tokens = _rounded(round_.drafted), _rounded(map(token_row, round_.tokens))
        likeliest = _likeliest_row(round_.likeliest, pieces)
        rows.append([values, len(knobs) - 1, drafted, tokens, likeliest, _reason_row(round_.reason)])
    table = {
        "round": names, "draft": _names(DraftToken), "token": token_names,
        "knobs": [dataclasses.asdict(round_) for round_ in knobs], "pieces": list(pieces), "rows": rows,
    }  # fmt: skip
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode())


def unpack(packed: bytes) -> tuple[Round, ...]:
    """The rounds that `pack` made these bytes from, with texts made safe to show. Raises PackedError."""
    try:
        table = json.loads(zlib.decompressobj().decompress(packed, MOST_BYTES))
        knobs = [read_knobs(settings) for settings in table["knobs"]]
        pieces = [(number, safe(text)) for number, text in table["pieces"]]
        rows = table["rows"]
        values, numbers, drafted, tokens, likeliest, reasons = zip(*rows, strict=True) if rows else ((),) * 6
        fields = checked_columns(Round, table["round"], values)
        # Columns of all rounds are checked and made at once: row by row it takes five times as long.
        fields["knobs"] = [knobs[number] for number in numbers]
        fields["drafted"] = _grouped(drafted, _made(DraftToken, checked_columns(DraftToken, table["draft"], _flat(drafted))))
        fields["tokens"] = _grouped(tokens, _made(Token, _token_columns(table["token"], tokens, fields)))
        fields["likeliest"] = [_likeliest(row, pieces) for row in likeliest]
        fields["reason"] = _reasons(reasons)
        names = list(fields)
        return tuple(Round(**dict(zip(names, row, strict=True))) for row in zip(*fields.values(), strict=True))
    except (
        zlib.error, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError,
        OverflowError, UsageError,
    ) as error:  # fmt: skip
        raise PackedError(f"A part of this conversation's tokens is damaged ({type(error).__name__}).") from error


def _names(kind: type) -> list[str]:
    return list(kind.__annotations__)


def _rounded(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows of drafted or emitted tokens, in which every float is a probability, rounded."""
    return [[_rounded_share(value) if type(value) is float else value for value in row] for row in rows]


def _rounded_share(p: float) -> float:
    return float(f"{p:.3g}")


def _likeliest_row(likeliest: Likeliest | None, pieces: dict[tuple[int, str], int]) -> list[Any] | None:
    """[each, index in `pieces` of each token, probabilities]: the same few tokens are likely in many rounds."""
    if likeliest is None:
        return None
    tokens = zip(array("i", likeliest.ids), likeliest.texts, strict=True)
    numbers = [pieces.setdefault(token, len(pieces)) for token in tokens]
    return [likeliest.each, numbers, list(map(_rounded_share, array("f", likeliest.p)))]


def _likeliest(row: list[Any] | None, pieces: Sequence[tuple[int, str]]) -> Likeliest | None:
    if row is None:
        return None
    row_length, numbers, shares = row
    if len(numbers) != len(shares):
        raise ValueError(row)
    ids, texts = zip(*map(pieces.__getitem__, numbers), strict=True) if numbers else ((), ())
    return Likeliest(row_length, array("i", ids).tobytes(), array("f", shares).tobytes(), texts)


def _reason_row(reason: Reason | None) -> dict[str, Any] | None:
    """What differs from the defaults."""
    if reason is None:
        return None
    given = {name: value for name, value in reason._asdict().items() if value != Reason._field_defaults.get(name)}
    return {
        name: _rounded_share(value)
        if type(value) is float
        else [*map(_rounded_share, value)]
        if type(value) is tuple
        else value
        for name, value in given.items()
    }


def _reasons(rows: Sequence[Mapping[str, Any] | None]) -> list[Reason | None]:
    """The reasons of rounds. Those with the same names are read together."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        if row is not None:
            alike.setdefault(tuple(row), []).append(number)
    reasons: list[Reason | None] = [None] * len(rows)
    for names, places in alike.items():
        made = _made(Reason, _reason_columns([rows[place] or {} for place in places], names))
        for place, reason in zip(places, made, strict=True):
            reasons[place] = reason
    return reasons


def _reason_columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Sequence[Any]]:
    plain = [name for name in names if name not in _TIMES]
    columns = checked_columns(Reason, plain, [[row[name] for name in plain] for row in rows])
    for name in _TIMES:
        columns[name] = [tuple(map(float, row.get(name, ()))) for row in rows]
        for times in columns[name]:
            if len(times) > _MOST_TIMES or not all(0 <= time < _LARGEST for time in times):
                raise ValueError(times)
    return columns


def _token_columns(
    names: Sequence[str], tokens: Sequence[Sequence[Sequence[Any]]], rounds: Mapping[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    """The columns of all tokens of these rounds, whose rows are in `tokens`."""
    numbered = list(zip(rounds["index"], rounds["position"], tokens, strict=True))
    following = {
        "round": [index for index, _, rows in numbered for _ in rows],
        "position": [position + at for _, position, rows in numbered for at in range(len(rows))],
    }
    return following | checked_columns(Token, names, _flat(tokens))


def _flat(groups: Iterable[Iterable[_Any]]) -> list[_Any]:
    return list(chain.from_iterable(groups))


def _grouped(groups: Iterable[Sequence[object]], members: Iterable[_Any]) -> list[tuple[_Any, ...]]:
    """The members in groups of the sizes of these."""
    left = iter(members)
    return [tuple(islice(left, len(group))) for group in groups]


def _made(kind: type[_Record], columns: Mapping[str, Sequence[Any]]) -> list[_Record]:
    """Named tuples of their columns; a field without a column has its default. Raises KeyError if it has none."""
    fields: Any = kind
    filled = [columns[name] if name in columns else repeat(fields._field_defaults[name]) for name in _names(kind)]
    return list(map(kind, *filled))


def read_knobs(table: Mapping[str, Any]) -> Knobs:
    made = Knobs(**checked_fields(Knobs, list(table), list(table.values())))
    for key, _, spec in specs(Knobs):
        check(key, getattr(made, key), spec)
    return made


def checked_fields(kind: type, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """The values by field name, texts made safe. Raises ValueError for a value that its field cannot have."""
    return {name: column[0] for name, column in checked_columns(kind, names, [values]).items()}


def checked_columns(kind: type, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """A column of values by field name, of rows that have these names, texts made safe.

    Raises ValueError for a value that its field cannot have, and for a row of another length.
    """
    if not set(map(len, rows)) <= {len(names)}:
        raise ValueError(names)
    allowed = _allowed(kind)
    columns: dict[str, Sequence[Any]] = {}
    for name, column in zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True):
        if name not in allowed:
            continue
        types, words = allowed[name]
        kinds = set(map(type, column))
        if not kinds <= types or (words and not set(column) <= words):
            raise ValueError(name)
        if kinds & {list, tuple}:
            if not all(isinstance(text, str) for texts in column for text in texts):
                raise ValueError(name)
            column = tuple(tuple(map(safe, texts)) for texts in column)
        elif str in kinds:
            made_safe = {value: safe(value) if isinstance(value, str) else value for value in set(column)}
            column = tuple(map(made_safe.__getitem__, column))
        elif not _are_sound([value for value in column if value is not None] if type(None) in kinds else column):
            raise ValueError(name)
        columns[name] = column
    return columns


def _are_sound(numbers: Sequence[float]) -> bool:
    """Is none of them too large, or no number? (A sum with a NaN is not equal to itself.)"""
    return not numbers or (min(numbers) > -_LARGEST and max(numbers) < _LARGEST and (total := sum(numbers)) == total)


@cache
def _allowed(kind: type) -> Mapping[str, tuple[frozenset[type], frozenset[str]]]:
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
        fields[name] = (frozenset(types | {int} if float in types else types), frozenset(words))
    return fields
