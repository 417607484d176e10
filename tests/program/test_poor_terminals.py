"""Terminals that cannot move the cursor or lack signs, locales without UTF-8, and an input without line ends."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from spectui.store.database import database_file
from spectui.store.journal import Journal
from spectui.text import LOOKALIKES
from tests.helpers.terminal import Terminal
from tests.llama.ggufs import write_model
from tests.store.journal_helpers import exchange, last, some_rounds

pytestmark = pytest.mark.usefixtures("fresh_directories")

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SCRIPTED = [sys.executable, "-m", "tests.helpers.scripted", "chat", "-m", "/models/some.gguf"]


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_a_terminal_without_cursor_movement(name: str) -> None:
    child = pexpect.spawn(sys.executable, ["-m", "spectui", "chat"], env={**os.environ, "TERM": name}, timeout=60)
    said = child.read().decode()
    child.close()
    assert "--plain" in said and len(said.strip().splitlines()) == 1 and "\x1b" not in said
    assert child.exitstatus == 2


@pytest.mark.parametrize("elsewhere", ["2>/dev/null", "2>&-"])
def test_a_window_is_drawn_on_standard_error_alone(elsewhere: str) -> None:
    child = pexpect.spawn("/bin/sh", ["-c", f"exec {sys.executable} -m spectui chat {elsewhere}"], timeout=60)
    said = child.read().decode()
    child.close()
    assert said.strip() == (
        "spectui: spectui chat draws its window on standard error, which is no terminal here: leave out 2>."
    )
    assert child.exitstatus == 2


@pytest.mark.parametrize("encoding", ["ascii", "cp437"])
def test_a_window_in_another_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in (ASCII | {"PYTHONIOENCODING": encoding}).items():
        monkeypatch.setenv(variable, value)
    with Terminal("chat", "-m", "/models/some.gguf", module="tests.helpers.scripted", columns=80, rows=24) as terminal:
        terminal.wait_for_window()
        terminal.ask("short")
        terminal.wait("the reply", lambda: "9 -" in terminal.text)
        assert "\\u" not in terminal.text and "\\x" not in terminal.text
        if encoding == "ascii":
            assert "-" * 40 in terminal.text, "the line above the prompt"
        terminal.leave()


def test_a_window_is_as_large_as_the_terminal_whatever_a_shell_has_exported() -> None:
    model = ("chat", "-m", "/models/some.gguf")
    with Terminal(*model, module="tests.helpers.scripted", columns=80, rows=24, COLUMNS="200", LINES="9") as terminal:
        terminal.wait("the last line", lambda: "Send" in terminal.screen.display[-1])
        terminal.screen.resize(30, 90)
        terminal.child.setwinsize(30, 90)
        terminal.wait("the new last line", lambda: "Send" in terminal.screen.display[-1])
        terminal.leave()


def test_signs_that_an_encoding_lacks_keep_their_width() -> None:
    assert "─│╭█▌ ●→✓…é漢e\u0301⣿".encode("ascii", LOOKALIKES) == b"-|+#| *>+.???e:"
    assert "─é●".encode("cp437", LOOKALIKES).decode("cp437") == "─é*"


def run(*arguments: bytes | str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "spectui", *arguments]
    return subprocess.run(command, env={**os.environ, **ASCII}, capture_output=True, timeout=120, check=False)


def test_an_argument_is_utf_8_whatever_the_locale_is(tmp_path: Path) -> None:
    model, summer = os.fsencode(tmp_path) + "/\u00e9.gguf".encode(), "\u00e9t\u00e9".encode()
    done = run("config", "show", "--system-prompt", summer, "-m", model)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    done = run("run", "-m", model, "-p", summer)
    assert b"not UTF-8" not in done.stderr and b"Traceback" not in done.stderr, "the model is not there"
    assert b"not UTF-8" in run("run", "-p", b"\xff").stderr


@pytest.mark.skipif(shutil.which("localedef") is None, reason="no program makes locales here")
def test_an_argument_in_the_locales_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(tmp_path / "en_US.ISO-8859-1")]
    if subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("no sources of locales here")
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setitem(ASCII, "LC_ALL", "en_US.ISO-8859-1")
    for typed in ("\u00e9t\u00e9".encode("latin-1"), "\u00e9t\u00e9".encode()):
        done = run("config", "show", "--system-prompt", typed)
        assert "\u00e9t\u00e9".encode("latin-1") in done.stdout, done.stderr
        assert b"not UTF-8" not in run("run", "-m", str(tmp_path / "none.gguf"), "-p", typed).stderr


def test_json_is_json_in_any_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A likeness of a quotation mark would end a string."""
    monkeypatch.setitem(ASCII, "PYTHONIOENCODING", "latin-1")
    model, system = str(write_model(tmp_path / "model.gguf")), "\u201c\u6f22\u201d \u00e9"
    few = ("-c", "256", "-t", "1", "-n", "2", "--no-profile")
    done = run("run", "-m", model, *few, "-sys", system.encode(), "-p", "hi", "--json")
    assert json.loads(done.stdout)["settings"]["system"] == system


@pytest.mark.parametrize("kind", ["md", "json"])
def test_an_export_whose_title_no_file_can_have(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(database_file())
    exchange(journal, "\u6f22\u5b57 two", some_rounds(1))
    journal.close()
    monkeypatch.chdir(tmp_path)
    done = run("history", "export", last().id, "--format", kind)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "\u6f22\u5b57" in (tmp_path / f"two.{kind}").read_text("utf-8")


def test_a_pipe_has_utf_8_whatever_the_locale_is(tmp_path: Path) -> None:
    text = "\u00e9 \u6f22 short"
    env = {**os.environ, **ASCII, "PYTHONPATH": str(Path(__file__).parents[2])}
    typed = f"{text}\n/export \u6f22.md\n".encode()
    done = subprocess.run(
        [*SCRIPTED, "--plain"], input=typed, cwd=tmp_path, env=env, capture_output=True, timeout=120, check=False
    )
    assert last().messages[0].text == text
    assert b"has signs that this locale's encoding lacks: give another name." in done.stderr
    assert list(tmp_path.glob("*.md")) == []


def test_an_input_without_a_line_end_is_not_read_for_ever() -> None:
    with open("/dev/zero", "rb") as zeros:
        done = subprocess.run([*SCRIPTED, "--plain"], stdin=zeros, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "spectui: The input has a prompt of more than 10 MB: shorten it."
