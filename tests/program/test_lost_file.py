"""A model file that is cut off, or that the disk loses, while llama.cpp has it mapped into the memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spectui import paths
from spectui.store import library
from tests.cli.programs import PROGRAM, spectui
from tests.helpers.terminal import Terminal
from tests.llama.ggufs import write_model
from tests.program.test_endings import DIED
from tests.store.journal_helpers import last, until

pytestmark = [
    pytest.mark.usefixtures("fresh_directories"),
    pytest.mark.skipif(sys.platform == "win32", reason="a file that is in use cannot be cut off"),
]
FLAGS = ("-c", "100000", "-t", "1", "-n", "90000", "--temp", "0", "--drafter", "off", "--no-profile")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Its replies do not end."""
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    return write_model(tmp_path / "model.gguf", template=template)


def sentence(model: Path) -> str:
    what = f"The model file {model} was cut off or its disk failed while it was in use (bus error)"
    return f"spectui: {what}: copy it there again."


def test_the_plain_chat_ends_with_a_sentence_and_the_next_one_says_why(model: Path) -> None:
    command = [*PROGRAM, "chat", "--plain", "-m", str(model), *FLAGS]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **streams) as chat:  # type: ignore[call-overload]
        chat.stdin.write(b"a\n")
        chat.stdin.flush()
        until(lambda: library.last(database()) is not None and len(last().messages) > 1 and last().messages[1].text)
        os.truncate(model, 0)
        _, said = chat.communicate(timeout=120)
    assert (chat.returncode, said.decode().strip().splitlines()[-1]) == (1, sentence(model))
    assert last().unfinished and last().messages[1].text
    again = spectui("chat", "--plain", "-m", str(model), *FLAGS, input=b"")
    assert f"It said: {sentence(model).removeprefix('spectui: ')}" in again.stderr.decode()


def test_the_window_is_closed_and_the_next_one_says_why(model: Path) -> None:
    with Terminal("chat", "-m", str(model), *FLAGS) as terminal:
        terminal.wait("the model", lambda: "ctx " in terminal.text)
        terminal.ask("a")
        until(lambda: library.last(database()) is not None and len(last().messages) > 1 and last().messages[1].text)
        os.truncate(model, 0)
        terminal.wait("the sentence", lambda: DIED.encode() in terminal.raw)
        assert terminal.end() == 1
        terminal.restored()
    with Terminal("chat", "-m", str(model)) as terminal:
        said = "was cut off or its disk failed while it was in use"
        terminal.wait("what happened", lambda: said in terminal.left)
        terminal.leave()


LOSES = """
import mmap, os, signal, sys
from spectui.llama.last_words import watch_file
first, *others, lost = sys.argv[1:]
watch_file(first)
opened = {path: open(path, "r+b") for path in (first, *others, lost) if path}
held = {path: mmap.mmap(file.fileno(), 0) for path, file in opened.items()}
if not lost:
    os.kill(os.getpid(), signal.SIGBUS)
os.truncate(lost, 5)
held[lost][-1]
"""


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (
            "m-00002-of-00003.gguf",
            "The model file {} was cut off or its disk failed while it was in use (bus error): copy it there",
        ),
        ("chat.db-shm", "A file in use was cut off, or a disk or the memory failed (bus error): start spectui again."),
        ("", "A file in use was cut off, or a disk or the memory failed (bus error): start spectui again."),
    ],
)
def test_a_model_file_that_was_lost_is_named_and_no_other(tmp_path: Path, lost: str, said: str) -> None:
    files = [tmp_path / name for name in ("m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "chat.db-shm")]
    for file in files:
        file.write_bytes(bytes(100_000))
    names = [str(file) for file in files if file.name != lost]
    run = subprocess.run(
        [sys.executable, "-c", LOSES, *names, str(tmp_path / lost) if lost else ""], capture_output=True, timeout=120
    )
    assert run.returncode == 1
    assert run.stderr.decode().strip().startswith(f"spectui: {said.format(tmp_path / lost)}")


def database() -> Path:
    return paths.data_directory() / "conversations.db"
