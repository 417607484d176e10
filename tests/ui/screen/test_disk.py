"""The window answers keys while the disk is read, and decodes no long conversation in its own thread."""

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from spectui.chat.history.conversations import StoredConversations
from spectui.chat.messages import ChatMessage
from spectui.speculation.records import Round
from spectui.store import library
from spectui.store.journal import Journal
from spectui.store.prompts import PromptHistory, prompts_file
from spectui.store.rounds import packed
from spectui.store.writer import Writer
from spectui.ui.app import SpectuiApp
from spectui.ui.dashboard.status import LoadingLine
from spectui.ui.dialogs.conversations import ConversationsScreen, MessagesScreen
from spectui.ui.prompt.prompt_input import PromptInput
from spectui.ui.screen import chat
from spectui.ui.transcript.source import SourceReader
from tests.fake_engine import FakeEngine
from tests.store.journal_helpers import exchange, last, some_rounds
from tests.ui.pilot_helpers import Make, Window, answer, ask, wait_until
from tests.ui.screen_text import said, shown


class Held:
    """A reader that waits until it may go on; `reading` tells that it has begun."""

    def __init__(self, read: Callable[..., Any]) -> None:
        self.reading, self.go_on = threading.Event(), threading.Event()
        self._read = read

    def __call__(self, *arguments: Any) -> Any:
        self.reading.set()
        assert self.go_on.wait(120), "nobody could do anything meanwhile"
        return self._read(*arguments)


def note_decoders(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that decode rounds from here on."""
    decoders = list[threading.Thread]()
    unpack = packed.unpack

    def noted(chunk: bytes) -> Any:
        decoders.append(threading.current_thread())
        return unpack(chunk)

    monkeypatch.setattr(packed, "unpack", noted)
    return decoders


async def begin_reading(app: SpectuiApp, pilot: Pilot[None], read: Held) -> None:
    """Open the only conversation from the list; `read` holds its reading."""
    await pilot.press("alt+c")
    await wait_until(pilot, lambda: isinstance(app.screen, ConversationsScreen))
    await wait_until(pilot, lambda: app.screen.query_one(OptionList).option_count)
    await pilot.press("enter")
    await wait_until(pilot, read.reading.is_set)


async def test_keys_are_answered_while_a_conversation_is_read_and_a_prompt_waits_for_it(
    window: Window, engine: FakeEngine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(file)
    exchange(journal, "first question", some_rounds())
    journal.close()
    read = Held(library.open_conversation)
    monkeypatch.setattr(library, "open_conversation", read)
    async with window(journal=Journal(file)) as (app, pilot):
        await begin_reading(app, pilot, read)
        await ask(pilot, "and now")
        assert app.screen.query_one(PromptInput).text == "" and not engine.generates, "it waits for the conversation"
        read.go_on.set()
        await wait_until(pilot, lambda: engine.generates)
        assert [each.content for each in engine.generates[0]][1:] == ["first question", "Ein 2 ä!\n xy", "and now"]
        assert said(app).index("first question") < said(app).index("and now")


async def test_a_new_chat_is_begun_in_place_of_a_conversation_that_is_being_read(
    window: Window, engine: FakeEngine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(file)
    exchange(journal, "first question", some_rounds())
    journal.close()
    held = Journal(file)
    read = Held(StoredConversations(held).read)
    monkeypatch.setattr(StoredConversations, "read", lambda stored, identity, show: read(identity, show))
    async with window(journal=Journal(file)) as (app, pilot):
        await begin_reading(app, pilot, read)
        await pilot.press("ctrl+n")
        read.go_on.set()
        await app.screen.workers.wait_for_complete()
        assert app.screen.session.messages == [] and said(app) == ""


async def test_keys_are_answered_while_a_sent_prompt_is_kept_on_a_slow_disk(
    window: Window, engine: FakeEngine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Held(PromptHistory.add)
    monkeypatch.setattr(PromptHistory, "add", lambda *arguments: add(*arguments))
    save = Held(Writer._save)
    monkeypatch.setattr(Writer, "_save", lambda *arguments: save(*arguments))
    async with window(journal=Journal(file)) as (app, pilot):
        await ask(pilot, "kept on a slow disk")
        await wait_until(pilot, save.reading.is_set)
        await wait_until(pilot, lambda: engine.generates)
        save.go_on.set()
        await wait_until(pilot, add.reading.is_set)
        await pilot.press("x")
        assert app.screen.query_one(PromptInput).text == "x"
        assert PromptHistory(prompts_file()).load()[-1:] != ["kept on a slow disk"]
        add.go_on.set()
        await wait_until(pilot, lambda: PromptHistory(prompts_file()).load()[-1:] == ["kept on a slow disk"])


async def test_the_end_of_long_thinking_is_counted_without_decoding_it(
    window: Window, engine: FakeEngine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoders = note_decoders(monkeypatch)
    async with window(journal=Journal(file)) as (app, pilot):
        await ask(pilot, "think")
        await wait_until(pilot, lambda: engine.generates)
        engine.emit_round(plain="<think>", seconds=0.01, thought=True)
        for _ in range(20):  # what the window is behind by is not packed yet
            for _ in range(50):
                engine.emit_round(plain="on ", seconds=0.01, thought=True)
            await wait_until(pilot, lambda: not engine.events)
        engine.emit_round(plain="</think>", seconds=0.01, thought=True)
        await wait_until(pilot, lambda: "thinking: 1 002 tokens, 10.0 s" in shown(app))
        assert threading.main_thread() not in decoders, "the writer's thread may decode what it is behind by"


listeners: list[list[str]] = []
"""Where to note what the main thread opens: an audit hook cannot be removed."""


def note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    reads = event in ("open", "sqlite3.connect", "os.listdir", "os.scandir")
    if listeners and reads and threading.current_thread() is threading.main_thread():
        listeners[-1].append(str(arguments[0]))


@cache
def note_what_is_opened() -> None:
    """From now on, once in a process: a hook that was added twice would note everything twice."""
    sys.addaudithook(note_opened)


async def test_the_window_reads_and_writes_no_file_of_a_person_in_its_own_thread(
    window: Window, engine: FakeEngine, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("attached")
    monkeypatch.chdir(tmp_path)
    note_what_is_opened()
    async with window(journal=Journal(file)) as (app, pilot):
        listeners.append(opened := list[str]())
        assert Path("notes.txt").read_text() == "attached" and opened.pop() == "notes.txt"
        app.screen.prompt.put("read @notes.txt")
        await pilot.press("enter")
        await wait_until(pilot, lambda: engine.generates)
        await answer(pilot, engine)
        assert "attached" in engine.generates[0][-1].content
        for key, screen in (("alt+l", MessagesScreen), ("alt+c", ConversationsScreen)):
            await pilot.press(key)
            await wait_until(pilot, lambda screen=screen: isinstance(app.screen, screen))
            await pilot.press("escape")
        await pilot.press("alt+x", "enter")
        await wait_until(pilot, lambda: list(tmp_path.glob("*.md")))
        await pilot.press("ctrl+n")
        await wait_until(pilot, lambda: not app.screen.session.messages)
    listeners.clear()
    assert [name for name in opened if Path(name).suffix in (".txt", ".md", ".db", ".jsonl", ".toml")] == []


async def test_a_line_says_how_much_of_a_long_conversation_is_read(
    make_app: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(file)
    for prompt in ("first question", "second", "third", "fourth"):
        exchange(journal, prompt, some_rounds(500))
    journal.close()
    conversation, take, go_on = last(file), SourceReader.__call__, threading.Event()

    def held(reader: SourceReader, message: ChatMessage, rounds: Iterator[Round], share: float) -> None:
        take(reader, message, rounds, share)
        assert share < 0.6 or go_on.wait(60)

    monkeypatch.setattr(SourceReader, "__call__", held)
    app = make_app(journal=Journal(file), conversation=conversation)
    async with app.run_test(size=(120, 40)) as pilot:
        line = app.screen.query_one("#opening", LoadingLine)
        await wait_until(pilot, lambda: "loading the conversation" in str(line.render()) and " 62" in str(line.render()))
        assert line.display and "first question" not in said(app)
        go_on.set()
        await wait_until(pilot, lambda: "first question" in said(app))
        assert not line.display


async def test_a_long_conversation_is_decoded_beside_the_window(
    make_app: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(file)
    exchange(journal, "first question", some_rounds(2000))
    journal.close()
    conversation = last(file)
    monkeypatch.setattr(chat, "FIGURES_S", 3600.0)  # each time that figures are shown, the latest rounds may be decoded again
    decoders = note_decoders(monkeypatch)
    app = make_app(journal=Journal(file), conversation=conversation)
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: "first question" in said(app))
        with closing(sqlite3.connect(file)) as connection:
            ((chunks,),) = connection.execute("SELECT count(*) FROM chunk")
        assert len(decoders) - decoders.count(threading.current_thread()) == chunks, "each one once"
        here = decoders.count(threading.current_thread())
        assert here <= chunks / 4, "only the latest rounds"
        assert app.screen.session.figures().reply.rounds == 2000
        assert "z" not in shown(app)
        await pilot.press("f3")
        await wait_until(pilot, lambda: "z" in shown(app))
        assert decoders.count(threading.current_thread()) == here
        await pilot.press("f3")
        await wait_until(pilot, lambda: "z" not in shown(app))
