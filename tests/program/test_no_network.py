"""Nobody is asked for anything and nobody can ask: a chat in its window, and on the real engine, touches no socket."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.terminal import Terminal
from tests.llama.ggufs import write_model

pytestmark = pytest.mark.usefixtures("fresh_directories")
HOOKED = "tests.helpers.hooked_sockets"
TINY = ("-t", "1", "-c", "256", "-n", "8", "--no-profile", "--seed", "1")  # with some seeds it ends at once


def hooked(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", HOOKED, *arguments], capture_output=True, timeout=300, check=False)


def test_one_prompt_on_the_real_engine(tmp_path: Path) -> None:
    model = str(write_model(tmp_path / "model.gguf"))
    done = hooked("run", "-m", model, "-md", model, *TINY, "-p", "hello")
    assert done.returncode == 0, done.stderr
    assert b"n_predict" in done.stderr, "it answered: with no word, maybe, since the weights are drawn at random"


def test_a_window(tmp_path: Path) -> None:
    model = str(write_model(tmp_path / "model.gguf"))
    with Terminal("chat", "-m", model, "-md", model, *TINY, module=HOOKED) as terminal:
        terminal.wait("the window", lambda: "Ask something" in terminal.text and "ctx " in terminal.text)
        terminal.type("hello\r")
        terminal.wait("a token of the reply", lambda: re.search(r"▌(accepted|bonus|plain) +[1-9]", terminal.text) is not None)
        terminal.leave()


def test_the_hook_sees_what_asks_for_the_network() -> None:
    code = (
        "import socket, sys; from tests.helpers.hooked_sockets import watch; sys.addaudithook(watch);"
        "socket.create_connection(('127.0.0.1', 9))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300, check=False).returncode == 77
