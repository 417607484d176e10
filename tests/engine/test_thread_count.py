"""Fewer threads while other processes use the cores, and the same text with any number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spectui.engine.events import Event, Message, ThreadsInUse
from spectui.engine.session import Session
from spectui.engine.thread_count import CpuSeconds, ThreadCount, read_cpu_seconds
from spectui.knobs import Knobs
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from tests import smollm2


class Machine:
    """A clock, and CPU time that others and this process have used."""

    def __init__(self) -> None:
        self.now = self.others = self.own = 0.0

    def run(self, others: float, own: float, seconds: float = 0.4) -> None:
        """Let others use so many cores, and this process too."""
        self.now += seconds
        self.others += others * seconds
        self.own += own * seconds

    def count(self, most: int, cores: int | None = None) -> ThreadCount:
        read = lambda: CpuSeconds(self.others + self.own, self.own)  # noqa: E731
        return ThreadCount(most, cores, read, lambda: self.now)


@pytest.mark.parametrize(
    ("most", "cores", "others", "now"),
    [(2, 2, 0.0, 2), (2, 2, 0.3, 2), (2, 2, 0.67, 1), (2, 2, 2.0, 1), (8, 8, 1.0, 7), (8, 8, 3.5, 4), (4, 8, 3.0, 4)],
)
def test_threads_are_given_up_for_cores_that_others_use(most: int, cores: int, others: float, now: int):
    machine = Machine()
    count = machine.count(most, cores)
    machine.run(others, most)
    assert count.update() == (now != most)
    assert count.now == now


def test_they_come_back_when_the_cores_have_been_free_for_a_while():
    machine = Machine()
    count = machine.count(2)
    machine.run(1.0, 1.3)
    assert count.update() and count.now == 1
    numbers = []
    for others in (1.0, 0.0, 0.9, 0.0, 0.0, 0.0):
        machine.run(others, 1.0)
        count.update()
        numbers.append(count.now)
    assert numbers == [1, 1, 1, 1, 2, 2]


def test_a_moment_tells_nothing():
    machine = Machine()
    count = machine.count(2)
    machine.run(2.0, 0.0, seconds=0.05)
    assert not count.update() and count.now == 2


def test_own_time_is_part_of_all():
    before = read_cpu_seconds()
    while read_cpu_seconds().own < before.own + 0.2:
        pass
    after = read_cpu_seconds()
    assert after.all - before.all > 0.5 * (after.own - before.own)


def test_logits_do_not_depend_on_the_number_of_threads():
    """Also behind 512 tokens, where ggml divides the cells of a single row among the threads."""
    model = Model(smollm2.setup().model or "")
    context = Context(model, Interrupt(), n_ctx=1024, rows=8, equal_rows=True)
    tokens = [int(token) for token in np.random.default_rng(0).integers(100, 20000, 608)]
    context.evaluate(tokens[:600], 0)
    found = []
    for number in (1, 2):
        context.use_threads(number)
        for rows in (1, 4):
            found.append(context.evaluate(tokens[600 : 600 + rows], rows).copy())
            context.truncate(600)
    context.close()
    model.close()
    for one, other in zip(found[2:], found, strict=False):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_reply_goes_on_with_fewer_threads_unless_a_number_was_named(threads: int, monkeypatch: pytest.MonkeyPatch):
    """The text is the one of a quiet machine."""
    machine, events = Machine(), list[Event]()
    monkeypatch.setattr("spectui.engine.pair.ThreadCount", lambda most: machine.count(2))
    session = Session(events.append)
    session.load(replace(smollm2.setup(), threads=threads, no_profile="on"))
    session.knobs = Knobs(temperature=0, predict=12)
    quiet = session.generate([Message("user", "hi")]).text
    assert not [event for event in events if isinstance(event, ThreadsInUse)]

    def busy(event: Event) -> None:
        machine.run(1.0, 1.3)

    with session.listening(lambda event: (events.append(event), busy(event))[0]):
        assert session.generate([Message("user", "hi")]).text == quiet
    session.close()
    changed = [event for event in events if isinstance(event, ThreadsInUse)]
    assert changed == ([] if threads else [ThreadsInUse(1, 2)])
