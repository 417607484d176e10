"""`spectui chat --plain` as a program: in pipes, and in a terminal."""

import subprocess
import sys

import pytest

from spectui.store.database import database_file
from spectui.store.prompts import PromptHistory, prompts_file
from tests.helpers.terminal import Terminal
from tests.store.journal_helpers import last


def test_nothing_is_drawn_so_nothing_that_draws_is_loaded():
    code = "import sys, spectui.cli.plain.chat; print({'llama_cpp', 'textual'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "set()"


def test_the_program_in_pipes():
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.scripted", "chat", "--plain", "--no-history", "-m", "target.gguf"],
        input="/set draft-max 8\nshort\n/stats\n", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("draft-max 8: most tokens drafted in a round\n0 - 1 - ")
    assert "8 - 9 -" in done.stdout
    assert "Last reply: 20 tokens" in done.stdout
    assert "\x1b" not in done.stdout


def test_the_program_in_a_terminal_sends_no_escape_codes():
    with Terminal("chat", "--plain", "--no-history", "-m", "target.gguf", module="tests.helpers.scripted") as terminal:
        terminal.wait("the prompt", lambda: "you: " in terminal.text)
        terminal.type("hello\r")
        terminal.wait("the reply", lambda: b"7 - 8 - 9" in terminal.raw)  # it may have scrolled away since
        terminal.type("\x03")
        terminal.wait("that it stopped", lambda: "stopped" in terminal.text)
        terminal.type("/set temperature 0.3\r")
        terminal.wait("the knob", lambda: "you: " in terminal.text.partition("temperature 0.3:")[2])
        terminal.type("\x04")
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.raw.replace(b"\x1b[?2004h", b"").replace(b"\x1b[?2004l", b"")


def test_lines_are_edited_and_brought_back_and_a_paste_is_one_prompt(tmp_path, fresh_directories):
    pytest.importorskip("readline")
    long = "word " * 2000
    with Terminal("chat", "--plain", "-m", "target.gguf", module="tests.helpers.scripted") as terminal:

        def sent(typed: str, number: int) -> None:
            terminal.wait("the prompt", lambda: terminal.raw.count(b"you: ") >= number)
            terminal.type(typed)
            terminal.wait("the reply", lambda: terminal.raw.count(b"8 - 9 -") == number)

        sent("shxrt\x1b[D\x1b[D\x7fo\x05 one\r", 1)  # Left, Left, Backspace, Ctrl+E
        assert b"\x1b[?2004h" in terminal.raw, "pastes are asked for in brackets"
        sent("\x1b[200~short two\nlines\x1b[201~\r", 2)
        sent(f"short {long}\r", 3)
        sent("\x1b[A\x1b[A\r", 4)  # Up, twice
        terminal.wait("the prompt", lambda: terminal.raw.count(b"you: ") >= 5)
        terminal.type("\x04")
        assert terminal.end() == 0
    prompts = [message.text for message in last(database_file()).messages if message.role == "user"]
    assert prompts == ["short one", "short two\nlines", f"short {long}", "short two\nlines"]


def test_the_lines_of_a_prompt_are_one_and_a_deleted_chat_takes_it_along(fresh_directories):
    pytest.importorskip("readline")
    with Terminal("chat", "--plain", "-m", "target.gguf", module="tests.helpers.scripted") as terminal:
        for number, typed in enumerate(
            ("short secret\\\rof two lines\r", "/new\r", "short other\r", "/chats\r", "/delete 2 yes\r"), 1
        ):
            terminal.wait("the prompt", lambda number=number: terminal.raw.count(b"you: ") >= number)
            terminal.type(typed)
        terminal.wait("the prompt", lambda: terminal.raw.count(b"you: ") >= 6)
        assert "short secret\u201d is deleted" in terminal.text
        assert PromptHistory(prompts_file()).load() == ["short other"]
        seen = len(terminal.raw)
        terminal.type("\x1b[A" * 6 + "\r")  # to the first line of all
        terminal.wait("the reply", lambda: b"8 - 9 -" in terminal.raw[seen:] or b"new chat" in terminal.raw[seen:])
        assert b"secret" not in terminal.raw[seen:]
        terminal.wait("the prompt", lambda: terminal.raw.count(b"you: ") >= 7)
        terminal.type("\x04")
        assert terminal.end() == 0
