"""Conversations stay read: in memory behind another one, and on the disk over a restart. Never with other text."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui import paths
from spectui.engine import worker
from spectui.engine.events import Finished, Message
from spectui.engine.kept import slots
from spectui.engine.loading.plan import make_plan
from spectui.engine.worker import Unopened, Worker
from spectui.knobs import Setup
from spectui.llama.cells import saved_state
from spectui.llama.interrupt import Interrupt
from spectui.llama.quantiser import quantise
from tests.engine.exactness.test_heads import PAIRS
from tests.engine.test_turns import WRITERS, Chat
from tests.engine.waiting import PATIENCE

A, B, C = ([Message("user", text)] for text in ("a question " * 30, "something else, and longer " * 20, "a third thing " * 20))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_CACHE_DIR", str(tmp_path / "cache"))


def files() -> list[Path]:
    return sorted((paths.cache_directory() / "conversations").glob("*.npz"))


def turns(chat: Chat) -> tuple[list[Message], str, int]:
    """Two turns of a conversation that are answered in a row: the second one, its answer, and the tokens of the first."""
    first, prompt = chat.answer(A)
    second = [*A, Message("assistant", first), Message("user", "and then? " * 5)]
    return second, chat.answer(second)[0], prompt.total


@pytest.fixture(params=WRITERS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    WRITERS[request.param](tmp_path / "model.gguf")
    return tmp_path / "model.gguf"


def test_a_conversation_goes_on_behind_another_one_and_a_restart(model: Path) -> None:
    second, expected, read = turns(Chat(model, state_memory=0))
    chat = Chat(model, keep_read="on")
    for other in (B, A, C):
        chat.answer(other)
    text, prompt = chat.answer(second)
    assert text == expected
    assert prompt.restored == "memory" and prompt.reused >= read - 30, "from the last prompt's end on"
    chat.session.close()
    again = Chat(model, keep_read="on")
    text, prompt = again.answer(second)
    assert (text, prompt.restored) == (expected, "disk")
    assert prompt.reused >= prompt.total - 1
    assert not again.told()


def test_what_the_models_have_taken_is_not_promised_to_conversations_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their share is of what is free when they are kept, and a plan counts what `--state-memory` names."""
    WRITERS["attention"](tmp_path / "model.gguf")
    chat = Chat(tmp_path / "model.gguf")
    for free, restored in ((2**30, "memory"), (0, "")):
        monkeypatch.setattr(slots, "free_memory", lambda free=free: free)
        restorations = [chat.answer(talk)[1].restored for talk in (A, B, A)]
        assert restorations[-1] == restored
    plans = [make_plan(replace(chat.setup, state_memory=mib)) for mib in (0, 900_000)]
    assert plans[0].missing == {} and plans[1].missing["CPU"] > 0


def test_where_memory_is_short_the_oldest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WRITERS["attention"](tmp_path / "model.gguf")
    chat = Chat(tmp_path / "model.gguf")
    one, two, three = ([Message("user", f"{letter} thing " * 40)] for letter in "abc")
    chat.answer(one)
    state = saved_state.save(chat.session.pair_in_use.context, "")
    assert state is not None
    monkeypatch.setattr(slots, "free_memory", lambda: 8 * (2 * state.nbytes + state.nbytes // 2))
    restored = [chat.answer(talk)[1].restored for talk in (two, three, two, three, one)]
    assert restored == ["", "", "memory", "memory", ""]


@pytest.mark.parametrize("kind", PAIRS)
def test_heads_go_on_too(kind: str, tmp_path: Path) -> None:
    chat = Chat(*PAIRS[kind](tmp_path), keep_read="on", no_template="on")
    knobs = {"policy": "fixed", "drafter": "mtp", "draft_max": 3, "p_min": 0.0}
    long = [Message("user", "hello " * 50)]
    expected, _ = chat.answer(long, **knobs)
    chat.answer([Message("user", "other " * 50)], **knobs)
    text, prompt = chat.answer(long, **knobs)
    assert (text, prompt.restored) == (expected, "memory")
    assert prompt.reused >= prompt.total - 1
    finished = [event for event in chat.events if isinstance(event, Finished)]
    assert finished[-1].statistics.acceptance == pytest.approx(finished[0].statistics.acceptance, abs=0.1)


def test_a_draft_goes_on_and_another_one_reads_again(tmp_path: Path) -> None:
    WRITERS["attention"](tmp_path / "model.gguf")
    for name, quantisation in (("a", "Q4_0"), ("b", "Q8_0")):
        quantise(tmp_path / "model.gguf", tmp_path / f"{name}.gguf", quantisation)
    knobs = {"policy": "fixed", "drafter": "model", "draft_max": 4, "p_min": 0.0}
    chat = Chat(tmp_path / "model.gguf", tmp_path / "a.gguf", keep_read="on")
    expected, _ = chat.answer(A, **knobs)
    pair = chat.session.pair
    assert pair is not None and pair.draft_context is not None
    drafted = list(pair.draft_context.tokens)
    pair.strategy.budget.balance = 1.25
    chat.answer(B, **knobs)
    seen: list[list[int]] = []
    prepare = pair.strategy.prepare

    def noted(*arguments: Any) -> None:
        assert pair.draft_context is not None
        seen.append(list(pair.draft_context.tokens))
        assert pair.strategy.budget.balance == 1.25, "of this conversation"
        prepare(*arguments)

    pair.strategy.prepare = noted  # type: ignore[method-assign]
    assert chat.answer(A, **knobs)[0] == expected
    assert seen == [drafted]
    chat.session.close()
    other = Chat(tmp_path / "model.gguf", tmp_path / "b.gguf", keep_read="on")
    text, prompt = other.answer(A, **knobs)
    assert (text, prompt.restored) == (expected, "disk"), "the target's cells do not depend on the draft"


def test_models_in_turn_read_nothing_twice(tmp_path: Path) -> None:
    for name in ("one", "two"):
        WRITERS["attention"](tmp_path / f"{name}.gguf")
    chat = Chat(tmp_path / "one.gguf")
    expected, _ = chat.answer(A)
    chat.session.load(Setup(**{**vars(chat.setup), "model": str(tmp_path / "two.gguf")}))
    _, prompt = chat.answer(A)
    assert prompt.reused == 0, "another model's cells are not its own"
    chat.session.load(chat.setup)
    text, prompt = chat.answer(A)
    assert (text, prompt.restored, prompt.reused) == (expected, "memory", prompt.total - 1)


def test_what_is_measured_is_read_and_the_conversation_stays(tmp_path: Path) -> None:
    WRITERS["attention"](tmp_path / "model.gguf")
    chat = Chat(tmp_path / "model.gguf", keep_read="on")
    chat.answer(A)
    chat.session.begin_cold()
    assert chat.answer(A)[1].reused == 0
    chat.answer(B)
    assert chat.answer(A)[1].restored == "memory"


def test_a_damaged_or_foreign_file_is_read_anew_with_the_right_text(tmp_path: Path) -> None:
    WRITERS["attention"](tmp_path / "model.gguf")
    chat = Chat(tmp_path / "model.gguf", keep_read="on")
    expected, _ = chat.answer(A)
    chat.session.close()
    (file,) = files()
    whole = file.read_bytes()
    for damaged, told in (
        (whole[: len(whole) // 2], 0),  # nothing of it can be read, so it is none of this conversation
        (whole[:-2000].replace(b"\x00\x3c", b"\x01\x3c") + whole[-2000:], 1),
        (b"", 0),
    ):
        file.write_bytes(damaged)
        again = Chat(tmp_path / "model.gguf", keep_read="on")
        text, prompt = again.answer(A)
        assert (text, prompt.reused, prompt.restored, len(again.told())) == (expected, 0, "", told)
        again.session.close()
    file.write_bytes(whole)
    os.utime(tmp_path / "model.gguf", (1, 1))
    assert Chat(tmp_path / "model.gguf", keep_read="on").answer(A)[1].reused == 0, "the model's file has changed"


def test_a_disk_that_fails_is_told_once_and_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WRITERS["attention"](tmp_path / "model.gguf")
    chat = Chat(tmp_path / "model.gguf", keep_read="on")
    for messages in (A, B):
        chat.answer(messages)
        chat.session.rest(wait=True)
    new, old = sorted(files(), key=lambda file: file.stat().st_mtime_ns)
    chat.session.close()
    chat = Chat(tmp_path / "model.gguf", keep_read="on")
    assert chat.answer(A)[1].restored == "disk", "from now on it is the one that was used last"
    (new.parent / f"{new.name}.4194305.part").touch()  # of a process that was killed
    monkeypatch.setattr(slots, "MOST_BYTES", new.stat().st_size + old.stat().st_size)
    chat.answer([Message("user", "a third " * 40)])
    chat.session.rest(wait=True)
    assert old not in files() and new in files() and len(list(new.parent.iterdir())) == len(files()) == 2
    for file in files():
        assert file.stat().st_mode & 0o777 == 0o600
        file.unlink()
    new.parent.rmdir()
    new.parent.touch()  # a directory cannot be made there
    for messages in (A, B):
        chat.answer(messages)
        chat.session.rest(wait=True)
    assert len(chat.told()) == 1


def test_an_engine_without_commands_lets_its_session_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "IDLE_S", 0.01)
    monkeypatch.setattr(worker, "REST_S", 0.01)
    rested = threading.Event()
    engine = Worker()
    engine.call(lambda session: setattr(session, "rest", rested.set))
    assert rested.wait(PATIENCE)
    engine.close()


class Idle(Unopened):
    """A session that catches up until it is interrupted."""

    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__(ValueError())
        self.interrupt, self.begun = interrupt, threading.Semaphore(0)

    def catch_up(self) -> None:
        self.begun.release()
        while not self.interrupt.is_set():
            os.sched_yield()


def test_a_command_interrupts_what_its_session_does_meanwhile_and_not_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "IDLE_S", 0.01)
    stages: list[str] = []
    engine = Worker(
        watch=lambda stage, setup: stages.append(stage),
        open_session=lambda on_event, interrupt: Idle(interrupt),  # type: ignore[arg-type,return-value]
    )

    idle: Any = engine.call(lambda session: session).result(PATIENCE)
    for _ in range(2):
        assert idle.begun.acquire(timeout=PATIENCE), "after each command"
        assert stages[-1:] == ["reading"], "what a crash is blamed on"
        assert engine.call(lambda session: (idle.interrupt.is_set(), stages[-1])).result(PATIENCE) == (False, "")
    engine.close()


def test_a_session_does_not_catch_up_while_its_engine_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last command ends, and the time until a session catches up is over, in the middle of `close`."""
    monkeypatch.setattr(worker, "IDLE_S", 0.01)
    idle, began, go_on = Idle(Interrupt()), threading.Event(), threading.Event()

    def opened(on_event: object, interrupt: Interrupt) -> Any:
        idle.interrupt = interrupt
        return idle

    engine = Worker(open_session=opened)
    engine.call(lambda session: began.set() or go_on.wait(PATIENCE))
    assert began.wait(PATIENCE)
    interrupted = idle.interrupt.set

    def interrupted_late() -> None:
        interrupted()
        go_on.set()
        while engine.running and not idle.begun.acquire(timeout=0.01):
            pass

    monkeypatch.setattr(idle.interrupt, "set", interrupted_late)
    engine.close(0.1)
    assert not engine.running


@pytest.mark.parametrize(("flags", "kept"), [((), 1), (("--no-history",), 0), (("--keep-read", "off"), 0)])
def test_a_chat_that_is_saved_stays_read(flags: tuple[str, ...], kept: int, tmp_path: Path) -> None:
    WRITERS["attention"](tmp_path / "model.gguf")
    command = [sys.executable, "-m", "spectui", "chat", "--plain", "-m", str(tmp_path / "model.gguf"), *flags]
    for number in range(2):
        going_on = ["--continue"] if number and "--no-history" not in flags else []
        done = subprocess.run(
            [*command, "-n", "4", "--no-profile", *going_on], input="a question " * 40 + "\n", capture_output=True,
            check=False, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert len(files()) == kept
