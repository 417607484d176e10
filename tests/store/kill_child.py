"""A program that chats until it is killed: `python -m tests.store.kill_child FILE fake|model`.

For each line on its standard input it forks. The child chats and reports what it has said in lines of JSON; the parent reports
how the child died. What takes long (imports, a model) is done before the fork, so a run costs milliseconds. The model computes
in one thread, which survives a fork.
"""

import json
import os
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from spectui.chat.session import ChatSession
from spectui.engine.events import Event, Message, RoundDone
from spectui.knobs import Knobs, Setup
from spectui.store import database, journal
from spectui.store.database import connect
from spectui.store.journal import Journal
from tests.fake_engine import FakeEngine

Answer = Callable[[tuple[Message, ...], Callable[[Event], None]], None]


def say(**said: object) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


def chat(file: Path, setup: Setup, answer: Answer) -> None:
    """Send one prompt after the other, as the window does."""
    asked = FakeEngine()
    session = ChatSession(asked, setup, Journal(file))

    def take(event: Event) -> None:
        asked.events.append(event)
        deque(session.drain(), maxlen=0)
        if isinstance(event, RoundDone):
            say(text="".join(token.text for token in event.round.tokens), tokens=len(event.round.tokens))

    for number in count():
        prompt = f"{os.getpid()}: write {number}"
        session.send(prompt)
        session.journal.flush()  # a prompt is reported once it is on disk, however slow that is
        say(prompt=prompt)
        answer(asked.generates[-1][-1:], take)
        say(ended=True)
        assert not session.journal.notices, session.journal.notices


def fake_answer(messages: tuple[Message, ...], take: Callable[[Event], None], rounds: int = 40) -> None:
    engine = FakeEngine()
    for number in range(rounds):
        engine.emit_round(f" {number}", "a", correction="b", rejected=["c"] * (number % 7))
        take(engine.events.popleft())
        time.sleep(0.004)  # a target pass
    engine.finish()
    take(engine.events.popleft())


def model_answer() -> tuple[Setup, Answer]:
    from spectui.engine import session as engine
    from tests.helpers import smollm2

    setup = smollm2.setup()
    takes: list[Callable[[Event], None]] = [lambda _: None]
    loaded = engine.Session(lambda event: takes[-1](event))
    loaded.load(setup)

    def answer(messages: tuple[Message, ...], take: Callable[[Event], None]) -> None:
        takes.append(take)
        loaded.generate(messages)

    loaded.knobs = Knobs(temperature=0, predict=4)
    answer((Message("user", "hi"),), lambda _: None)  # what is made at the first call is made before the forks
    loaded.knobs = Knobs(temperature=0, predict=60)
    return setup, answer


def connect_quickly(file: Path) -> sqlite3.Connection:
    """A connection that waits for no disk: what a killed process has written, the system has."""
    connection = connect(file)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def main(file: Path, kind: str) -> None:
    journal.FLUSH_WAIT_S = 60.0
    database.connect = connect_quickly
    long_answer = partial(fake_answer, rounds=100_000)
    fake = Setup(model="fake.gguf"), long_answer if kind == "long" else fake_answer
    setup, answer = model_answer() if kind == "model" else fake
    say(ready=True)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            chat(file, setup, answer)
        say(pid=child)
        _, status = os.waitpid(child, 0)
        say(died=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
