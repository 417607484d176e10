"""Requests of others than the chat: each has an id that its events bear, its own knobs and stop texts, and its own stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from spectui.engine import worker as worker_module
from spectui.engine.events import Event, Failed, Finished, Loaded, Message, OfRequest, Prompt, Request, RoundDone
from spectui.engine.worker import Worker
from spectui.knobs import Knobs
from spectui.speculation.records import StopReason
from tests.engine.waiting import PATIENCE, Events, Held
from tests.helpers.smollm2 import SNAKE, alone

QUESTION = (Message("user", SNAKE),)
KNOBS = Knobs(temperature=0, predict=12, drafter="off")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker_module, "deque", Events)
        worker = Worker(KNOBS)
        events = worker.events
        worker.load(alone())
        assert isinstance(events, Events) and events.wait(Loaded)
        yield worker
        worker.close(PATIENCE)


@pytest.fixture
def events(worker: Worker) -> Events:
    assert isinstance(worker.events, Events)
    worker.events.clear()
    worker.events.hook = lambda _: None
    return worker.events


def of(events: Events, id: str) -> list[Event]:
    return [event.event for event in events.of(OfRequest) if event.id == id]


def ended(events: Events, id: str) -> Finished:
    """What it ended with; waits for that."""

    number, last = 0, None
    while last is None:
        number += 1
        events.wait(OfRequest, number)
        last = next((event for event in of(events, id) if isinstance(event, Finished | Failed)), None)
    assert isinstance(last, Finished)
    return last


def test_the_events_bear_the_id_and_the_knobs_are_its_own(worker: Worker, events: Events):
    worker.answer(Request("a", QUESTION, replace(KNOBS, predict=5)))
    worker.answer(Request("b", QUESTION, replace(KNOBS, predict=3, seed=9)))
    worker.generate(QUESTION)
    assert ended(events, "a").statistics.emitted == 5
    assert ended(events, "b").knobs.seed == 9
    plain = events.wait(Finished)
    assert plain.statistics.emitted == 12 and worker.knobs == KNOBS
    for id in ("a", "b"):
        kinds = [type(event) for event in of(events, id)]
        assert kinds[0] is Prompt and kinds[-1] is Finished and {Prompt, RoundDone} <= set(kinds)
    assert plain.text.startswith(ended(events, "a").text)


def test_its_stop_texts_are_its_own(worker: Worker, events: Events):
    worker.answer(Request("whole", QUESTION, KNOBS))
    text = ended(events, "whole").text
    stop = text.strip()[4:8]
    worker.answer(Request("cut", QUESTION, replace(KNOBS, stop=(stop,))))
    cut = ended(events, "cut")
    assert (cut.reason, cut.text) == (StopReason.STOP, text[: text.index(stop)])


def test_knobs_that_are_turned_meanwhile_are_the_chats(worker: Worker, events: Events):
    held = Held(events, lambda event: isinstance(event, OfRequest) and isinstance(event.event, RoundDone))
    worker.answer(Request("a", QUESTION, replace(KNOBS, predict=6)))
    with held:
        worker.knobs = replace(KNOBS, predict=2)
    assert ended(events, "a").statistics.emitted == 6
    worker.generate(QUESTION)
    assert events.wait(Finished).statistics.emitted == 2
    worker.knobs = KNOBS


def test_it_alone_is_stopped(worker: Worker, events: Events):
    long = replace(KNOBS, predict=200)
    held = Held(events, lambda event: isinstance(event, OfRequest) and isinstance(event.event, RoundDone))
    for id in ("running", "waiting"):
        worker.answer(Request(id, QUESTION, long))
    worker.answer(Request("other", QUESTION, KNOBS))
    with held:
        worker.stop("waiting")
        worker.stop("running")
        worker.stop("unknown")
    assert ended(events, "running").reason is StopReason.CANCELLED
    assert ended(events, "waiting").reason is StopReason.CANCELLED
    assert ended(events, "waiting").statistics.emitted == 0
    assert ended(events, "other").statistics.emitted == 12


def test_what_fails_bears_the_id_too(worker: Worker, events: Events):
    worker.answer(Request("a", (Message("user", "word " * 5000),), KNOBS))
    worker.answer(Request("b", QUESTION, KNOBS))
    assert ended(events, "b").statistics.emitted == 12
    assert isinstance(of(events, "a")[-1], Failed)
