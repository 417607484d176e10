"""The engine's thread: commands return at once, any of them can be stopped, and the thread continues."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spectui.engine import worker as worker_module
from spectui.engine.events import Event, Failed, Finished, Loaded, LoadFailed, Loading, Message, RoundDone, Unloaded
from spectui.engine.session import Session
from spectui.engine.worker import Worker
from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.records import StopReason
from tests.engine.waiting import PATIENCE, Events, Held, events_of
from tests.helpers.smollm2 import SNAKE, alone, setup

QUESTION = [Message("user", SNAKE)]
SHORT = Knobs(temperature=0, predict=6)
LONG = Knobs(temperature=0, p_min=0.0, drafter="model", policy="fixed")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setattr(worker_module, "deque", Events)
    worker = Worker(SHORT)
    yield worker
    worker.close(PATIENCE)
    assert not worker.running


def loads_the_target(event: Event) -> bool:
    return isinstance(event, Loading) and event.what == "target"


def third_round(event: Event) -> bool:
    return isinstance(event, RoundDone) and event.round.index == 2


def reply_to_hold(worker: Worker) -> tuple[Events, Held]:
    """The events of a long reply that has begun, and what holds it in its third round."""
    events = events_of(worker)
    worker.knobs = LONG
    worker.load(alone())
    held = Held(events, third_round)
    worker.generate(QUESTION)
    return events, held


def test_load_then_two_replies_in_one_other_thread(worker: Worker):
    events = events_of(worker)
    threads: set[str] = set()
    events.hook = lambda _: threads.add(threading.current_thread().name)
    worker.load(setup())
    worker.generate(QUESTION)
    worker.generate([Message("user", "Say hello.")])
    second = events.wait(Finished, 2)
    first = events.of(Finished)[0]
    loaded = events.of(Loaded)[0]
    assert loaded.draft is not None
    assert [finished.reason for finished in (first, second)] == [StopReason.LIMIT] * 2
    assert first.text != second.text
    assert first.statistics.emitted == second.statistics.emitted == 6
    assert threads == {"spectui-engine"}
    # progress of both models, going up, and then the end of loading, and then the replies
    for what in ("target", "draft"):
        progress = [event.progress for event in events.of(Loading) if event.what == what]
        assert progress == sorted(progress)
        assert len(progress) > 5
    order = [type(event) for event in events if isinstance(event, Loaded | Finished)]
    assert order == [Loaded, Finished, Finished]


def test_commands_return_while_the_engine_is_busy(worker: Worker):
    events = events_of(worker)
    held = Held(events, loads_the_target)
    worker.load(setup())
    with held:  # the engine's thread stands still, and yet each of these comes back
        worker.knobs = replace(SHORT, predict=3)
        worker.generate(QUESTION)
        worker.stop()
        worker.load(alone())
        worker.generate(QUESTION)
        assert not events.of(LoadFailed)
        assert worker.knobs.predict == 3
    finished = events.wait(Finished)
    # the first load was stopped, and what was asked for behind it does not come about
    assert events.of(LoadFailed) == [LoadFailed("Loading was stopped.")]
    assert len(events.of(Failed)) == 1
    assert len(events.of(Loaded)) == 1
    assert finished.statistics.emitted == 3


def test_what_is_asked_is_answered_between_two_rounds(worker: Worker):
    (events, held), ended = reply_to_hold(worker), []
    with held:
        answer = worker.ask(Session.prompt, QUESTION)
        answer.add_done_callback(lambda _: ended.append(events.of(Finished)))
    assert answer.result(PATIENCE)
    worker.stop()
    events.wait(Finished)
    assert ended == [[]]
    assert worker.ask(Session.prompt, QUESTION).result(PATIENCE) == answer.result()


def test_stop_within_a_reply(worker: Worker):
    events, held = reply_to_hold(worker)
    with held:
        worker.stop()
    finished = events.wait(Finished)
    assert (finished.reason, finished.statistics.rounds) == (StopReason.CANCELLED, 3)
    worker.knobs = SHORT
    worker.generate(QUESTION)
    assert events.wait(Finished, 2).reason is StopReason.LIMIT


def test_stop_cancels_commands_in_the_queue(worker: Worker):
    events, held = reply_to_hold(worker)
    with held:
        worker.generate(QUESTION)
        worker.stop()
    assert events.wait(Finished, 2).reason is StopReason.CANCELLED
    assert events.of(Finished)[1].statistics.rounds == 0


def test_a_load_stops_the_reply(worker: Worker):
    events, held = reply_to_hold(worker)
    with held:
        worker.load(setup())
    assert events.wait(Loaded, 2).draft is not None
    assert [finished.reason for finished in events.of(Finished)] == [StopReason.CANCELLED]


def test_knobs_act_from_the_next_round_on(worker: Worker):
    events = events_of(worker)
    worker.knobs = replace(LONG, predict=40)

    def turn(event: Event) -> None:
        if third_round(event):
            worker.knobs = replace(worker.knobs, draft_max=1)

    events.hook = turn
    worker.load(setup())
    worker.generate(QUESTION)
    events.wait(Finished)
    sizes = [len(event.round.drafted) for event in events.of(RoundDone)]
    assert sizes[:3] == [16, 16, 16]
    assert set(sizes[3:-1]) == {1}


@pytest.mark.parametrize("at", [loads_the_target, third_round])
def test_close_ends_the_thread_at_any_time(worker: Worker, at: object):
    events = events_of(worker)
    worker.knobs = LONG
    held = Held(events, at)  # type: ignore[arg-type]
    worker.load(setup())
    worker.generate(QUESTION)
    with held:
        worker.close(timeout=0)
        assert worker.running
    worker.close(PATIENCE)
    assert not worker.running
    assert all(finished.reason is StopReason.CANCELLED for finished in events.of(Finished))


def test_a_wrong_file_is_a_sentence_and_the_next_load_works(worker: Worker):
    events = events_of(worker)
    worker.load(replace(alone(), model="/no/such.gguf"))
    failed = events.wait(LoadFailed)
    assert failed == LoadFailed("There is no target model '/no/such.gguf': check the path.")
    worker.load(alone())
    events.wait(Loaded)


@pytest.mark.parametrize(("method", "kind"), [("load", LoadFailed), ("generate", Failed)])
def test_a_fault_of_spectui_is_a_sentence_and_the_thread_continues(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, method: str, kind: type[LoadFailed] | type[Failed]
):
    events = events_of(worker)
    with monkeypatch.context() as broken:
        broken.setattr(Session, method, lambda *_: {}["nothing"])
        worker.load(alone())
        worker.generate(QUESTION)
        message = events.wait(kind).message
        events.wait(Failed)
    assert "Something in spectui broke (KeyError: 'nothing')" in message
    worker.load(alone())
    worker.generate(QUESTION)
    assert events.wait(Finished).reason is StopReason.LIMIT


@pytest.mark.parametrize("cancelled", ["in the queue", "while it runs"])
def test_a_cancelled_call_does_not_end_the_thread(worker: Worker, cancelled: str):
    began, go_on = threading.Event(), threading.Event()
    calls: list[Session] = []

    def work(_: Session) -> int:
        began.set()
        assert go_on.wait(PATIENCE)
        return 4

    first = worker.call(work)
    assert began.wait(PATIENCE)
    second = worker.call(calls.append)
    future = first if cancelled == "while it runs" else second
    assert future.cancel() is (future is second), "what runs goes on"
    go_on.set()
    assert worker.call(lambda session: 5).result(PATIENCE) == 5
    assert first.result(PATIENCE) == 4
    assert len(calls) == (0 if future is second else 1)


def test_a_listener_that_raises_ends_nothing_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(worker_module, "deque", Events)
    worker = Worker(SHORT, watch=lambda stage, setup: {}["watch"])
    worker.listen = lambda event: {}["listener"]
    worker.load(alone())
    worker.generate(QUESTION)
    assert events_of(worker).wait(Finished).reason is StopReason.LIMIT
    worker.close(PATIENCE)
    assert not worker.running
    assert [record.message for record in caplog.records] == ["a listener of the engine failed"]


def test_models_that_cannot_be_freed_are_told_and_the_thread_continues(worker: Worker, monkeypatch: pytest.MonkeyPatch):
    events = events_of(worker)
    worker.load(alone())
    events.wait(Loaded)
    with monkeypatch.context() as broken:
        broken.setattr(Session, "close", lambda _: {}["nothing"])
        worker.unload()
        events.wait(Unloaded)
        events.wait_for_notice("Something in spectui broke (KeyError: 'nothing'); ")
    worker.load(alone())
    worker.generate(QUESTION)
    assert events.wait(Finished).reason is StopReason.LIMIT


def test_a_library_that_cannot_be_loaded_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_module, "deque", Events)
    monkeypatch.setitem(sys.modules, "spectui.engine.session", None)
    worker = Worker()
    worker.load(alone())
    assert "llama.cpp could not be loaded" in events_of(worker).wait(LoadFailed).message
    worker.load(alone())
    events_of(worker).wait(LoadFailed, 2)
    worker.generate(QUESTION)
    assert "llama.cpp could not be loaded" in events_of(worker).wait(Failed).message
    with pytest.raises(SpectuiError, match="could not be loaded"):
        worker.call(Session.begin_cold).result(PATIENCE)
    worker.close(PATIENCE)
    assert not worker.running


def test_a_session_that_cannot_begin_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    """The thread ended without a word, and `spectui run` waited for ever."""

    def broken(*_: object) -> Session:
        raise ValueError("a fault")

    monkeypatch.setattr(worker_module, "deque", Events)
    worker = Worker(open_session=broken)
    worker.load(alone())
    assert "Something in spectui broke (ValueError: a fault)" in events_of(worker).wait(LoadFailed).message
    worker.close(PATIENCE)


def end_by_control_c(_: Session) -> int:
    """What a process that the engine has started returns if Ctrl+C is pressed meanwhile."""
    program = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('goes on')"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no such mask")
def test_control_c_does_not_end_what_the_engine_has_started(worker: Worker):
    """The self-test would be taken for kernels that crash, and they would stay off."""
    assert worker.call(end_by_control_c).result(PATIENCE) == 0
