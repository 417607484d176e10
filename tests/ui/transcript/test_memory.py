"""What a token of a long conversation takes in memory, with all that is known of it."""

import gc
import random
import sqlite3
import tracemalloc
from array import array
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import RLock

import pytest

from spectui.chat.session import ChatSession
from spectui.engine.events import RoundDone
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import DraftToken, Likeliest, Origin, Round, Token
from spectui.store import database
from spectui.store.records import OpenMessage, Reply, StoredConversation, StoredMessage
from spectui.store.rounds.packed import PackedRounds, same
from spectui.store.rounds.packing import pack
from spectui.store.rows import ConversationLog, write
from spectui.ui.transcript.drawing import Drawing, View
from spectui.ui.transcript.source import Source
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import last

A_CHUNK = 20
"""Tokens that go to the disk together: what is written in a second or less, here at 25 tokens a second."""

KNOBS = Knobs(temperature=0.8, seed=3)


@cache
def vocabulary() -> list[str]:
    letters = random.Random(1).choices(" etaoinshrdlucmfwypvbgkqjxz", k=49_000)
    return ["".join(letters[at : at + 2 + at % 8]) for at in range(len(letters))]


class Noise:
    """Makes rounds as a real pair does: words as frequent as in a text, out of a large vocabulary, and numbers that are
    noise in every digit."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._words = vocabulary()

    def round(self, index: int, accepted: int, rejected: int) -> Round:
        """A round of so many accepted and rejected tokens."""
        size = accepted + 1
        likely = [[self._id() for _ in range(5)] for _ in range(size)]
        chosen = [each[int(self._random.random() * 1.5)] for each in likely]
        drafted = tuple(
            DraftToken(number, self._words[number], self._share(), "model", "accepted" if at < accepted else "rejected")
            for at, number in enumerate([*chosen[:accepted], *(self._id() for _ in range(rejected))])
        )
        own: Origin = "correction" if rejected else "plain"
        tokens = tuple(
            Token(number, self._words[number], "accepted" if at < accepted else own, "model" if at < accepted else None,
                  index, index * size + at, self._share() if at < accepted else None, self._share())
            for at, number in enumerate(chosen)
        )  # fmt: skip
        ids = array("i", (number for each in likely for number in each))
        shares = array("f", (self._share() for _ in ids))
        best = Likeliest(5, ids.tobytes(), shares.tobytes(), tuple(self._words[number] for number in ids))
        draft_s, verify_s, choose_s, plain_s = (self._random.gauss(1, 0.1) * s for s in (0.003, 0.01, 0.0005, 0.01))
        return Round(index, index * size, KNOBS, drafted, tokens, draft_s, verify_s, choose_s,
                     draft_s + verify_s + choose_s + 0.0001 * self._random.random(), 1 + len(drafted),
                     None, best, plain_s)  # fmt: skip

    def _id(self) -> int:
        return int(len(self._words) ** self._random.random()) - 1

    def _share(self) -> float:
        return self._random.random() ** 3


def taken(size: int, each: int, make: Callable[[int], Round], connection: sqlite3.Connection) -> int:
    """Bytes that so many tokens of `each` a round take: in session, journal and transcript."""
    session, fresh, commits = ChatSession(FakeEngine(), Setup(model="target.gguf")), 0, 0
    session.send("Why?")
    reply, log = session.writing, session.journal._log
    assert reply is not None and log is not None
    save(connection, log)
    source = Source(reply.rounds)
    drawing = Drawing(source, View(80))
    tracemalloc.start()
    for index in range(size // each):
        round = make(index)
        session.engine.events.append(RoundDone(round, index))
        deque(session.drain(), maxlen=0)
        source.grow()
        drawing.grow()
        del round
        fresh += each
        if fresh >= A_CHUNK:
            save(connection, log)
            fresh, commits = 0, commits + 1
    taken = held()
    assert source.read == size // each and commits == size // A_CHUNK
    return taken


def save(connection: sqlite3.Connection, log: ConversationLog) -> None:
    """What the writer does."""
    written = write(connection, log, whole=log.saved_in is None)
    log.committed(written, 1)


def logged(conversation: StoredConversation, saved_in: int | None = None) -> ConversationLog:
    """A conversation in the journal."""
    return ConversationLog(conversation, map(OpenMessage.of, conversation.messages), RLock(), saved_in)


def held() -> int:
    """Bytes that are held of what was taken since the tracing began, which it ends."""
    gc.collect()  # Python keeps room of freed tuples and numbers for the next ones, up to a megabyte
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size


@pytest.mark.parametrize(("accepted", "rejected"), [(0, 0), (3, 2)], ids=["plain", "drafted"])
def test_a_token_takes_less_than_200_bytes_in_session_journal_and_transcript(
    accepted: int, rejected: int, tmp_path: Path
) -> None:
    connection = database.connect(tmp_path / "conversations.db")
    noise = Noise()
    rounds = [noise.round(index, accepted, rejected) for index in range(1600 // (accepted + 1))]
    try:
        more, less = (
            least(lambda size=size: taken(size, accepted + 1, rounds.__getitem__, connection)) for size in (1600, 800)
        )
        assert (more - less) / 800 < 200
    finally:
        connection.close()


def test_a_token_takes_less_than_200_bytes_also_in_a_conversation_that_was_read_from_the_disk(tmp_path: Path) -> None:
    noise = Noise()
    rounds = [noise.round(index, 3, 2) for index in range(600)]
    more, less = (least(lambda size=size: taken_when_read(tmp_path, rounds[:size])) for size in (600, 200))
    assert (more - less) / 1600 < 200


def least(measure: Callable[[], int]) -> int:
    """The smaller of two measurements: Python's table of interned strings doubles at once, by megabytes, at any of them."""
    return min(measure(), measure())


def taken_when_read(folder: Path, rounds: list[Round]) -> int:
    """Bytes that a conversation of these rounds takes: as it was read, in transcript and journal."""
    text = "".join(token.text for each in rounds for token in each.tokens)
    reply = Reply(Setup(model="target.gguf"), "eos", 1, 0.1, 0.1, PackedRounds.of_chunks([pack(rounds)]))
    file = folder / "conversations.db"
    file.unlink(missing_ok=True)
    connection = database.connect(file)
    try:
        message = StoredMessage(1, None, "assistant", text, 0.0, reply)
        save(connection, logged(StoredConversation("1", "Why?", 0.0, 0.0, "", "", (message,))))
        tracemalloc.start()
        conversation = last(file)
        log = logged(conversation, 1)
        save(connection, log)
        read = conversation.messages[0].reply
        assert read is not None and all(map(same, read.rounds, rounds))
        source = Source(read.rounds)
        source.grow()
        drawing = Drawing(source, View(80))
        taken = held()
    finally:
        connection.close()
    assert source.read == len(rounds) and drawing.height
    return taken
