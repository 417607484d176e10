"""A trace is written beside the chat, which goes on whatever becomes of the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spectui.engine.events import Event, Notice
from spectui.engine.worker import Worker
from spectui.errors import ExistsError
from spectui.traces import writer as room
from spectui.traces.format import TraceError
from spectui.traces.reader import Trace
from spectui.traces.writer import TraceWriter
from tests.engine.waiting import Events
from tests.store.journal_helpers import until
from tests.traces.events import KNOBS, chat
from tests.traces.test_format import written


@contextmanager
def tracing(file: Path) -> Iterator[tuple[Any, TraceWriter]]:
    worker = Worker(KNOBS)
    worker.events = Events()
    writer = TraceWriter(file, worker)
    yield worker, writer
    worker.close()
    writer.close()


def say(worker: Worker, events: Sequence[Event]) -> None:
    """As the engine's thread does."""
    for event in events:
        worker._emit(event)


def test_what_the_engine_says_is_written(tmp_path: Path):
    with tracing(tmp_path / "t") as (worker, _):
        say(worker, chat())
    assert list(Trace(tmp_path / "t")) == list(Trace(written(tmp_path / "u", chat())))
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o600
    assert tuple(worker.events) == chat()  # whoever shows the chat gets them all


def test_it_is_written_while_the_chat_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "COLLECT_S", 0.01)
    with tracing(tmp_path / "t") as (worker, _):
        for end in (4, 8):
            say(worker, chat()[end - 4 : end])
            lines = end + 1 - (end == 8)  # half of a prompt has no line
            until(lambda lines=lines: len((tmp_path / "t").read_bytes().splitlines()) == lines)


def test_a_full_disk_is_one_notice_and_the_chat_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "COLLECT_S", 0.01)
    with tracing(Path("/dev/full")) as (worker, writer):
        say(worker, chat())
        worker.events.wait(Notice, 2)  # one is the chat's own
        say(worker, chat())
        until(lambda: not writer._events)
    notices = [event.message for event in worker.events if isinstance(event, Notice) and "trace" in event.message]
    assert notices == ["The trace /dev/full is not complete: No space left on device. The chat goes on."]
    assert writer.close() == ""


def test_a_full_disk_at_the_end_is_said_at_the_end():
    with tracing(Path("/dev/full")) as (worker, writer):
        say(worker, chat())
        assert "No space left" in writer.close()


def test_an_older_trace_is_replaced_and_nothing_else(tmp_path: Path):
    written(tmp_path / "old", chat())
    with tracing(tmp_path / "old") as (worker, _):
        say(worker, chat()[:2])
    assert len(list(Trace(tmp_path / "old"))) == 2
    (tmp_path / "notes").write_text("my notes\n")
    with pytest.raises(ExistsError, match="is no trace"):
        TraceWriter(tmp_path / "notes", Worker())
    assert (tmp_path / "notes").read_text() == "my notes\n"


def test_where_nothing_can_be_written_it_is_said_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path, tmp_path / "no" / "t", tmp_path / "pipe"):
        with pytest.raises(TraceError, match=str(file)):
            TraceWriter(file, Worker())
