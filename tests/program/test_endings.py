"""However spectui ends, the terminal is as it was, what was said is on disk, and nothing is left behind."""

import os
import re
import signal
import stat
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from spectui import paths
from tests.helpers.scripted import ASSERT, NOISE
from tests.helpers.terminal import Terminal
from tests.store.journal_helpers import last, until

DIED = "spectui died: spectui chat --continue goes on with what is saved."
"""Written where the cursor stood: the emulator has one screen, and may wrap it."""
pytestmark = pytest.mark.usefixtures("fresh_directories")
MODEL = ("chat", "-m", "/models/some.gguf", "-fa", "on")


@contextmanager
def scripted(*arguments: str) -> Iterator[Terminal]:
    with Terminal(*(arguments or MODEL), module="tests.helpers.scripted") as terminal:
        yield terminal


def counted_to(terminal: Terminal) -> int:
    """The highest number that the scripted reply shows."""
    return max((int(number) for number in re.findall(r"(\d+) - ", terminal.text)), default=0)


def replying(terminal: Terminal, prompt: str = "count") -> None:
    terminal.wait_for_window()
    terminal.ask(prompt)
    terminal.wait("a reply", lambda: counted_to(terminal) >= 40)


@contextmanager
def writing(prompt: str = "count") -> Iterator[Terminal]:
    """A window in which a reply is being written."""
    with scripted() as terminal:
        replying(terminal, prompt)
        yield terminal


def left_behind() -> list[str]:
    """What is left of runs."""
    return [path.name for path in (paths.state_directory() / "runs").glob("run-*")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_as_ctrl_q_does(number: signal.Signals) -> None:
    with writing() as terminal:
        os.kill(terminal.child.pid, number)
        assert terminal.end() == 128 + number
        terminal.restored()
    reply = last().messages[1]
    assert "40" in reply.text.split() and reply.reply is not None and reply.reply.stop == "cancelled"
    assert left_behind() == []


def loading(terminal: Terminal) -> None:
    terminal.wait("the loading", lambda: "loading" in terminal.text)


def asking(terminal: Terminal) -> None:
    replying(terminal)
    terminal.type("\x10")
    terminal.wait("the list of commands", lambda: "Filter by key" in terminal.text)


def comparing(terminal: Terminal) -> None:
    replying(terminal)
    terminal.press("escape")
    terminal.wait("the end of the reply", lambda: "stopped" in terminal.text)
    terminal.press("f5")
    terminal.wait("the second decoding", lambda: terminal.text.count("40 - 41") > 1 or "without drafts" in terminal.text)


def suspended(terminal: Terminal) -> None:
    replying(terminal)
    terminal.press("ctrl+z")
    process = terminal.program
    terminal.wait("the stop", lambda: process.status() == psutil.STATUS_STOPPED)


@pytest.mark.parametrize(
    ("state", "told"),
    [(loading, True), (replying, True), (replying, False), (asking, True), (comparing, False), (suspended, True)],
)
def test_the_terminal_is_closed(state: Callable[[Terminal], None], told: bool) -> None:
    """Whether or not the hangup is passed on: a shell may keep it for itself."""
    module = "tests.helpers.scripted" if told and state is not suspended else "tests.helpers.under_a_shell"
    jobs = {"JOBS": "1"} if state is suspended else {}
    with Terminal("chat", "-m", f"/models/{state.__name__}.gguf", module=module, **jobs) as terminal:
        state(terminal)
        terminal.child.ptyproc.fileobj.close()
        until(lambda: not terminal.child.isalive())
        assert terminal.child.exitstatus == 128 + signal.SIGHUP
    if state is not loading:
        assert "40" in last().messages[1].text.split()
    assert left_behind() == []


def test_suspended_and_stopped_without_a_word_the_reply_goes_on() -> None:
    """SIGSTOP cannot be caught: the program that had the terminal meanwhile may have left it in any state."""
    with Terminal(*MODEL, module="tests.helpers.under_a_shell", JOBS="1") as terminal:
        replying(terminal)
        process = terminal.program
        threads = process.num_threads()
        for stop in (lambda: terminal.press("ctrl+z"), lambda: os.kill(process.pid, signal.SIGSTOP)):
            before = counted_to(terminal)
            stop()
            terminal.wait("the stop", lambda: process.status() == psutil.STATUS_STOPPED)
            terminal.quiet()
            terminal.raw.clear()
            os.kill(process.pid, signal.SIGCONT)
            terminal.wait("the window anew", lambda: terminal.raw.count(b"\x1b[?1049h") == 1)
            terminal.wait("the reply that goes on", lambda before=before: counted_to(terminal) >= before + 40)
        assert process.num_threads() == threads, "one reads the keys, not two"
        terminal.leave()


def test_nothing_but_the_window_writes_to_the_terminal_and_no_shell_is_there_to_be_suspended_to() -> None:
    """A terminal or tmux has started spectui itself: nobody would let it go on."""
    with writing("noise") as terminal:
        terminal.wait("what comes after it", lambda: counted_to(terminal) >= 160)
        log = next((paths.state_directory() / "runs").glob("*/log.txt"))
        assert NOISE in log.read_text()
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        assert NOISE.encode() not in terminal.raw
        before = counted_to(terminal)
        terminal.press("ctrl+z")
        terminal.wait("why nothing happens", lambda: "There is no shell behind this window" in terminal.text)
        terminal.wait("the reply that goes on", lambda: counted_to(terminal) >= before + 40)
        assert b"\x1b[?1049l" not in terminal.raw, "what is typed while the window leaves the terminal would be lost"
        terminal.leave()


def test_killed() -> None:
    """What cannot be caught leaves the terminal usable, and a sentence on it."""
    with Terminal(*MODEL, module="tests.helpers.under_a_shell") as terminal:

        def line_modes() -> int:
            return int(termios.tcgetattr(terminal.child.fileno())[3]) & (termios.ISIG | termios.ECHO | termios.ICANON)

        before = line_modes()
        replying(terminal)
        (spectui,) = psutil.Process(terminal.child.pid).children()
        (watchdog,) = spectui.children()
        assert not line_modes()
        until(lambda: last().messages[-1].text.startswith("0 - 1 - "))
        os.kill(spectui.pid, signal.SIGKILL)
        terminal.wait("the sentence", lambda: DIED.encode() in terminal.raw)
        watchdog.wait(120)
        terminal.restored()
        assert line_modes() == before != 0
        assert terminal.child.isalive()
    assert last().unfinished and last().messages[1].text.startswith("0 - 1 - ")


@pytest.mark.parametrize(
    ("how", "number", "words"), [("assert", signal.SIGABRT, ASSERT), ("segv", signal.SIGSEGV, "Segmentation fault")]
)
def test_llama_cpp_ends_the_process_while_decoding(how: str, number: int, words: str) -> None:
    with writing(f"please {how}") as terminal:
        terminal.end()
        assert terminal.child.signalstatus == number
        assert words.encode() not in terminal.raw
    assert "50" in last().messages[1].text.split(), "all but the last second: it died after 400, at a token each 5 ms"
    assert last().unfinished

    with scripted() as terminal:
        said = ("spectui died while decoding with some.gguf.", words, "loads them as before")
        terminal.wait("what happened", lambda: all(each in terminal.left for each in said))
        terminal.press("ctrl+o")
        terminal.wait("the conversation", lambda: counted_to(terminal) and "spectui ended here" in terminal.text)
        terminal.press("ctrl+s")
        terminal.wait("the models", lambda: "ctx " in terminal.text)
        terminal.ask("go on")
        terminal.wait("the next reply", lambda: len(last().messages) == 4 and last().messages[3].text)
        terminal.leave()
    assert [message.text for message in last().messages][::2] == [f"please {how}", "go on"]
    setup = last().messages[-1].reply.setup  # type: ignore[union-attr]
    assert (setup.no_repack, setup.flash_attn, setup.ctx_size) == ("on", "off", 2048)
    assert words in (paths.state_directory() / "runs" / "died.log").read_text()

    with scripted() as terminal:
        terminal.wait("a start like any other", lambda: "ctx " in terminal.text)
        assert "died" not in terminal.text


def test_llama_cpp_ends_the_process_while_loading() -> None:
    with scripted("chat", "-m", "/models/assert.gguf") as terminal:
        terminal.end()
        assert terminal.child.signalstatus == signal.SIGABRT
    with scripted("chat", "-m", "/models/assert.gguf") as terminal:
        said = ("died while loading target with assert.gguf.", "loads them as before")
        terminal.wait("what happened", lambda: all(each in terminal.left for each in said))
        assert "goes on with the conversation" not in terminal.left
        terminal.leave()  # it was not loaded again by itself
    with scripted("chat", "-m", "/models/assert.gguf") as terminal:
        terminal.end()  # told once
        assert terminal.child.signalstatus == signal.SIGABRT
    with scripted("chat", "-m", "/models/other.gguf") as terminal:
        terminal.wait(
            "other models, loaded, and what happened",
            lambda: "ctx " in terminal.text and "died while loading target with assert.gguf." in terminal.left,
        )


def test_a_run_that_lives_is_left_alone() -> None:
    with writing(), scripted() as other:
        other.wait("a start like any other", lambda: "ctx " in other.text)
        assert "died" not in other.text
        assert len(left_behind()) == 2


@pytest.mark.parametrize("plain", [False, True])
def test_what_is_not_on_disk_at_the_end_is_told_on_the_terminal(
    plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("SPECTUI_DATA_DIR", str(tmp_path / "file"))
    told = f"spectui: What was said last is not on disk: Not a directory ({tmp_path / 'file' / 'conversations.db'})."
    if plain:
        command = [sys.executable, "-m", "tests.helpers.scripted", *MODEL, "--plain"]
        done = subprocess.run(command, input="short\n", capture_output=True, text=True, timeout=120)
        assert done.stderr.splitlines()[-1] == told
        return
    with writing() as terminal:
        terminal.leave()
        assert told in terminal.raw.decode(errors="replace").splitlines()[-1]


def test_a_reply_is_saved_while_an_editor_is_open_and_a_signal_ends_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor, opened = tmp_path / "editor", tmp_path / "opened"
    editor.write_text(f"#!/bin/sh\necho $$ > {opened}\nexec sleep 600\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    file = paths.data_directory() / "conversations.db"
    with writing() as terminal:
        terminal.type("\x1bo")
        until(opened.exists)
        seen = len(last(file).messages[-1].text)  # type: ignore[union-attr]
        until(lambda: len(last(file).messages[-1].text) > seen + 400)  # type: ignore[union-attr]
        os.kill(terminal.child.pid, signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM
        terminal.restored()
    until(lambda: not psutil.pid_exists(int(opened.read_text())))
