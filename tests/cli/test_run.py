"""`spectui run`: what it hands to the engine, and what it makes of the events."""

import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from click.testing import CliRunner, Result

import spectui.engine.session
from spectui.cli import root
from spectui.cli.run import Printer, stopping
from spectui.engine.events import FREE, Event, Finished, Loaded, Loading, Message, Notice, RoundDone, Terms
from spectui.engine.room import no_room
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, Setup
from spectui.llama.interrupt import Interrupt
from spectui.speculation.records import StopReason, Token
from tests.cli.test_report import LOADED, a_round, finished
from tests.engine.waiting import PATIENCE


class ScriptedSession:
    """Stands in for the engine where a test needs an exact course of events. SIGINT comes from the process itself."""

    interrupt_loading = False
    interrupt_reply = False
    interrupt_comparison = False
    reason = StopReason.EOS
    messages: Sequence[Message] = ()
    terms = FREE
    loaded = LOADED
    knobs = Knobs()
    asked_with = knobs
    threads: set[str]

    def __init__(self, on_event: Callable[[Event], None], interrupt: Interrupt) -> None:
        self._emit = on_event
        self._interrupt = interrupt
        type(self).threads = {threading.current_thread().name}

    def _interrupted(self) -> None:
        """Ctrl+C, and a pass that goes on until it is seen."""
        os.kill(os.getpid(), signal.SIGINT)
        given_up = monotonic() + PATIENCE
        while not self._interrupt.is_set() and monotonic() < given_up:
            pass

    def load(self, setup: Setup) -> Loaded:
        self.threads.add(threading.current_thread().name)
        self._emit(Loading("target", 0.5))
        if self.interrupt_loading:
            self._interrupted()
            raise SpectuiError("Loading was cancelled.")
        self._emit(self.loaded)
        self._emit(Notice("something in passing"))
        return self.loaded

    def generate(self, messages: Sequence[Message], terms: Terms) -> Finished:
        self.threads.add(threading.current_thread().name)
        type(self).terms = terms
        type(self).messages, type(self).asked_with = messages, self.knobs
        self._emit(RoundDone(a_round(), 9))
        if self.interrupt_reply or (self.interrupt_comparison and self.knobs.drafter == "off"):
            self._interrupted()
        reason = StopReason.CANCELLED if self._interrupt.is_set() else self.reason
        done = finished(a_round())._replace(reason=reason)
        self._emit(done)
        return done

    def close(self) -> None:
        pass

    catch_up = rest = close


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> type[ScriptedSession]:
    class Scripted(ScriptedSession):
        pass

    monkeypatch.setattr(spectui.engine.session, "Session", Scripted)
    return Scripted


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(root, ["run", "-m", "big.gguf", *arguments], input=stdin)


def test_text_goes_to_stdout_and_figures_to_stderr(session: type[ScriptedSession]) -> None:
    result = run("-sys", "Be brief.", stdin="Question?\n")
    assert result.stdout == "aé\n"
    assert result.stderr.startswith("spectui: something in passing\n")
    assert result.stderr.endswith("accept    = 50.000%\n")
    assert session.messages == [Message("system", "Be brief."), Message("user", "Question?\n")]
    assert result.exit_code == 0


@pytest.mark.parametrize(("flag", "text"), [("--json-schema", '{"type": "array"}'), ("--grammar", 'root ::= "a"')])
def test_what_the_reply_obeys_is_read_from_a_file(session: type[ScriptedSession], tmp_path: Path, flag: str, text: str):
    (tmp_path / "file").write_text(text)
    flags = flag, str(tmp_path / "file"), "-p", "x"
    assert run(*flags).exit_code == 0 and session.terms == Terms(grammar=text)
    both = run(*flags, "--grammar" if flag == "--json-schema" else "--json-schema", "other")
    (tmp_path / "file").write_text("\n")
    for result in (both, run(*flags), run(flag, str(tmp_path / "none"), "-p", "x")):
        assert result.exit_code == 2 and result.stderr.startswith("spectui: ") and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "prompt", "stop"),
    [
        ((), r"a\nb", ("User:", "\n\n", "é")),
        (("-e",), "a\nb", ("User:", "\n\n", "é")),
        (("--escape",), "a\nb", ("User:", "\n\n", "é")),
        (("--no-escape",), r"a\nb", ("User:", r"\n\n", r"\xc3\xa9")),
    ],
)
def test_escapes_and_stop_texts(session: type[ScriptedSession], flags: Sequence[str], prompt: str, stop: Sequence[str]):
    stops = ("-r", "User:", "--reverse-prompt", r"\n\n", r"--stop=\xc3\xa9")
    result = run(*flags, *stops, "-sp", "--no-conversation", "-p", r"a\nb")
    assert "not used" not in result.stderr
    assert session.messages == [Message("user", prompt)]
    assert session.asked_with.stop == stop


@pytest.mark.parametrize(
    ("arguments", "given", "sentence"),
    [
        ("", b"caf\xe9", "The prompt from standard input is not text in UTF-8 (line 1): convert it first."),
        ("", b" \n", "The prompt from standard input is empty: give one with -p, with -f or on standard input."),
        ("-f none", b"", "The prompt file none cannot be read: No such file or directory."),
        ("-f x -p y", b"", "Give the prompt with -p or with -f, not with both."),
    ],
)
def test_a_prompt_that_cannot_be_used(arguments: str, given: bytes, sentence: str) -> None:
    done = CliRunner().invoke(root, ["run", *arguments.split()], input=given)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"spectui: {sentence}\n")


def test_the_models_file_chooses_what_no_flag_does(session: type[ScriptedSession]) -> None:
    session.loaded = LOADED._replace(sampling={"temperature": 0.0, "top_k": 1})
    run("say hello", "--temp", "0.8")
    assert session.messages == [Message("user", "say hello")]
    assert (session.asked_with.temperature, session.asked_with.top_k) == (0.8, 1)


def test_the_engine_computes_in_a_thread_of_its_own(session: type[ScriptedSession]) -> None:
    """Python sees Ctrl+C in the main thread alone, and there only between two calls of llama.cpp."""
    assert run("-p", "x").exit_code == 0
    assert session.threads == {"spectui-engine"}


def test_a_library_that_cannot_be_loaded_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spectui.engine.session", None)
    result = run("-p", "x")
    assert result.exit_code == 1
    assert result.stderr.startswith("spectui: llama.cpp could not be loaded")
    assert "reinstall" in result.stderr
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**27, 2**27))
    assert "limited (ulimit -v), so raise that limit" in (said := run("-p", "x").stderr) and "reinstall" not in said


def test_an_error_keeps_its_kind(session: type[ScriptedSession], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Loaded:
        raise UsageError("There is no device 'CUDA0'.")

    monkeypatch.setattr(session, "load", refused)
    result = run("-p", "x")
    assert (result.exit_code, result.stderr) == (2, "spectui: There is no device 'CUDA0'.\n")


def test_json_is_one_object_and_no_text(session: type[ScriptedSession]) -> None:
    result = run("--json", "-p", "x")
    assert json.loads(result.stdout)["schema"] == "spectui.run/1"
    assert len(json.loads(result.stdout)["tokens"]) == 2
    assert "accept    =" not in result.stderr


def test_a_reply_that_the_context_ends_says_so(session: type[ScriptedSession]) -> None:
    session.reason = StopReason.CONTEXT
    result = run("-p", "x")
    full = "the context of 4096 tokens is full"
    assert f"spectui: The reply ends here, because {full}: -c/--ctx-size sets a larger one.\n" in result.stderr
    assert result.exit_code == 0


def test_a_prompt_that_does_not_fit_is_a_sentence_and_has_no_figures(
    session: type[ScriptedSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object, messages: Sequence[Message], terms: Terms) -> Finished:
        raise no_room(messages, 2351, 512)

    monkeypatch.setattr(session, "generate", refused)
    result = run("-p", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(
        "spectui: The prompt has 2351 tokens and the context holds 512: shorten the prompt, or set a larger context with "
        "-c/--ctx-size.\n"
    )
    assert "t/s" not in result.stderr


@pytest.mark.parametrize(
    ("interrupted", "flags", "reason"), [("interrupt_reply", [], "cancelled"), ("interrupt_comparison", ["--verify"], "eos")]
)
def test_ctrl_c_still_gives_the_reply_and_its_figures(
    session: type[ScriptedSession], interrupted: str, flags: Sequence[str], reason: str
) -> None:
    setattr(session, interrupted, True)
    result = run("--json", *flags, "-p", "x")
    assert (result.exit_code, json.loads(result.stdout)["stop_reason"]) == (130, reason)
    assert "plain decoding" not in result.stderr and "differ" not in result.stderr


def test_the_reply_is_compared_with_its_plain_decoding_whose_text_is_not_printed(session: type[ScriptedSession]) -> None:
    result = run("--verify", "-p", "x")
    assert (result.exit_code, result.stdout, session.asked_with.drafter) == (0, "aé\n", "off")
    assert result.stderr.endswith("\nmeasured: cannot be told (within 30 %)\nidentical text: yes, over 2 tokens\n")


def test_ctrl_c_while_loading_is_no_error(session: type[ScriptedSession]) -> None:
    session.interrupt_loading = True
    result = run("-p", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


def test_a_second_ctrl_c_interrupts() -> None:
    stops: list[None] = []
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stopping(lambda: stops.append(None)):  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert len(stops) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_no_color_is_what_its_variable_is(session: type[ScriptedSession], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert run("--no-color", "-p", "x").exit_code == 0 and os.environ["NO_COLOR"] == "1"


@pytest.mark.parametrize(("colours", "marked"), [(True, True), (False, False)])
def test_only_corrections_are_marked(colours: bool, marked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    Printer(text=True, colours=colours)(RoundDone(a_round(), 9))
    assert out.getvalue().startswith("a")
    assert ("\x1b[38;5;208m\x1b[4mé" in out.getvalue()) is marked
    assert (out.getvalue() == "aé") is not marked


def test_the_cursor_is_left_at_the_beginning_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    printer = Printer(text=True, colours=False)
    printer.end()
    assert out.getvalue() == ""
    printer(RoundDone(replace(a_round(), tokens=(Token(1, "x", "plain", None, 0, 7, None, 1.0),)), 8))
    printer.end()
    assert out.getvalue() == "x\n"


def test_a_person_is_told_that_the_reply_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    printer = Printer(text=True, colours=False)
    printer.wait(4.0)
    assert capsys.readouterr().err == ""
    printer.wait(6.0)
    assert "waiting, 6 s" in capsys.readouterr().err
    printer(RoundDone(a_round(), 5))
    assert capsys.readouterr().err == "\r\x1b[K"
    printer.wait(6.0)
    assert capsys.readouterr().err == "", "the reply has begun"
