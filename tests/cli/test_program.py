"""The program in a process of its own: what it imports, what it says of bad input, and what it leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spectui.cli import COMMANDS, FOLDERS
from tests.cli.programs import PROGRAM, one_sentence, spectui
from tests.llama.ggufs import write_model

HEAVY = ("textual", "llama_cpp", "numpy", "spectui.ui", "spectui.engine", "spectui.llama")


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [(["--help"], {*COMMANDS}), (["--version"], set()), (["chat", "--help"], {"chat"}), (["config", "show"], {"config"})],
)
def test_help_and_version_load_no_heavy_room_and_no_other_command(arguments: list[str], commands: set[str]) -> None:
    code = (
        "import sys, json\n"
        "from spectui.cli import root\n"
        "try:\n"
        f"    root.main({arguments!r})\n"
        "finally:\n"
        "    print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=True)
    loaded = json.loads(done.stderr)
    assert {name for name in COMMANDS if f"spectui.cli.{FOLDERS.get(name, '')}{name}" in loaded} == commands
    assert [name for name in loaded if name.startswith(HEAVY)] == []


def test_the_collector_is_off_while_the_window_starts_and_on_again_behind_it() -> None:
    code = (
        "import gc\n"
        "from spectui.cli import root\n"
        "from spectui.ui.app import SpectuiApp\n"
        "SpectuiApp.run = lambda self: print(gc.isenabled())\n"
        "try:\n"
        "    root.main(['chat', '--no-history'])\n"
        "finally:\n"
        "    print(gc.isenabled())\n"
    )
    environment = os.environ | {"TEXTUAL_DRIVER": "textual.drivers.headless_driver:HeadlessDriver"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=True, env=environment)
    assert done.stdout.split() == [b"False", b"True"]


def test_the_program_ends_when_its_command_has_returned_whatever_its_threads_do() -> None:
    """Python would wait for the thread, or for a lock that it holds."""
    code = (
        "import sys, threading\n"
        "from spectui.cli import main\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "sys.argv = ['spectui', '--version']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout.startswith(b"spectui ")


def test_the_version_is_the_packages() -> None:
    import spectui as package

    said = spectui("--version").stdout.decode()
    assert re.fullmatch(r"spectui [\d.]+ \(llama-cpp-python [\d.]+, with(out)? spectui's kernels\)\n", said), said
    assert said.split()[1] == package.__version__


def test_an_argument_that_is_not_utf8() -> None:
    for flag in (b"-p", b"-sys"):
        done = subprocess.run([*PROGRAM, b"run", b"-p", b"x", flag, b"\xff"], capture_output=True, timeout=300, check=False)
        assert "not UTF-8" in one_sentence(done, 2)


def test_a_closed_standard_input_is_no_prompt() -> None:
    done = spectui("run", preexec_fn=lambda: os.close(0))
    assert "needs a prompt" in one_sentence(done, 2)


@pytest.mark.parametrize("line", ["run -p x", "config show", "--version"])
def test_a_closed_standard_output_is_said(line: str) -> None:
    done = spectui(*line.split(), preexec_fn=lambda: os.close(1))
    assert "Standard output is closed" in one_sentence(done, 1)


def test_a_full_disk_is_said() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PROGRAM, "config", "show"], stdout=full, stderr=subprocess.PIPE, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr == b"spectui: No space left on device: standard output.\n"


def test_a_reader_that_went_away_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run([*PROGRAM, "config", "show"], stdout=pipe, stderr=subprocess.PIPE, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_the_working_directory_was_removed(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("llama-server -m a.gguf")
    here = tmp_path / "here"
    here.mkdir()
    code = "import os, spectui.cli; os.rmdir(os.getcwd()); spectui.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "config", "import", str(script)], cwd=here, capture_output=True, timeout=60
    )
    assert one_sentence(done, 1) == "spectui: No such file or directory: the working directory.\n"


def test_a_model_in_the_home_of_nobody() -> None:
    done = spectui("run", "-m", "~nobody-of-this-name/a.gguf", "-p", "hi")
    assert "There is no target model '~nobody-of-this-name/a.gguf'" in one_sentence(done, 1)


@pytest.fixture
def without_llama_cpp(tmp_path: Path) -> dict[str, str]:
    """An environment in which `import llama_cpp` fails."""
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp" / "__init__.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object')")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize("arguments", ["doctor", "devices", "costs -m x.gguf", "run -m x.gguf -p hi"])
def test_without_llama_cpp_what_needs_it_says_so(arguments: str, without_llama_cpp: dict[str, str], tmp_path: Path) -> None:
    write_model(tmp_path / "x.gguf")
    done = spectui(*arguments.split(), env=without_llama_cpp, cwd=tmp_path)
    said = done.stderr.decode()
    assert "Traceback" not in said and "libgomp.so.1: cannot open shared object" in said.splitlines()[-1]
    assert done.returncode == 1


def test_without_llama_cpp_what_does_not_need_it_works(without_llama_cpp: dict[str, str], tmp_path: Path) -> None:
    results = tmp_path / "none.jsonl"
    results.write_text("")
    for arguments in (["forget"], ["bench", "--show", "--results", str(results)], ["history"], ["config", "show"]):
        done = spectui(*arguments, env=without_llama_cpp)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), arguments


def test_a_variable_that_means_nothing_is_named() -> None:
    done = spectui("config", "show", env=os.environ | {"SPECTUI_TEMPRATURE": "0.2", "SPECTUI_API_KEY": "k"})
    assert done.returncode == 0
    assert done.stderr == b"spectui: There is no variable SPECTUI_TEMPRATURE; did you mean SPECTUI_TEMPERATURE?\n"


def test_ctrl_c_while_it_is_imported_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run(
        [sys.executable, "-m", "spectui", "--version"], capture_output=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).resolve().parents[2]}"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, b"")
