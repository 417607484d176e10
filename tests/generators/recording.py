"""Records the chat that `spectui replay demo` plays: `python -m tests.generators.recording TARGET DRAFT`.

Two real models answer, on a machine that does nothing else meanwhile. Name them from the folder where they lie, since the names
are shown.
"""

import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import sleep

from spectui.chat.player import DEMO, demo_file
from spectui.chat.session import ChatSession
from spectui.engine.worker import Worker
from spectui.knobs import Knobs, Setup
from spectui.store.database import names_kept
from spectui.store.journal import Journal

TITLE = "Qwen2.5-Coder 1.5B + 0.5B on two cores"

CHAT: tuple[tuple[str, Mapping[int, int]], ...] = (
    ("Tell a story of a lighthouse in three sentences.", {}),
    ("Write a Python class Stack with push, pop, peek, size and is_empty. No explanation.", {}),
    ("Return the class again, with `items` renamed to `elements`. No explanation.", {0: 2, 9: 16}),
)
"""Prompts, and draft-max from a round of the reply on."""


def record(file: Path, setup: Setup) -> None:
    """Ask the prompts one after the other, and have the chat written to the file."""
    engine, journal = Worker(Knobs(temperature=0.0, seed=1)), Journal(file)
    engine.wants_probabilities = True
    session = ChatSession(engine, setup, journal)
    engine.load(setup)
    while session.state == "loading":
        _take(session)
    try:
        for prompt, turns in CHAT:
            assert session.submit(prompt), session.state
            while session.replying:
                rounds = len(session.messages[-1].rounds)
                for round, draft_max in turns.items():
                    if rounds >= round:
                        session.knobs = replace(session.knobs, draft_max=draft_max)
                _take(session)
            print(f"{prompt}\n\n{session.messages[-1].content}\n")
    finally:
        session.close()


def _take(session: ChatSession) -> None:
    for _ in session.drain():
        pass
    sleep(0.005)


def ship(recorded: Path, file: Path) -> None:
    """Make the file that ships, under a name to be typed, with a title, and readable where nothing can be written."""
    file.unlink(missing_ok=True)
    with names_kept(recorded), closing(sqlite3.connect(recorded, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("UPDATE conversation SET id = ?, title = ?", (DEMO, TITLE))
        connection.execute("UPDATE message SET conversation = ?", (DEMO,))
        connection.execute("VACUUM INTO ?", (str(file),))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        recorded = Path(directory) / "conversations.db"
        record(recorded, Setup(model=sys.argv[1], draft=sys.argv[2], ctx_size=4096))
        ship(recorded, demo_file())
