"""Rounds in memory are the same sequence whether they were appended, or read from the disk in chunks of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.speculation.records import Round
from spectui.store.rounds.packed import CHUNK, PackedRounds
from spectui.store.rounds.packing import pack
from tests.store.journal_helpers import some_rounds

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
