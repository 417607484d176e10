"""`spectui chat --plain`: the same chat in lines of text, for a screen reader, in a terminal and through pipes."""

import io
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.chat.commands import SLASH
from spectui.chat.figures.lines import summary_line
from spectui.chat.session import ChatSession
from spectui.cli.plain import chat as plain
from spectui.cli.plain.chat import PlainChat
from spectui.engine.events import Device, Message
from spectui.errors import SpectuiError, UsageError
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.header import GgufHeader
from spectui.gguf_files.vocabulary import VocabularyDigest
from spectui.knobs import Knobs, Setup
from spectui.profiles.file import ProfileFile
from spectui.speculation.records import Reason
from spectui.speculation.statistics import Statistics
from spectui.store.database import database_file
from spectui.store.journal import Journal
from spectui.store.library import last
from spectui.store.records import StoredConversation
from spectui.store.recovery.crash import Crash
from tests.fake_engine import CPU, FakeEngine
from tests.store.journal_helpers import written

PAIR = Setup(model="/models/target.gguf", draft="/models/draft.gguf")
WORDS = VocabularyDigest("BPE", 1000, digests="a" * 8)
HEADERS = (
    GgufHeader("/models/big.gguf", 2_000_000_000, "qwen2", "Q8_0", "1.5B", 32_768, vocabulary=WORDS),
    GgufHeader("/models/small.gguf", 400_000_000, "qwen2", "Q4_0", "0.5B", 32_768, vocabulary=WORDS),
    GgufHeader("/models/torn\x1b[31m.gguf", 5, problem="is damaged"),
)


class AnsweringEngine(FakeEngine):
    """Answers at once. What a prompt says shall happen. `turned` has the knobs of each reply."""

    def __init__(self, devices: tuple[Device, ...] = (CPU,), knobs: Knobs | None = None) -> None:
        super().__init__(knobs, devices=devices)
        self.turned: list[Knobs] = []
        self.hangs = False

    def stop(self) -> None:
        if self.hangs:
            self.hangs, self.stops = False, self.stops + 1
            os.kill(os.getpid(), signal.SIGINT)  # a person waits, and presses it again
        else:
            super().stop()

    def load(self, setup: Setup) -> None:
        super().load(setup)
        if "missing" in (setup.model or ""):
            self.fail_loading("There is no such model.")
        elif "other" in (setup.draft or ""):
            self.fail_loading("Another vocabulary.", without_draft=True)
        else:
            self.report_loading("target", 0.5, 1_900_000_000)
            self.finish_loading()

    def generate(self, messages: Sequence[Message], at: float | None = None) -> None:
        super().generate(messages)
        self.turned.append(self.knobs)
        prompt = messages[-1].content
        self.read_prompt(5, 5)
        if self.knobs.drafter == "off" and "plain" in prompt:
            self.emit_round(plain="x", reason=Reason("drafter off"))
            self.finish()
            return
        if prompt.endswith("break"):
            self.fail("Something broke.")
            return
        self.emit_round("You", " said", bonus=" ", rejected=[])
        self.emit_round(prompt.upper(), correction="." if "newline" not in prompt else ".\n", rejected=[" x"])
        if "stop" in prompt or "hang" in prompt:
            self.hangs = "hang" in prompt
            os.kill(os.getpid(), signal.SIGINT)
            return
        self.finish()


class Known(ModelCatalogue):
    """A catalogue with these models."""

    def scan(self, beside: object = (), cancelled: Callable[[], bool] = lambda: False) -> Iterator[GgufHeader]:
        yield from HEADERS


class Slow(Known):
    """Looks for models until a person presses Ctrl+C."""

    def scan(self, beside: object = (), cancelled: Callable[[], bool] = lambda: False) -> Iterator[GgufHeader]:
        yield HEADERS[0]
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the command goes on")


class KnownProfiles(ProfileFile):
    """One profile."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))

    def names(self) -> list[str]:
        return ["code"]

    def load(self, name: str) -> Mapping[str, Any]:
        if name != "code":
            raise UsageError(f"There is no profile {name}.")
        return {"temperature": 0.2}


class Chat:
    """What a chat over these lines said, and what its engine was asked."""

    def __init__(
        self,
        *lines: str,
        interactive: bool = False,
        setup: Setup = PAIR,
        journal: Journal | None = None,
        crash: Crash | None = None,
        offer: StoredConversation | None = None,
        devices: tuple[Device, ...] = (CPU,),
        here: Path | None = None,
        catalogue: ModelCatalogue | None = None,
        knobs: Knobs | None = None,
        engine: AnsweringEngine | None = None,
    ) -> None:
        self.engine = engine or AnsweringEngine(devices, knobs)
        out, aside = io.StringIO(), io.StringIO()
        session = ChatSession(self.engine, setup, journal, crash=crash, offer=offer)
        session.user_knobs.profiles = KnownProfiles()
        read = io.StringIO("\n".join(lines) + "\n")
        chat = PlainChat(session, read=read, out=out, aside=aside, interactive=interactive, catalogue=catalogue or Known())
        before = Path.cwd()
        os.chdir(here or before)
        try:
            self.code = chat.run()
        finally:
            os.chdir(before)
            self.out, self.aside = out.getvalue(), aside.getvalue()
        assert "\x1b" not in self.out + self.aside
        assert self.engine.closed

    @property
    def asked(self) -> list[str]:
        """The contents of the last conversation that was sent."""
        return [message.content for message in self.engine.generates[-1]]


def test_a_pipe_gets_the_replies_and_nothing_else():
    chat = Chat("hello", "", "and newline")
    assert chat.out == "You said HELLO.\nYou said AND NEWLINE.\n"
    assert (chat.aside, chat.code) == ("", 0)
    assert chat.asked == ["hello", "You said HELLO.", "and newline"]


def test_a_person_is_told_who_speaks():
    chat = Chat("hello", "/quit", "not read", interactive=True)
    assert chat.out == "you: target: You said HELLO.\nyou: "
    assert chat.aside == "loading target, 1.9 GB\ntarget drafted by draft ready, context 4 096 tokens. /help lists commands.\n"


def test_a_line_can_go_on_and_a_prompt_can_begin_with_a_slash():
    assert Chat("one\\", "two").asked == ["one\ntwo"]
    assert Chat("//etc").asked == ["/etc"]
    assert Chat("// TODO").asked == ["// TODO"]


def test_new_and_regenerate():
    chat = Chat("one", "/regenerate", "/new", "two")
    assert [len(messages) for messages in chat.engine.generates] == [1, 1, 1]
    assert chat.asked == ["two"]
    assert Chat("/regenerate").aside == "There is no prompt to answer again.\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "/regenrate",
            "There is no command /regenrate; did you mean regenerate? /help lists them, and // begins a prompt with a slash.",
        ),
        ("/set draft-mx 3", "There is no knob 'draft-mx'; did you mean draft-max?"),
        ("/set p-min 2", "/set: p-min must be between 0 and 1, not 2."),
        ("/set draft-min 20", "draft-min 20 is above draft-max 16"),
        ("/set seed x", "/set: seed must be a whole number, not 'x'."),
        ("/set chat-template-kwargs [1]", "/set: chat-template-kwargs is a JSON object such as"),
        ("/think", "The model's chat template has no switch for thinking"),
        ("/think maybe", "/think takes on or off"),
        ("/profile none", "There is no profile none."),
        ("/load a b c", "/load takes one or two files"),
        ("/load 'a", "/load takes one or two files: No closing quotation."),
        ("/load 7", "There is no model 7 in the list: /models shows it."),
        (f"/load {'9' * 5000}", f"There is no model {'9' * 20} in the list: /models shows it."),
        ("break", "Something broke."),
    ],
)
def test_what_went_wrong_is_a_sentence_and_a_pipe_ends_with_1(line: str, says: str):
    chat = Chat(line, "after")
    assert chat.aside.startswith(says)
    assert chat.out.endswith("AFTER.\n")
    assert chat.code == 1
    assert chat.engine.knobs == Knobs()
    assert Chat(line, interactive=True).code == 0


def test_every_command_is_in_the_help():
    lines = Chat("/help").out.splitlines()
    assert [line.split()[0].strip("/:") for line in lines[:-1]] == list(SLASH)
    assert "Ctrl+C" in lines[-1]


def test_the_figures_in_words():
    lines = Chat("hello", "/stats").out.splitlines()
    assert lines[1] == "target drafted by draft; context 10 of 4 096 tokens."
    assert lines[2].startswith("Last reply: 5 tokens at 12.5 a second, 2.5 a pass, 75 % of 4 drafted tokens accepted")
    assert lines[3].startswith("This chat: 5 tokens")
    assert len(Chat("/stats").out.splitlines()) == 1, "nothing was said yet"


def test_the_share_that_was_accepted_is_that_of_the_tokens_that_were_checked():
    """Ignored tokens were never sent to the target: 3 of 4 are not 75 % of 24."""
    line = summary_line(Statistics(emitted=5, rounds=2, accepted=3, rejected=1, ignored=20))
    assert line.endswith(", 75 % of 4 drafted tokens accepted, 20 others ignored")


def test_a_model_that_cannot_be_loaded_ends_a_pipe_and_is_told_to_a_person():
    with pytest.raises(SpectuiError, match=r"There is no such model\."):
        Chat("hello", setup=Setup(model="missing.gguf"))
    chat = Chat("hello", "/load a.gguf", "hello", interactive=True, setup=Setup(model="missing.gguf"))
    assert (
        "There is no such model. /load tries again, /placement with other flags, /load TARGET DRAFT chooses other models.\n"
        in chat.aside
    )
    assert "No model can answer yet" in chat.aside
    assert chat.asked == ["hello"]


def test_the_target_goes_on_alone_where_the_draft_fails():
    chat = Chat("/nodraft", "hello", interactive=True, setup=replace(PAIR, draft="other.gguf"))
    assert "Another vocabulary. /nodraft goes on without the draft. /load tries again, " in chat.aside
    assert chat.engine.loads[-1] == replace(PAIR, draft=None)
    assert chat.asked == ["hello"]


def test_ctrl_c_stops_the_reply_and_not_the_chat():
    before = signal.getsignal(signal.SIGINT)  # ignored, where the tests run in a shell's background
    chat = Chat("stop", "after")
    assert chat.out == "You said STOP.\nYou said AFTER.\n"
    assert chat.aside == "stopped\n"
    assert chat.engine.stops == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_again_stops_a_reply_that_has_not_stopped():
    """The engine ends its process then: a device may not answer."""
    chat = Chat("hang", "after")
    assert chat.out == "You said HANG.\nYou said AFTER.\n"
    assert chat.engine.stops == 2


class Late(AnsweringEngine):
    """Answers a prompt only while a person waits for it."""

    def generate(self, messages: Sequence[Message], at: float | None = None) -> None:
        self.late = messages

    def answer(self, seconds: float) -> None:
        super().generate(self.late)


def test_a_person_is_told_that_the_reply_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    engine = Late()
    monkeypatch.setattr(plain.time, "sleep", engine.answer)
    monkeypatch.setattr(plain, "PATIENCE_S", 1e-9)
    assert "waiting for the reply, 0 s\n" in Chat("hello", interactive=True, engine=engine).aside


def test_ctrl_c_stops_a_command_and_not_the_chat():
    chat = Chat("/models", "after", catalogue=Slow())
    assert (chat.aside, chat.out) == ("stopped\n", "You said AFTER.\n")


def test_a_new_chat_after_continue_has_the_usual_system_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECTUI_DATA_DIR", str(tmp_path))
    written(database_file()).close()
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.scripted", "chat", "--plain", "-m", "target.gguf", "--continue"],
        input="/system\n/new\n/system\n", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout == "System prompt: Be brief.\nSystem prompt: none\n"


def test_what_is_said_is_kept(tmp_path: Path):
    file = tmp_path / "conversations.db"
    Chat("hello", journal=Journal(file))
    kept = last(file)
    assert kept is not None
    assert [message.text for message in kept.messages] == ["hello", "You said HELLO."]
    engine = AnsweringEngine()
    out, aside = io.StringIO(), io.StringIO()
    chat = PlainChat(
        ChatSession(engine, PAIR, Journal(file)), read=io.StringIO("again\n"), out=out, aside=aside, interactive=True,
        catalogue=Known(),
    )  # fmt: skip
    chat.run(kept)
    assert aside.getvalue().startswith("Going on with: hello\n")
    assert out.getvalue().startswith("you: hello\ntarget: You said HELLO.\nyou: target: You said AGAIN.")
    assert [message.content for message in engine.generates[0]] == ["hello", "You said HELLO.", "again"]


def died(setup: Setup) -> Crash:
    return Crash("decoding", setup, 0.0, Path("/state/died.log"), "GGML_ASSERT(x) failed")


def test_after_a_crash_a_person_is_offered_the_safe_way_and_the_conversation(tmp_path: Path):
    file = tmp_path / "conversations.db"
    written(file).close()
    chat = Chat("hello", "/continue", "/safe", "again", "/continue",
                interactive=True, journal=Journal(file), crash=died(PAIR), offer=last(file))  # fmt: skip
    assert chat.aside.startswith(
        "spectui died while decoding with target.gguf and draft.gguf. It said: GGML_ASSERT(x) failed. The log is"
        " /state/died.log. /continue opens the conversation again. /safe loads the models in safe mode. /load loads them"
        " as before.\nNo model can answer yet"
    )
    assert "Going on with: first" in chat.aside
    (setup,) = chat.engine.loads
    assert (setup.model, setup.flash_attn, setup.no_repack) == (PAIR.model, "off", "on")
    assert chat.asked[:2] == ["Be brief.", "first\nof all"] and chat.asked[-1] == "again"
    assert chat.aside.endswith("There is no reply that was stopped, and no conversation that was cut off.\n")


@pytest.mark.parametrize(("interactive", "setup"), [(False, PAIR), (True, replace(PAIR, draft=None))])
def test_a_pipe_and_other_models_go_on_after_a_crash(interactive: bool, setup: Setup):
    chat = Chat("hello", interactive=interactive, setup=setup, crash=died(PAIR))
    assert "spectui died while decoding" in chat.aside and "/load loads them" not in chat.aside
    assert chat.engine.loads == [setup] and "You said HELLO." in chat.out


@pytest.mark.parametrize("how", [["--continue"], ["--conversation", ""]])
def test_a_damaged_history_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: list[str]):
    monkeypatch.setenv("SPECTUI_DATA_DIR", str(tmp_path))
    file = database_file()
    written(file).close()
    kept = last(file)
    assert kept is not None
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE conversation")
    connection.close()
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.scripted", "chat", "--plain", "-m", "target.gguf",
         *[kept.id if each == "" else each for each in how]],
        input="short\n", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "Going on with: first" in done.stderr
    assert "is damaged: it is now" in done.stderr and "with what could be read of 1 conversation." in done.stderr
    now = last(file)
    assert now is not None and now.id == kept.id
    assert [message.text for message in now.messages][: len(kept.messages)] == [each.text for each in kept.messages]
    assert now.messages[-2].text == "short" and now.messages[-1].text.startswith("0 - 1 - ")


def test_a_history_of_which_nothing_can_be_read_is_set_aside_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECTUI_DATA_DIR", str(tmp_path))
    database_file().write_bytes(b"no database at all" * 999)
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.scripted", "chat", "--plain", "-m", "target.gguf", "--continue"],
        input="", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "is damaged: it is now" in done.stderr and "There is no conversation to go on with" in done.stderr
