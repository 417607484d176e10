"""`spectui draft make`: a quantised copy of the target as its draft, and one sentence for each thing that can go wrong."""

import os
import resource
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from spectui.cli import root
from spectui.errors import SpectuiError
from spectui.gguf_files.header import read_header
from tests.cli.programs import one_sentence, spectui
from tests.helpers.smollm2 import whole
from tests.helpers.terminal import Terminal
from tests.llama.ggufs import write_model
from tests.test_docs import parse


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A few thousand weights in single precision."""
    return write_model(tmp_path / "big.gguf")


def make(*arguments: object) -> Result:
    return CliRunner().invoke(root, ["draft", "make", *map(str, arguments)])


def test_the_copy_is_written_beside_the_target(model: Path) -> None:
    model.chmod(0o640)
    result = make("-m", model, "--type", "q8_0")
    assert result.exit_code == 0, result.stderr
    copy = model.with_name("big.draft-Q8_0.gguf")
    assert result.stdout.startswith(f"Wrote {copy} (")
    assert read_header(copy).quantisation == "Q8_0" and copy.stat().st_size < model.stat().st_size
    assert copy.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(model.parent)) == ["big.draft-Q8_0.gguf", "big.gguf"]


def test_it_prints_the_command_that_measures_how_well_the_copy_drafts(model: Path) -> None:
    line = make("-m", model, "--type", "Q8_0").stdout.splitlines()[-1]
    assert line.startswith("spectui bench ")
    words = shlex.split(line)[1:]
    assert words[words.index("--draft") + 1] == str(model.with_name("big.draft-Q8_0.gguf"))
    parse(words)


def test_what_exists_or_makes_no_sense_is_refused(model: Path) -> None:
    directory = model.parent
    copy = directory / "big.draft-Q4_0.gguf"
    copy.write_bytes(b"mine")
    for number in (1, 2):
        (directory / f"a-0000{number}-of-00002.gguf").write_bytes(model.read_bytes())
    (directory / "damaged.gguf").write_bytes(model.read_bytes()[:200])
    refused = {
        ("-m", model, "--type", "Q4_0"):
            f"{copy} exists already: draft with it (-md), --replace it, or name another with -o.",
        ("-m", model, "--type", "Q4_0", "-o", model): f"{model} is the target itself: write the copy to another file.",
        ("-m", model, "--type", "Q4_0", "-o", directory / "no" / "x"):
            f"There is no directory {directory / 'no'}: make it, or name another with -o.",
        ("-m", "nothing.gguf", "--type", "Q4_0"): "There is no target model 'nothing.gguf': check the path.",
    }  # fmt: skip
    for arguments, sentence in refused.items():
        result = make(*arguments)
        assert (result.exit_code, result.stderr) == (1 + ("exists already" in sentence), f"spectui: {sentence}\n")
    part = make("-m", directory / "a-00001-of-00002.gguf", "--type", "Q4_0")
    assert "only whole files can be quantised" in part.stderr
    assert "damaged or cut short" in make("-m", directory / "damaged.gguf", "--type", "Q4_0").stderr
    assert "is not one of" in make("-m", model, "--type", "Q9").stderr
    assert copy.read_bytes() == b"mine"
    assert make("-m", model, "--type", "Q4_0", "--replace").exit_code == 0
    assert make("-m", copy, "--type", "Q8_0").stderr == (
        "spectui: big.draft-Q4_0.gguf has no more bits a weight than Q8_0, so a copy would not be faster.\n"
    )


def test_a_full_disk_leaves_no_file(model: Path) -> None:
    """The limit is that of a program of its own: the output of pytest may be a longer file."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = spectui(
        "draft", "make", "-m", str(model), "--type", "Q8_0", preexec_fn=limit,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # else it may write the first 1000 bytes of a module
    )  # fmt: skip
    assert one_sentence(done, 1) == (
        "spectui: big.gguf could not be quantised as Q8_0: the file cannot be written, the disk may be full.\n"
    )
    assert os.listdir(model.parent) == ["big.gguf"]


def test_a_failure_stands_on_a_line_of_its_own(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(source: Path, file: Path, kind: str, progress: Callable[[float], None]) -> None:
        progress(0.5)
        raise SpectuiError("The disk is full.")

    monkeypatch.setattr("spectui.llama.quantiser.quantise", fails)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True, raising=False)
    result = make("-m", model, "--type", "Q8_0")
    assert "50% quantising" in result.stderr and result.stderr.endswith("\r\x1b[Kspectui: The disk is full.\n")


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal in which the copy has been begun, and is held: else it may end before a test goes on."""
    with Terminal("draft", "make", "-m", whole().model or "", "--type", "Q2_K", "-o", str(tmp_path / "draft.gguf")) as terminal:
        program = psutil.Process(terminal.child.pid)

        def runs_on() -> list[str]:
            program.resume()
            terminal.read(0.02)
            program.suspend()
            return os.listdir(tmp_path)

        terminal.wait("its file", runs_on, pause=0)  # a stopped program writes nothing
        yield terminal


def test_ctrl_c_stops_it_and_leaves_no_file(begun: Terminal, tmp_path: Path) -> None:
    begun.type("\x03")
    psutil.Process(begun.child.pid).resume()
    said = "".join(f"Stopped; {tmp_path / 'draft.gguf'} was not written.".split())
    begun.wait("the end", lambda: said in "".join(begun.text.split()))  # wherever the line is broken
    begun.child.wait()
    assert begun.child.exitstatus == 130
    assert os.listdir(tmp_path) == []


def test_ctrl_c_leaves_no_file_that_its_thread_began_before_this_one_went_on(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(*_: object) -> None:
        model.with_name(f"draft.gguf.{os.getpid()}.part").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    monkeypatch.setattr(os, "_exit", sys.exit)
    result = make("-m", model, "--type", "Q8_0")
    assert (result.exit_code, os.listdir(model.parent)) == (130, ["big.gguf"])
    assert "Stopped; " in result.stderr


def test_what_a_killed_one_has_begun_is_deleted_by_the_next(begun: Terminal, tmp_path: Path) -> None:
    begun.child.kill(signal.SIGKILL)
    begun.child.wait()
    assert len(os.listdir(tmp_path)) == 1
    (tmp_path / "backup.99999999.part").touch()  # another program's
    assert make("-m", write_model(tmp_path / "big.gguf"), "--type", "Q8_0", "-o", str(tmp_path / "draft.gguf")).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["backup.99999999.part", "big.gguf", "draft.gguf"]
