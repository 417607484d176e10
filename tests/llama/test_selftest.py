"""The self-test's verdict: found in a subprocess that may crash, and stored per build and CPU."""

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectui import paths
from spectui.errors import SpectuiError
from spectui.kernels.plugin import Unusable
from spectui.llama import build, library, selftest
from spectui.llama.build import rebuild_command
from spectui.llama.cpu import plugin
from spectui.llama.selftest import QUANTISATIONS, SelfTest

DIES = "import os, signal; print('Q8_0', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
ABORTS = "import os, sys; sys.stderr.write('GGML_ASSERT(memory) failed'); sys.stderr.flush(); os.abort()"
WORKS = "print('Q8_0')"
FAILS = "raise SystemExit(3)"
SET_LIMIT = "resource.setrlimit(resource.{0}, ({1}, {1}))"


class Children:
    """Stands for `subprocess.run`: starts these programs in turn, whatever is asked for."""

    def __init__(self, *programs: str) -> None:
        self.programs = list(programs)
        self.commands: list[list[str]] = []
        self.run = subprocess.run

    def __call__(self, command: list[str], **options: object) -> object:
        self.commands.append(command)
        return self.run([sys.executable, "-c", self.programs.pop(0)], **options)  # type: ignore[call-overload]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path / "state"))
    return


@pytest.fixture(autouse=True)
def without_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the advice depends on the compiler, which `subprocess.run` would be asked for."""
    monkeypatch.setattr(build, "cpu_name", lambda: "a CPU")


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """spectui's kernels are not built, unless a test says otherwise."""
    monkeypatch.setattr(selftest, "identity", lambda: "")


def with_kernels(monkeypatch: pytest.MonkeyPatch, identity: str = "theirs") -> None:
    monkeypatch.setattr(selftest, "identity", lambda: identity)


def children(monkeypatch: pytest.MonkeyPatch, *programs: str) -> Children:
    started = Children(*programs)
    monkeypatch.setattr(selftest.subprocess, "run", started)
    return started


def remembered() -> list[Path]:
    return sorted(paths.state_directory().glob("*"))


def test_the_real_self_test_decodes_every_quantisation():
    verdict = selftest.run()
    assert f"works ({', '.join(QUANTISATIONS)})" in verdict.lines[-1]
    # here or remembered, it is the same
    assert selftest.run() == verdict


@pytest.mark.parametrize(
    ("kernels", "programs", "verdict", "stored"),
    [
        ("", [("fast", WORKS)], (True, True), True),
        ("", [("fast", KILLED), ("plain", WORKS)], (False, True), False),  # as where memory is short
        ("", [("fast", FAILS), ("plain", WORKS)], (False, True), False),
        ("theirs", [("fast", WORKS), ("own", WORKS)], (True, True), True),
        ("theirs", [("fast", WORKS), ("own", DIES)], (True, False), True),
        ("theirs", [("fast", WORKS), ("own", KILLED)], (True, False), False),
        ("theirs", [("fast", DIES), ("plain", WORKS), ("own", WORKS)], (False, True), True),
    ],
)
def test_what_is_tried_and_what_follows(monkeypatch: pytest.MonkeyPatch, kernels: str, programs: list[tuple[str, str]],
                                        verdict: tuple[bool, bool], stored: bool) -> None:  # fmt: skip
    """A verdict that may be another one the next time is not stored."""
    with_kernels(monkeypatch, kernels)
    started = children(monkeypatch, *(program for _, program in programs))
    found = selftest.run()
    assert (found.extra_buffers, found.own) == verdict
    assert [command[-1] for command in started.commands] == [mode for mode, _ in programs]
    assert bool(remembered()) == stored


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits")
@pytest.mark.parametrize("limit", [("RLIMIT_FSIZE", 8192), ("RLIMIT_NOFILE", 8), ("RLIMIT_AS", 200000 * 1024)])
def test_limits_of_the_shell_are_not_blamed_on_the_cpu(limit: tuple[str, int]):
    script = f"import resource; from spectui.llama import selftest; {SET_LIMIT}; selftest.run(force=True)"
    done = subprocess.run([sys.executable, "-c", script.format(*limit)], capture_output=True, text=True, timeout=120)
    assert "limits that hold here (ulimit -a)" in done.stderr.strip().splitlines()[-1], done.stderr


def test_the_tiny_model_is_on_the_cpu_whatever_gpus_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[object] = []
    load = library.llama.llama_model_load_from_file

    def loads(path: bytes, params: object) -> object:
        asked.append(ctypes.cast(params.devices, ctypes.POINTER(ctypes.c_void_p))[0])  # type: ignore[attr-defined]
        return load(path, params)

    monkeypatch.setattr(library.llama, "llama_model_load_from_file", loads)
    selftest.main(str(tmp_path), "plain")
    # A list of devices that ends at once. Reading one that is not there fails: NULL means all devices.
    assert asked == [None] * len(QUANTISATIONS)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (ABORTS, "killed by signal 6 after nothing, said GGML_ASSERT(memory) failed"),
        (DIES, "killed by signal 11 after Q8_0"),
        (KILLED, "killed by signal 9 after nothing"),
        ("raise OSError('no /proc/meminfo')", "ended with code 1 after nothing, said OSError: no /proc/meminfo"),
    ],
)
def test_where_nothing_works_the_sentence_says_all_that_may_help(monkeypatch: pytest.MonkeyPatch, program: str, words: str):
    children(monkeypatch, program, program, WORKS)
    with pytest.raises(SpectuiError) as error:
        selftest.run()
    assert f"failed (without the fast kernels: {words}): free some memory, make room for " in str(error.value)
    assert rebuild_command() in str(error.value)
    assert remembered() == []
    assert selftest.run().extra_buffers


def test_a_subprocess_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch):
    def hangs(command: list[str], **options: object) -> None:
        raise subprocess.TimeoutExpired(command, 120)

    monkeypatch.setattr(selftest.subprocess, "run", hangs)
    with pytest.raises(SpectuiError, match="not ended after 120 s"):
        selftest.run()


def test_the_verdict_is_stored_until_a_new_one_is_forced(monkeypatch: pytest.MonkeyPatch):
    started = children(monkeypatch, DIES, WORKS, WORKS)
    assert not selftest.run().extra_buffers
    assert not selftest.run().extra_buffers
    assert len(started.commands) == 2
    assert selftest.run(force=True).extra_buffers
    assert selftest.run().extra_buffers
    assert len(started.commands) == 3


def test_each_build_and_cpu_has_a_verdict_of_its_own(monkeypatch: pytest.MonkeyPatch):
    started = children(monkeypatch, DIES, WORKS, WORKS, WORKS, WORKS)
    assert not selftest.run().extra_buffers
    monkeypatch.setattr(build, "cpu_name", lambda: "another CPU")
    assert selftest.run().extra_buffers
    with_kernels(monkeypatch)  # and each library of kernels
    assert selftest.run().own
    assert len(remembered()) == 3
    assert not started.programs


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"extra_buffers": true, "lines": [], "more": 1}'])
def test_a_damaged_file_is_found_again(monkeypatch: pytest.MonkeyPatch, content: bytes):
    children(monkeypatch, WORKS, DIES, WORKS)
    selftest.run()
    remembered()[0].write_bytes(content)
    assert not selftest.run().extra_buffers
    assert json.loads(remembered()[0].read_text())["extra_buffers"] is False


def test_a_directory_that_cannot_be_written_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path / "file" / "state"))
    children(monkeypatch, WORKS)
    verdict = selftest.run()
    assert verdict == SelfTest(True, verdict.lines)
    assert "the result could not be saved" in verdict.lines[-1]


def test_the_real_self_test_tries_spectui_s_kernels(monkeypatch: pytest.MonkeyPatch):
    """Or says why they cannot be used."""
    with_kernels(monkeypatch)
    verdict = selftest.run()
    assert verdict.own and verdict.lines[-1].startswith("with spectui's kernels: works (")


def test_kernels_that_cannot_be_used_are_no_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def load() -> None:
        raise Unusable("this CPU has no AVX2")

    monkeypatch.setattr(plugin, "load", load)
    selftest.main(str(tmp_path), "own")
    assert capsys.readouterr().out == "this CPU has no AVX2\n"
    assert list(tmp_path.iterdir()) == []
