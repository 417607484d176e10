"""An engine in a process of its own: llama.cpp ends that process, and this one says so and goes on."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from spectui.engine.events import Event, Failed, Finished, Guess, Loaded, LoadFailed, RoundDone, Unloaded
from spectui.engine.isolation.link import HANGS, LINGERS, REPLACED
from spectui.engine.isolation.process import EngineProcess
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Setup
from spectui.speculation.records import StopReason
from tests.engine.isolation.helpers import KNOBS, LONG, QUESTION, at_round, load
from tests.engine.waiting import PATIENCE, Events, events_of


def test_a_driver_that_fails(engine: EngineProcess, setup: Setup):
    """ggml ends the process then."""
    events = load(engine, setup)
    process = engine.link
    assert process is not None
    at_round(engine, 2, lambda: os.kill(process.pid, signal.SIGABRT))
    engine.generate(QUESTION)
    assert events.wait(Failed).message == (
        "The engine's process ended by signal SIGABRT: what was written is kept, and the models are loaded again."
    )
    assert events.wait(Loaded, 2).setup == setup
    engine.knobs = KNOBS
    engine.generate(QUESTION)
    assert events.wait(Finished).statistics.emitted > 20
    assert engine.link not in (None, process)


def test_a_reply_is_noted_as_long_as_it_is_written(setup: Setup, monkeypatch: pytest.MonkeyPatch):
    """So that the next start offers its conversation, if this process is killed."""
    noted: list[str] = []
    monkeypatch.setattr("spectui.engine.worker.deque", Events)
    with closing(EngineProcess(replace(KNOBS, predict=4), watch=lambda stage, _: noted.append(stage))) as engine:
        events = load(engine, setup)
        noted.clear()
        engine.generate(QUESTION)
        assert noted == ["decoding"]
        events.wait(Finished)
        assert noted == ["decoding", ""]


def test_the_models_are_freed_and_loaded_again(engine: EngineProcess, setup: Setup):
    events = load(engine, setup)
    assert engine.link is not None
    pid = engine.link.pid
    engine.generate(QUESTION)
    events.wait(RoundDone)
    engine.unload()
    events.wait(Unloaded)
    assert pid is not None and not psutil.pid_exists(pid), "it has ended"
    engine.load(setup)
    events.wait(Loaded, 2)
    engine.knobs = replace(KNOBS, predict=4)
    engine.generate(QUESTION)
    assert events.wait(Finished).reason is StopReason.LIMIT


def test_what_is_asked_is_answered_before_a_reply_has_ended(engine: EngineProcess, setup: Setup):
    events, ended = load(engine, setup), []
    engine.knobs = replace(KNOBS, predict=LONG)
    engine.generate(QUESTION)
    answer = engine.ask(Session.prompt, QUESTION)
    answer.add_done_callback(lambda _: ended.append(events.of(Finished)))
    assert answer.result(PATIENCE)
    engine.stop()
    events.wait(Finished)
    assert ended == [[]]
    assert engine.ask(Session.prompt, QUESTION).result(PATIENCE) == answer.result()


def test_calls_return_or_raise_what_they_do_in_this_process(engine: EngineProcess, setup: Setup):
    engine.call(Session.load, setup).result(PATIENCE)
    finished = engine.call(Session.generate, QUESTION).result(PATIENCE)
    assert engine.call(Session.generate, QUESTION).result(PATIENCE).text == finished.text != ""
    with pytest.raises(SpectuiError, match="There is no target model"):
        engine.call(Session.load, replace(setup, model="nothing.gguf")).result(PATIENCE)
    os.kill(engine.link.pid, signal.SIGSTOP)  # it could have loaded before it is killed
    pending = engine.call(Session.load, setup)
    os.kill(engine.link.pid, signal.SIGKILL)
    with pytest.raises(SpectuiError, match="The engine's process ended"):
        pending.result(PATIENCE)
    with pytest.raises(SpectuiError, match="ended"):
        engine.call(Session.load, setup).result(PATIENCE)


def test_a_cancelled_call_and_a_listener_that_raises_end_nothing(engine: EngineProcess, setup: Setup):
    engine.listen = lambda event: {}["listener"]
    assert engine.call(Session.load, setup).cancel()
    engine.call(Session.generate, QUESTION).result(PATIENCE)
    os.kill(engine.link.pid, signal.SIGSTOP)
    cancelled, pending = (engine.call(Session.generate, QUESTION) for _ in range(2))
    assert cancelled.cancel()
    os.kill(engine.link.pid, signal.SIGKILL)
    with pytest.raises(SpectuiError, match="The engine's process ended"):
        pending.result(PATIENCE)


def cannot_be_pickled(_: Session) -> object:
    return threading.Lock()


class Unreadable(Exception):
    """Pickle makes it of one argument."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


def cannot_be_unpickled(_: Session) -> None:
    raise Unreadable("a", "b")


def only_here(_: Session) -> None: ...


def test_what_cannot_be_pickled_or_read_is_an_error_and_the_process_goes_on(
    engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "tests.of_this_process", sys.modules[__name__])
    monkeypatch.setattr(only_here, "__module__", "tests.of_this_process")
    for function, error in (
        (lambda session: 1, AttributeError),
        (only_here, ModuleNotFoundError),
        (cannot_be_pickled, RuntimeError),
        (cannot_be_unpickled, TypeError),
    ):
        with pytest.raises(error):
            engine.call(function).result(PATIENCE)
    assert engine.call(repr).result(PATIENCE).startswith("<spectui.engine.session.Session")


def test_an_old_process_that_does_not_die_is_waited_for_no_longer_than_bounded(
    isolated: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch
):
    """As in a driver that does not answer, where a signal waits too."""
    events, old = events_of(isolated), isolated.link
    assert old is not None and old.pid is not None
    monkeypatch.setattr("spectui.engine.isolation.link.DEATH_S", 0.0)
    at_round(isolated, 2, lambda: os.kill(old.pid, signal.SIGSTOP))
    isolated.generate(QUESTION)
    events.wait(RoundDone, 3)
    with monkeypatch.context() as immortal:
        immortal.setattr(subprocess.Popen, "kill", lambda process: None)
        monkeypatch.setattr(isolated, "_setup", replace(setup, rpc="127.0.0.1:1"))  # so that a load needs another process
        isolated.load(setup)
        assert events.wait(Failed).message == REPLACED
        events.wait_for_notice(LINGERS)
        events.wait(Loaded, 2)
        assert psutil.pid_exists(old.pid)
    os.kill(old.pid, signal.SIGKILL)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no such signal")
def test_control_c_while_the_process_starts_is_the_parents(engine: EngineProcess, setup: Setup):
    """The terminal sends it to both, and Python would end at it."""
    loading = engine.call(Session.load, setup)
    assert engine.link is not None
    while engine.link.pid is None:
        pass
    os.kill(engine.link.pid, signal.SIGINT)
    loading.result(PATIENCE)


def abort(_: Session) -> None:
    import ctypes

    from spectui.llama.library import symbol

    symbol("ggml_abort", None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)(b"ggml.c", 1, b"GGML_ASSERT(axis) failed")


def test_where_an_assertion_ended_the_process_trying_again_is_no_advice(setup: Setup):
    process = EngineProcess(KNOBS, replace(setup, split_mode="tensor"))
    try:
        with pytest.raises(SpectuiError) as caught:
            process.call(abort).result(PATIENCE)
    finally:
        process.close(PATIENCE)
    assert str(caught.value) == (
        "The engine's process ended by signal SIGABRT (GGML_ASSERT(axis) failed): choose -sm layer, which divides models among "
        "all kinds of devices."
    )


def test_a_process_that_does_not_stop_is_ended_by_stopping_once_more(
    engine: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch
):
    """As when the connection to a server hangs."""
    monkeypatch.setattr("spectui.engine.isolation.link.STOP_S", 0.0)
    events = load(engine, setup)
    at_round(engine, 2, lambda: os.kill(engine.link.pid, signal.SIGSTOP))
    engine.generate(QUESTION)
    events.wait(RoundDone, 3)
    engine.stop()
    events.wait_for_notice(HANGS)
    engine.stop()
    assert "The engine did not stop, so its process was ended" in events.wait(Failed).message


def test_a_stop_of_nothing_does_not_count(engine: EngineProcess, setup: Setup, monkeypatch: pytest.MonkeyPatch):
    """A reply may have ended when a person stops it; the next one is then stopped for the first time."""
    monkeypatch.setattr("spectui.engine.isolation.link.STOP_S", 0.0)
    events = load(engine, setup)
    engine.stop()
    at_round(engine, 2, engine.stop)
    engine.generate(QUESTION)
    assert events.wait(Finished).reason is StopReason.CANCELLED


def test_the_process_ends_with_its_parent(engine: EngineProcess, setup: Setup):
    engine.call(Session.load, setup).result(PATIENCE)
    assert engine.link is not None
    child = engine.link._process
    assert child is not None and child.stdin is not None
    engine.link._commands.put(None)  # closes its standard input, as the parent's death does
    assert child.wait(PATIENCE) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is in use cannot be cut off")
def test_a_model_file_that_is_lost_meanwhile(
    engine: EngineProcess, setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = Path(shutil.copy(setup.model or "", tmp_path))
    events = load(engine, replace(setup, model=str(file)))
    at_round(engine, 2, lambda: os.truncate(file, 0))
    engine.generate(QUESTION)
    assert events.wait(Failed).message == (
        f"The model file {file} was cut off or its disk failed while it was in use (bus error): what was written is kept, and "
        "the models are loaded again."
    )
    assert "download it again" in events.wait(LoadFailed).message


def test_guesses_come_out_of_the_process(isolated: EngineProcess, monkeypatch: pytest.MonkeyPatch):
    heard: list[Event] = []
    emit = isolated.emit
    monkeypatch.setattr(isolated, "emit", lambda event: heard.append(event) or emit(event))
    isolated.knobs = replace(KNOBS, predict=8)
    isolated.generate(QUESTION)
    events_of(isolated).wait(Finished)
    assert any(isinstance(event, Guess) for event in heard)
    assert isolated.guess == "", "the reply has ended"
