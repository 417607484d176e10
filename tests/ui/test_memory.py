"""What a token of a long conversation takes in memory, with all that is known of it."""

from __future__ import annotations

import random
import sqlite3
import tracemalloc
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.engine.fake import FakeEngine
from spectui.knobs import Knobs
from spectui.speculation.records import DraftToken, Likeliest, Origin, Round, Token
from spectui.store import database
from spectui.store.journal import RoundsToAppend
from spectui.store.writer import LATE_TOKENS
from spectui.ui.blocks import Block
from spectui.ui.packed import CHUNK
from spectui.ui.wrap import Flow

WORDS = [f" word{number}" for number in range(500)]
KNOBS = Knobs()


def drawn_round(numbers: random.Random, index: int, accepted: int, rejected: int) -> Round:
    """A round with every number drawn at random, so that it packs worse than any real one."""
    size = accepted + 1
    words = [numbers.choice(WORDS) for _ in range(size + rejected)]
    drafted = tuple(
        DraftToken(numbers.randrange(150_000), word, numbers.random(), "model",
                   "accepted" if at < accepted else "rejected")
        for at, word in enumerate(words[:accepted] + words[size:])
    )  # fmt: skip
    own: Origin = "correction" if rejected else "plain"
    tokens = tuple(
        Token(numbers.randrange(150_000), word, "accepted" if at < accepted else own, "model", index, index * size + at,
              numbers.random(), numbers.random())
        for at, word in enumerate(words[:size])
    )  # fmt: skip
    ids = array("i", (numbers.randrange(150_000) for _ in range(5 * size)))
    shares = array("f", (numbers.random() for _ in range(5 * size)))
    best = Likeliest(5, ids.tobytes(), shares.tobytes(), tuple(numbers.choice(WORDS) for _ in range(5 * size)))
    draft_s, verify_s, choose_s, seconds = (numbers.random() for _ in range(4))
    return Round(index, index * size, KNOBS, drafted, tokens, draft_s, verify_s, choose_s, seconds, 1 + len(drafted),
                 "drafting 4 of 16", best, 0.02)  # fmt: skip


def faked(engine: FakeEngine, index: int, accepted: int, rejected: int) -> Round:
    """A round of the engine that the window is measured with."""
    words = [WORDS[(index * 7 + place * 5) % 12] for place in range(accepted + 1)]
    engine.events.clear()
    if accepted:
        return engine.emit_round(*words[:-1], correction=words[-1], rejected=WORDS[:rejected], plain_s=0.002)
    return engine.emit_round(plain=words[0], plain_s=0.002)


def taken(size: int, each: int, make: Callable[[int], Round], connection: sqlite3.Connection | None) -> int:
    """Bytes that so many tokens of `each` a round take: in the transcript, and where one is given, for the journal."""
    block, done, late = Block(Flow(80)), [], []
    tracemalloc.start()
    for index in range(size // each):
        round = make(index)
        block.add(round, False)
        late.append(round)
        if connection is not None and len(late) * each >= LATE_TOKENS:
            done.append(RoundsToAppend(1, late))
            done[-1](connection)
            late = []
        elif connection is None:
            late.clear()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken


def per_token(each: int, make: Callable[[int], Round], connection: sqlite3.Connection | None = None) -> float:
    """Bytes that a token adds in a long reply."""
    return (taken(9000, each, make, connection) - taken(3000, each, make, connection)) / 6000


@pytest.mark.parametrize(("accepted", "rejected"), [(0, 0), (3, 2)], ids=["plain", "drafted"])
def test_a_token_takes_less_than_200_bytes_in_transcript_and_journal(
    accepted: int, rejected: int, tmp_path: Path
) -> None:
    connection = database.connect(tmp_path / "conversations.db")
    engine = FakeEngine()

    def make(index: int) -> Round:
        round = faked(engine, index, accepted, rejected)
        engine._rounds.clear()
        return round

    try:
        assert per_token(accepted + 1, make, connection) < 200
    finally:
        connection.close()


@pytest.mark.parametrize(("accepted", "rejected"), [(0, 0), (3, 2)], ids=["plain", "drafted"])
def test_the_transcript_takes_less_than_200_bytes_a_token_whatever_the_numbers(accepted: int, rejected: int) -> None:
    numbers = random.Random(0)
    assert per_token(accepted + 1, lambda index: drawn_round(numbers, index, accepted, rejected)) < 200


def test_a_packed_round_is_what_it_was() -> None:
    numbers = random.Random(0)
    made = [drawn_round(numbers, index, index % 4, index % 2) for index in range(6 * CHUNK)]
    block = Block(Flow(80))
    for each in made:
        block.add(each, False)
    assert list(block.rounds) == made == block.rounds[:]
    for number in (0, CHUNK, 3 * CHUNK - 1, len(made) - 1):
        assert block.rounds[number] == made[number] == block.rounds[number - len(made)]
        assert block.number_of(made[number]) == number
        place = len(made[number].tokens) - 1
        piece = block.piece_of(number, place)
        assert piece is not None and block.place_of(piece) == (number, place)
        assert block.token_at(piece) == made[number].tokens[-1]
    assert block.number_of(drawn_round(numbers, 7, 1, 1)) is None


def test_a_reply_that_was_gone_on_with_counts_its_rounds_anew() -> None:
    engine = FakeEngine()
    first = [faked(engine, index, 3, 2) for index in range(3 * CHUNK)]
    engine._rounds.clear()
    then = [faked(engine, index, 0, 0) for index in range(5)]
    block = Block(Flow(80))
    for each in (*first, *then):
        block.add(each, False)
    assert [block.number_of(each) for each in then] == [len(first) + at for at in range(5)]
    assert block.token_at(block.pieces - 1) == then[-1].tokens[0]
