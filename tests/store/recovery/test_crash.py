"""A run that dies leaves a report, and one that ends leaves nothing. (In a terminal: tests/program/test_endings.py.)"""

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spectui.knobs import Setup
from spectui.store.recovery.crash import MOST_BYTES, Run, safe_setup, take_crash

DYING = """
import logging, os, sys
from pathlib import Path
from spectui.knobs import Setup
from spectui.store.recovery.crash import Run
run = Run(Path(sys.argv[1]))
run.take_stderr()
run.enter("loading draft", Setup(model="/m/t.gguf", draft="/m/d.gguf", ctx_size=99, system="secret"))
logging.getLogger("spectui.llama.library").info("llama.cpp says error: out of memory")
if sys.argv[2] == "idle":
    run.enter("", Setup())
if sys.argv[2] == "ends":
    run.end()
print("the last breath", file=sys.stderr)
os.abort() if sys.argv[2] != "ends" else None
"""


def dead(directory: Path, how: str = "dies") -> str:
    """Run the program to its end; returns what it wrote to the terminal's standard error."""
    done = subprocess.run([sys.executable, "-c", DYING, str(directory), how], capture_output=True, text=True)
    assert (done.returncode == 0) == (how == "ends")
    return done.stderr


def test_a_run_that_died_is_reported_once(tmp_path: Path) -> None:
    assert dead(tmp_path) == "the last breath\n", "Python's messages still go to the terminal, those of the signal do not"
    crash = take_crash(tmp_path)
    assert crash is not None
    assert crash.sentence == (
        "spectui died while loading draft with t.gguf and d.gguf. "
        f"It said: llama.cpp says error: out of memory. The log is {crash.log}."
    )
    assert crash.setup.draft == "/m/d.gguf"
    log = crash.log.read_text()
    assert "llama.cpp says error: out of memory" in log and "Fatal Python error: Aborted" in log
    assert stat.S_IMODE(crash.log.stat().st_mode) == 0o600
    assert take_crash(tmp_path) is None
    assert [path.name for path in tmp_path.iterdir()] == [crash.log.name]


@pytest.mark.parametrize("how", ["ends", "idle"])
def test_a_run_that_ended_or_was_idle_leaves_nothing(tmp_path: Path, how: str) -> None:
    dead(tmp_path, how)
    assert take_crash(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_living_run_is_no_crash_whatever_the_clock_was_set_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path)
    made = psutil.Process().create_time()  # the system reckons it back from what the clock says now
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: made + 3600)
    try:
        run.enter("decoding", Setup(model="t.gguf"))
        assert take_crash(tmp_path) is None and (home(tmp_path) / "doing.json").exists()
    finally:
        run.end()
    assert logging.getLogger("spectui").handlers == [] and list(tmp_path.iterdir()) == []


def test_the_latest_of_several_is_reported_and_its_log_kept(tmp_path: Path) -> None:
    (tmp_path / "died.log").write_text("of an earlier crash")
    for number in (1, 3, 2):
        home = tmp_path / f"run-{number}"
        home.mkdir()
        doing = {"stage": f"stage {number}", "setup": {"model": "t.gguf"}, "when": number}
        (home / "doing.json").write_text(json.dumps(doing))
        (home / "log.txt").write_text(f"of crash {number}")
    crash = take_crash(tmp_path)
    assert crash is not None and crash.stage == "stage 3" and crash.log.read_text() == "of crash 3"
    assert list(tmp_path.iterdir()) == [crash.log]


def test_a_run_whose_id_another_process_has_now_is_reported(tmp_path: Path) -> None:
    home = tmp_path / f"run-{os.getpid()}-x"
    home.mkdir()
    (home / "doing.json").write_text(json.dumps({"stage": "decoding", "setup": {"model": "t.gguf"}, "when": 1}))
    (home / "log.txt").touch()
    crash = take_crash(tmp_path)
    assert crash is not None and crash.stage == "decoding"


def test_the_log_does_not_grow_beyond_its_limit_and_keeps_the_last_lines(tmp_path: Path) -> None:
    run = Run(tmp_path)
    try:
        log = home(tmp_path) / "log.txt"
        for number in range(5000):
            logging.getLogger("spectui.llama.library").info("line %d %s", number, "x" * 200)
            assert number % 500 or log.stat().st_size <= MOST_BYTES
        assert "line 4999 " in log.read_text()
        assert log.read_text().count("line ") >= 150
    finally:
        run.end()


def test_the_log_is_safe_to_print_on_a_terminal(tmp_path: Path) -> None:
    run = Run(tmp_path)
    try:
        logging.getLogger("spectui.llama.library").info("unknown architecture: %s", "\x1b]52;c;eA==\x07\udcffx")
        assert (home(tmp_path) / "log.txt").read_text() == "unknown architecture: ]52;c;eA==x\n"
    finally:
        run.end()


def test_a_directory_that_cannot_be_made_costs_only_the_marker(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    run = Run(tmp_path / "runs")
    run.take_stderr()
    run.enter("loading", Setup())
    run.end()
    assert take_crash(tmp_path / "runs") is None
    assert take_crash(tmp_path / "nowhere") is None


def test_the_safe_setup_demands_less_and_keeps_the_models() -> None:
    asked = Setup(model="t", draft="d", ctx_size=8192, flash_attn="on", cache_type_k="q8_0", system="s", threads=3)
    assert safe_setup(asked) == Setup(model="t", draft="d", ctx_size=2048, flash_attn="off", system="s", threads=3,
                                      no_repack="on", requantise_draft="off")  # fmt: skip
    assert safe_setup(Setup(ctx_size=512)).ctx_size == 512
    assert safe_setup(Setup(ctx_size=0)).ctx_size == 2048


def home(directory: Path) -> Path:
    """This process's."""
    (found,) = directory.glob("run-*")
    return found
