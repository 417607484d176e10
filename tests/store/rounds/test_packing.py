"""Rounds are unpacked as they were packed, other bytes give a PackedError, and in memory they are one sequence."""

import json
import zlib
from array import array
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.records import DraftToken, Likeliest, Reason, ReasonKind, Round, Token
from spectui.store.rounds.packed import CHUNK, PackedRounds
from spectui.store.rounds.packing import MOST_BYTES, PackedError, pack, unpack
from spectui.text import safe
from tests.store.journal_helpers import some_rounds

texts = st.text(max_size=8).map(safe)
shares = st.floats(0, 1)
seconds = st.floats(0, 1e6)
whole = st.integers(0, 2**31)
tokens = st.builds(
    Token, whole, texts, st.sampled_from(["accepted", "correction", "bonus", "plain"]), st.none() | texts, whole, whole,
    st.none() | shares, shares,
)  # fmt: skip
drafts = st.builds(DraftToken, whole, texts, shares, texts, st.sampled_from(["accepted", "rejected", "ignored"]))
knobs = st.builds(
    Knobs, temperature=shares, seed=whole, drafter=st.sampled_from(["auto", "off"]),
    stop=st.lists(st.text("ab\n"), max_size=2).map(tuple),
)  # fmt: skip
likeliest = st.lists(st.tuples(whole, st.floats(0, 1, width=32), texts), max_size=6).map(
    lambda rows: Likeliest(
        2, array("i", [row[0] % 2**31 for row in rows]).tobytes(), array("f", [row[1] for row in rows]).tobytes(),
        tuple(row[2] for row in rows),
    )
)  # fmt: skip
reasons = st.builds(
    Reason, st.sampled_from(get_args(ReasonKind)), whole, whole, *[st.none() | seconds] * 3,
    *[st.lists(seconds, max_size=17).map(tuple)] * 2, st.none() | seconds, whole, st.none() | shares,
)  # fmt: skip


def positioned(round: Round) -> Round:
    """The round with its tokens at the positions that follow from it."""
    tokens = tuple(token._replace(round=round.index, position=round.position + at) for at, token in enumerate(round.tokens))
    return replace(round, tokens=tokens)


rounds = st.builds(
    Round, whole, whole, knobs, st.lists(drafts, max_size=4).map(tuple), st.lists(tokens, max_size=4).map(tuple),
    seconds, seconds, seconds, seconds, whole, st.none() | reasons, st.none() | likeliest, st.none() | seconds,
    st.none() | st.booleans(), seconds,
).map(positioned)  # fmt: skip


@given(st.lists(rounds, max_size=5))
def test_rounds_are_unpacked_as_they_were_but_for_the_last_digits(given_rounds: list[Round]) -> None:
    back = unpack(pack(given_rounds))
    assert unpack(pack(back)) == back, "once rounded they stay as they are"
    for each, was in zip(back, given_rounds, strict=True):
        assert each.seconds == pytest.approx(was.seconds, abs=1e-6)
        for token, before in zip(each.tokens, was.tokens, strict=True):
            assert token.p_target == pytest.approx(before.p_target, rel=5e-3)
            assert token == before._replace(p_target=token.p_target, p_draft=token.p_draft)
        for drafted, proposed in zip(each.drafted, was.drafted, strict=True):
            assert drafted.p == pytest.approx(proposed.p, rel=5e-3)
            assert drafted == proposed._replace(p=drafted.p)
        assert (each.reason is None) == (was.reason is None)
        if each.reason and was.reason:
            assert numbers_of(each.reason) == pytest.approx(numbers_of(was.reason), rel=5e-3)
            assert each.reason.kind == was.reason.kind
        best, known = each.likeliest, was.likeliest
        assert (best and (best.each, best.ids, best.texts)) == (known and (known.each, known.ids, known.texts))
        if best and known:
            assert array("f", best.p) == pytest.approx(array("f", known.p), rel=6e-3)


def numbers_of(reason: Reason) -> list[float]:
    """Those of its figures that are known, -1 for the others."""
    return [-1.0 if value is None else value for value in [*reason[1:6], *reason.passes, *reason.drafting, *reason[8:]]]


def test_packed_tokens_are_small() -> None:
    some = some_rounds(48)
    assert len(pack(some)) < 40 * sum(len(round.tokens) for round in some)


def test_chunks_of_other_versions_are_read() -> None:
    """Of an older one with fewer fields, and of a newer one with more."""
    some = some_rounds()
    table: dict[str, Any] = json.loads(zlib.decompress(pack(some)))
    last = fields(Round)[-1]
    del table["rounds"][last.name]
    table["token"]["unknown"] = ["good"] * len(table["token"]["id"])
    table["knobs"][0]["unknown"] = table["reason"][0]["unknown"] = 1
    assert unpack(zlib.compress(json.dumps(table).encode())) == tuple(
        replace(round, **{last.name: last.default}) for round in some
    )


def test_unpacked_texts_are_safe_to_show() -> None:
    (round,) = some_rounds(1)
    evil = replace(round, tokens=(round.tokens[0]._replace(text="a\x1b]0;b\x07\u202ec"),))
    assert unpack(pack([evil]))[0].tokens[0].text == "a]0;bc"


@given(st.binary(max_size=200) | st.binary(max_size=200).map(zlib.compress))
def test_other_bytes_give_one_sentence(packed: bytes) -> None:
    with pytest.raises(PackedError, match=r"^A part of this conversation's tokens is damaged \(\w+\)\.$"):
        unpack(packed)


@given(st.integers(0), st.integers(1, 255))
def test_damage_gives_the_same_rounds_or_one_sentence(place: int, flipped: int) -> None:
    some = some_rounds()
    packed = bytearray(pack(some))
    packed[place % len(packed)] ^= flipped
    with suppress(PackedError):
        assert unpack(bytes(packed)) == tuple(some), "a bit that means nothing"


def test_a_decompression_bomb_is_refused() -> None:
    with pytest.raises(PackedError):
        unpack(zlib.compress(b" " * (2 * MOST_BYTES) + b"{}"))


ROUNDS = some_rounds(3 * CHUNK)
sizes = st.lists(st.integers(1, 40), min_size=1, max_size=4)


def chunks_of(sizes: list[int]) -> tuple[list[bytes], list[Round]]:
    """Chunks of these sizes, and the rounds that are in them."""
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [pack(ROUNDS[end - size : end]) for size, end in zip(sizes, ends, strict=True)], ROUNDS[: sum(sizes)]


@given(sizes, st.integers(0, 3 * CHUNK), st.data())
def test_chunks_from_the_disk_are_one_sequence_that_grows(sizes: list[int], more: int, data: st.DataObject) -> None:
    chunks, expected = chunks_of(sizes)
    rounds, expected = PackedRounds.of_chunks(chunks), expected + ROUNDS[:more]
    for each in ROUNDS[:more]:
        rounds.append(each)
    assert len(rounds) == len(expected) and list(rounds) == expected
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert rounds.between(start, stop) == expected[start:stop]
    number = data.draw(st.integers(-len(expected), len(expected) - 1))
    assert rounds[number] == expected[number]


@pytest.mark.parametrize("ask", [len, list, bool, lambda rounds: rounds.between(0, 0)])
def test_a_damaged_chunk_leaves_no_rounds(ask: object) -> None:
    chunks, _ = chunks_of([3, 4])
    rounds = PackedRounds.of_chunks([*chunks, b"damaged"])
    assert callable(ask)
    ask(rounds)
    assert not rounds and list(rounds) == [] and len(rounds) == 0
    rounds.append(ROUNDS[0])
    assert list(rounds) == ROUNDS[:1]
