"""After kill -9 at any moment, the file is sound, and the conversation lacks at most the last second or 64 tokens.

`TEST_KILLS` is how often a child with a model is killed; by hand: `TEST_KILLS=50 pytest tests/store/test_kills.py`.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from spectui.store import library
from tests.store.journal_helpers import last

LATE = 64
SECOND = 1.0
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")


@dataclass
class RunRecord:
    """What a child reported until it was killed."""

    prompts: list[str] = field(default_factory=list)
    replies: list[list[tuple[float, int, str]]] = field(default_factory=list)
    """For each reply, its rounds: when they were reported, how many tokens, the text."""
    ended: int = 0
    killed: float = 0.0
    """When the signal was sent; its end may be seen much later on a busy machine."""


class ForkServer:
    """The process that forks the children."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert self.next() == {"ready": True}

    def next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the parent of the children died"
        said: dict[str, Any] = json.loads(line)
        return said

    def run_child(self, tokens: int) -> RunRecord:
        """Let a child chat until it has reported so many tokens, and kill it."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        record, left = RunRecord(), tokens
        pid: int | None = None
        while True:
            said = self.next()
            if "died" in said:
                assert said["died"] == -signal.SIGKILL
                return record
            if "pid" in said:
                pid = said["pid"]
            elif "prompt" in said:
                record.prompts.append(said["prompt"])
                record.replies.append([])
            elif "ended" in said:
                record.ended += 1
            else:
                record.replies[-1].append((time.monotonic(), said["tokens"], said["text"]))
                left -= said["tokens"]
            if left <= 0 and pid is not None:
                record.killed = time.monotonic()
                os.kill(pid, signal.SIGKILL)
                pid = None  # what it reported until then is still to be read


@contextmanager
def fork_server(file: Path, kind: str) -> Iterator[ForkServer]:
    command = [sys.executable, "-m", "tests.store.kill_child", str(file), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield ForkServer(process)
        assert process.stdin is not None
        process.stdin.close()


def check(file: Path, record: RunRecord) -> None:
    """Check that the file is sound, and has what must be on disk after such a run."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    if not record.prompts:
        return
    conversation = last(file)
    said = [message.text for message in conversation.messages if message.role == "user"]
    assert said[: len(record.prompts)] == record.prompts, "every prompt whose reply could begin"
    replies = [message for message in conversation.messages if message.role == "assistant"]
    for index, rounds in enumerate(record.replies):
        text = "".join(text for _, _, text in rounds)
        kept = replies[index].text if index < len(replies) else ""
        reply = replies[index].reply if index < len(replies) else None
        assert kept == "".join(token.text for round in (reply.rounds if reply else ()) for token in round.tokens)
        number = sum(len(round.tokens) for round in reply.rounds) if reply else 0
        if index < record.ended - 1:
            assert kept == text and reply is not None and reply.stop is not None
        else:
            assert kept.startswith(text) or text.startswith(kept)
            lost = sum(tokens for _, tokens, _ in rounds) - number
            last_second = sum(tokens for when, tokens, _ in rounds if when > record.killed - SECOND)
            assert lost <= max(LATE, last_second), (lost, last_second)


def kill(file: Path, kind: str, times: int, most: int) -> None:
    chance = random.Random(7)
    with fork_server(file, kind) as children:
        for _ in range(times):
            check(file, children.run_child(chance.randrange(most)))
    kept = library.summaries(file)
    assert len(kept) > times // 2
    for summary in kept:
        assert library.open_conversation(file, summary.id).messages


def test_killed_while_rounds_arrive_quickly(tmp_path: Path) -> None:
    kill(tmp_path / "conversations.db", "fake", 40, 400)


def test_killed_seconds_after_a_reply_began(tmp_path: Path) -> None:
    """Nothing of it but the last second is lost."""
    with fork_server(tmp_path / "conversations.db", "long") as children:
        record = children.run_child(1500)
    (rounds,) = record.replies
    assert rounds[0][0] < record.killed - SECOND, "it took longer than what may be lost"
    check(tmp_path / "conversations.db", record)


def test_killed_while_smollm2_writes(tmp_path: Path) -> None:
    kill(tmp_path / "conversations.db", "model", int(os.environ.get("TEST_KILLS", "6")), 100)
