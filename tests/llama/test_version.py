"""Another llama.cpp than the one whose structs are read: one sentence, before anything of it is used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spectui import pin
from spectui.llama import library

RUN = """
import sys
from spectui import pin
pin.LLAMA_CPP_PYTHON = "0.3.99"
from spectui.cli import main
sys.argv = ["spectui", *sys.argv[1:]]
main()
"""


def said(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
    )
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_another_version_is_one_sentence() -> None:
    assert said("doctor") == (
        f"spectui: llama-cpp-python 0.3.99 is needed (llama.cpp {pin.LLAMA}, ggml {pin.GGML}), and there is "
        f"{pin.LLAMA_CPP_PYTHON} ({pin.LLAMA}, {pin.GGML}): install that version (pip install "
        "llama-cpp-python==0.3.99), built for your GPU where you have one.\n"
    )


def test_libraries_of_another_directory_are_named(tmp_path: Path) -> None:
    sentence = said("doctor", LLAMA_CPP_LIB_PATH=str(tmp_path))
    assert "in LLAMA_CPP_LIB_PATH there is one that cannot be loaded (" in sentence
    assert "): unset LLAMA_CPP_LIB_PATH, or install that version" in sentence


def test_a_directory_named_by_nothing_is_none() -> None:
    assert "and there is 0.3." in said("doctor", LLAMA_CPP_LIB_PATH="")


@pytest.mark.parametrize("name", ["LLAMA", "GGML"])
def test_each_library_is_compared(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    library.check_version()
    monkeypatch.setattr(library, name, "0.0.1")
    with pytest.raises(library.OtherVersionError, match=r"is needed \(.*0\.0\.1"):
        library.check_version()
