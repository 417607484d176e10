"""Fewer threads while other processes use the cores, and the same text with any number."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.engine.costs.files import DraftCosts, TargetCosts
from spectui.engine.events import Event, Message, ThreadsInUse
from spectui.engine.loading import placement
from spectui.engine.pair import Pair
from spectui.engine.session import Session
from spectui.engine.thread_count import CpuSeconds, ThreadCount, read_cpu_seconds
from spectui.knobs import Knobs, Setup
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.cpu import reference_path
from spectui.llama.interrupt import Interrupt
from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.speculation.drafters.ahead import AheadDrafter
from tests.helpers import smollm2
from tests.llama.ggufs import write_model
from tests.toys import toy_drafter


class Machine:
    """A clock, and CPU time that others and this process have used."""

    def __init__(self) -> None:
        self.now = self.others = self.own = 0.0
        self.busy = 0.0
        """Cores that others use while the count pauses."""

    def run(self, others: float, own: float, seconds: float = 0.4) -> None:
        """Let others use so many cores, and this process too."""
        self.now += seconds
        self.others += others * seconds
        self.own += own * seconds

    def count(self, most: int, cores: int = 2) -> ThreadCount:
        read = lambda: CpuSeconds(self.others + self.own, self.own)  # noqa: E731
        self.most = most
        return ThreadCount(lambda: self.most, cores, read, lambda: self.now, lambda s: self.run(self.busy, 0.0, s))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The one that pairs count their threads on, with two cores."""
    machine = Machine()
    monkeypatch.setattr("spectui.engine.pair.ThreadCount", lambda most, cores: machine.count(2))
    return machine


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


def test_a_quota_that_changes_is_followed():
    machine = Machine()
    count, seen = machine.count(2), []
    for most in (2, 1, 1, 2, 2):
        machine.most = most
        machine.run(0.0, most)
        seen.append((count.update(), count.now, count.most))
    assert seen == [(False, 2, 2), (True, 1, 1), (False, 1, 1), (True, 1, 2), (True, 2, 2)]


def test_a_moment_tells_nothing():
    machine = Machine()
    count = machine.count(2)
    machine.run(2.0, 0.0, seconds=0.05)
    assert not count.update() and count.now == 2


def test_before_many_tokens_the_present_counts_and_not_the_time_since_the_last_look():
    machine = Machine()
    count = machine.count(2)
    for busy, now in ((1.0, 1), (0.0, 2)):
        machine.run(1.0 - busy, 0.0, seconds=600)
        machine.busy = busy
        assert count.update_for_many() and count.now == now
    machine.run(1.0, 1.0)
    since = machine.now
    assert count.update_for_many() and count.now == 1
    assert machine.now == since, "the last look was a moment ago"


def test_own_time_is_part_of_all():
    before = read_cpu_seconds()
    while read_cpu_seconds().own < before.own + 0.2:
        pass
    after = read_cpu_seconds()
    assert after.all - before.all > 0.5 * (after.own - before.own)


@pytest.mark.parametrize("kernels", [True, False])
def test_logits_do_not_depend_on_the_number_of_threads_where_the_kernels_can_be_chosen(
    kernels: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also behind 256 tokens, where ggml divides the cells of a single row among the threads, and of a prompt that is read."""
    monkeypatch.setattr(reference_path, "available", lambda: kernels)
    model = Model(str(write_model(tmp_path / "model.gguf")), extra_buffers=selftest.run().extra_buffers)
    context = Context(model, Interrupt(), n_ctx=512, rows=8, ubatch=128, equal_rows=True)
    tokens = [int(token) for token in np.random.default_rng(0).integers(5, model.n_vocab, 264)]
    found: dict[int, list[NDArray[np.float32]]] = {1: [], 2: []}
    for number, rows in found.items():
        context.use_threads(number)
        context.truncate(0)
        for start in (0, 128):
            context.evaluate(tokens[start : start + 128], 0)
        for size in (4, 1):
            rows.append(context.evaluate(tokens[256 : 256 + size], size).copy())
            context.truncate(256)
    context.close()
    model.close()
    assert [np.array_equal(one, other) for one, other in zip(found[1], found[2], strict=True)] == [True, kernels]


@pytest.mark.parametrize(
    ("changed", "kernels", "stays"),
    [
        ({}, True, False),
        ({}, False, True),
        ({"cache_type_k": "f32"}, False, True),
        ({"cache_type_v": "q8_0"}, False, False),
        ({"flash_attn": "off"}, False, False),
        ({"strict": "on"}, False, True),
    ],
)
def test_the_number_stays_where_the_text_depends_on_it(
    changed: dict[str, str], kernels: bool, stays: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reference_path, "available", lambda: kernels)
    assert placement.place_target(replace(Setup(model="m"), **changed)).rounds_by_threads == stays  # type: ignore[arg-type]


def test_it_is_said_that_the_number_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reference_path, "available", lambda: False)
    monkeypatch.setattr("spectui.engine.pair.ThreadCount", None)
    session, _ = smollm2.opened(replace(smollm2.alone(), threads=0))
    remark = session.pair.target_info().remark
    assert remark.startswith("the number of threads stays when other processes are busy")


def test_the_logical_cpus_that_this_process_may_use_are_counted(monkeypatch: pytest.MonkeyPatch):
    machine, counts = Machine(), []
    monkeypatch.setattr("spectui.engine.pair.allowed_cpus", lambda: set(range(24)))
    monkeypatch.setattr(
        "spectui.engine.pair.ThreadCount", lambda most, cores: (counts.append((most(), cores)), machine.count(2))[1]
    )
    smollm2.opened(replace(smollm2.alone(), threads=0))
    assert counts == [(placement.threads(0), 24)]


def test_a_prompt_is_read_from_its_first_token_on_with_the_threads_that_others_leave(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    session, _ = smollm2.opened(replace(smollm2.alone(), threads=0))
    context, used = session.pair.context, []
    evaluate = context.evaluate

    def noted(tokens: list[int], rows: int) -> NDArray[np.float32]:
        used.append(llama.llama_n_threads(context.handle))
        return evaluate(tokens, rows)

    monkeypatch.setattr(context, "evaluate", noted)
    for prompt, busy in (("hi", 1.0), ("a long prompt " * 40, 0.0), ("another long one " * 40, 1.0)):
        machine.run(1.0 if prompt == "hi" else 1.0 - busy, 1.0, seconds=600)
        machine.busy = busy
        used.clear()
        smollm2.ask(session, Knobs(predict=1), prompt)
        assert used[0] == 2 - busy, "now, and not since the last reply"


def test_contexts_that_are_created_or_stay_while_others_are_busy_use_as_few_threads(machine: Machine):
    session, events = smollm2.opened(replace(smollm2.setup(), threads=0))
    pair = session.pair
    used = lambda: [llama.llama_n_threads(each.handle) for each in (pair.context, pair.draft_context)]  # noqa: E731
    machine.run(1.0, 1.0)
    pair.adapt_threads()
    assert used() == [1, 1]
    before = pair.context
    session.load(replace(smollm2.setup(), threads=0, ctx_size=512))
    assert pair.context is not before and used() == [1, 1]
    session.load(replace(smollm2.setup(), threads=0, threads_draft=2))
    assert used() == [1, 2], "the number that is named stays"
    session.load(replace(smollm2.setup(), threads=2, threads_draft=1))
    assert used() == [2, 1]
    session.load(replace(smollm2.setup(), threads=2))
    assert used() == [2, 2]
    assert [event for event in events if isinstance(event, ThreadsInUse)] == [ThreadsInUse(1, 2), ThreadsInUse(2, 2)]


class Computes:
    """Stands for a context."""

    threads = 0

    def use_threads(self, number: int) -> None:
        self.threads = number


def test_a_draft_that_computes_beside_the_target_keeps_its_one_thread():
    """Two threads that compute with OpenMP would slow each other down."""
    machine, pair = Machine(), Pair(lambda _: None, Interrupt())
    target, draft = Computes(), Computes()
    pair.context, pair.draft_context, pair._threads = target, draft, machine.count(2)  # type: ignore[assignment]
    pair.drafter = AheadDrafter(toy_drafter(1, 0.0))
    machine.run(1.0, 1.0)
    pair.adapt_threads()
    assert (target.threads, draft.threads) == (1, 0)
    pair.drafter.close()


@pytest.mark.parametrize("threads", [0, 2])
def test_a_reply_goes_on_with_fewer_threads_unless_a_number_was_named(threads: int, machine: Machine):
    """The text is the one of a quiet machine."""
    events, others = list[Event](), [0.0]

    def take(event: Event) -> None:
        events.append(event)
        if others[-1]:
            machine.run(others[-1], 1.3)

    session = Session(take)
    session.load(replace(smollm2.setup(), threads=threads, no_profile="on"))
    session.knobs = Knobs(temperature=0, predict=6)
    quiet = session.generate([Message("user", "hi")]).text
    assert not [event for event in events if isinstance(event, ThreadsInUse)]
    others.append(1.0)
    assert session.generate([Message("user", "hi")]).text == quiet
    changed = [event for event in events if isinstance(event, ThreadsInUse)]
    assert changed == ([] if threads else [ThreadsInUse(1, 2)])


@pytest.mark.parametrize("others", [0.0, 1.0])
def test_costs_that_were_measured_while_others_took_a_core_are_marked(
    others: float, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They would be used for good: a large pass that seems dear is never tried."""

    def measure(*_: object) -> TargetCosts:
        machine.run(others, 1.0)
        return TargetCosts({1: 0.05, 2: 0.06})

    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setattr("spectui.engine.costs.measuring._measure_target", measure)
    monkeypatch.setattr("spectui.engine.costs.measuring._measure_draft", lambda *_: DraftCosts(0.01, 0.01))
    smollm2.opened(replace(smollm2.setup(), no_profile="off"))
    assert [json.loads(file.read_text().splitlines()[1])["noisy"] for file in tmp_path.glob("*-costs-*.json")] == [
        bool(others)
    ] * 2
