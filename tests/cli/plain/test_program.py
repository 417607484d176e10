"""`spectui chat --plain` as a program: in pipes, and in a terminal."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.terminal import Terminal


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
        terminal.wait("the knob", lambda: "temperature 0.3:" in terminal.text)
        terminal.type("\x04")
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.raw
