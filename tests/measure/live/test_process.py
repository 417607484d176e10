"""A measurement in a process of its own, on tiny models: its table grows, it stops early, and its errors are sentences."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from spectui.cli.options import INTERRUPTED
from spectui.measure.bench import results
from spectui.measure.live.process import MeasurementProcess
from tests.measure.models import tiny_setup

PROMPT = "Hi"


@pytest.fixture
def quick(tmp_path: Path) -> list[str]:
    """Flags that load a tiny pair."""
    setup = tiny_setup(tmp_path)
    return [
        "-m",
        setup.model,
        "-md",
        setup.draft,
        "-c",
        "256",
        "-t",
        "1",
        "--no-profile",
        "--requantise-draft",
        "off",
        "--live",
    ]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    (tmp_path / "prompts.txt").write_text(PROMPT)
    return tmp_path / "prompts.txt"


@contextmanager
def measuring(*arguments: object) -> Iterator[MeasurementProcess]:
    process = MeasurementProcess([str(each) for each in arguments])
    try:
        yield process
    finally:
        process.close()


def wait_until(predicate: Callable[[], object]) -> None:
    deadline = monotonic() + 60
    while not predicate():
        assert monotonic() < deadline
        sleep(0.01)


def test_the_table_of_a_bench_grows_and_its_winner_is_told(tmp_path, quick, prompts):
    file = tmp_path / "runs.jsonl"
    lengths = list[int]()
    with measuring(
        "bench", *quick, "--yes", "-n", "100", "-f", prompts, "--runs", "8", "--draft-max", "2,4", "--results", file
    ) as process:
        while process.running:
            lengths.append(len(process.view.lines))
            sleep(0.01)
    assert process.code == 0, process.notices
    assert len(set(lengths)) > 2, "the table grows"
    view, runs = process.view, results.read(file)
    assert len(runs) == 32
    labels = [line.split("  ")[0].rstrip(" *=") for line in view.lines]
    assert labels.count("target alone") == labels.count("model 2/0/0.75") == labels.count("draft alone") == 2
    assert any(line.startswith("A fixed setting is drafter") for line in view.lines), "what the command printed"
    assert view.winner is not None and set(view.winner.knobs) >= {"drafter"}
    assert process.progress is not None and process.progress.done > 0.5
    assert any("32 runs, about" in notice for notice in process.notices)


def test_what_was_measured_is_kept_when_it_is_stopped(tmp_path, quick, prompts):
    file = tmp_path / "runs.jsonl"
    with measuring("bench", *quick, "--yes", "-f", prompts, "--runs", "100", "--results", file) as process:
        wait_until(lambda: process.view.lines)
        process.stop()
        wait_until(lambda: not process.running)
    assert process.code == INTERRUPTED
    assert process.view.lines and 0 < len(results.read(file)) < 800


PARENT = """
import sys, time
from spectui.measure.live.process import MeasurementProcess
process = MeasurementProcess(sys.argv[1:])
while not process.view.lines:
    time.sleep(0.01)
print(process._process.pid, flush=True)
time.sleep(60)
"""


def test_it_ends_when_the_window_is_killed(quick, prompts):
    command = [
        sys.executable,
        "-c",
        PARENT,
        "tune",
        *quick,
        "--minutes",
        "5",
        "-f",
        str(prompts),
        "--results",
        str(prompts.with_name("runs.jsonl")),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
        parent.kill()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_the_costs_are_shown_at_the_end(quick):
    with measuring("costs", *quick, "--contexts", "0", "--runs", "3") as process:
        wait_until(lambda: not process.running)
    assert process.code == 0, process.notices
    assert any("As a fixed length" in line for line in process.view.lines) and process.view.winner is None


def test_a_command_that_fails_says_its_sentence():
    with measuring("bench", "-m", "/nowhere/target.gguf", "--live") as process:
        wait_until(lambda: not process.running)
    assert process.code not in (0, None)
    assert len(process.notices) == 1 and "/nowhere/target.gguf" in process.notices[0]
    with measuring("bench", "--draft-max", "no", "--live") as process:
        wait_until(lambda: not process.running)
    assert "--draft-max" in process.notices[-1]
    with measuring("bench", "-f", "\0") as process:
        wait_until(lambda: not process.running)
    assert process.notices == ("The measurement could not be started: embedded null byte.",)


def test_settings_of_the_environment_are_not_its_own(monkeypatch):
    monkeypatch.setenv("SPECTUI_MODEL", "/nowhere/other.gguf")
    with measuring("bench", "-m", "/nowhere/target.gguf", "--live") as process:
        wait_until(lambda: not process.running)
    assert "/nowhere/target.gguf" in process.notices[0] and "other" not in process.notices[0]


def test_drafts_are_compared_row_by_row(quick, tmp_path):
    with measuring("compare", *quick, "-n", "8", "--prompts", "story", "--temp", "0") as process:
        wait_until(lambda: not process.running)
    assert process.code != 0, "it names no draft"
    with measuring(
        "compare",
        quick[3],
        *quick[:2],
        *quick[4:],
        "-n",
        "8",
        "--prompts",
        "story",
        "--results",
        tmp_path / "runs.jsonl",
    ) as process:
        wait_until(lambda: not process.running)
    assert process.code == 0, process.notices
    labels = {line.split("  ")[0].rstrip(" *=") for line in process.view.lines}
    assert {"target alone", "suffix lookup", "draft.gguf"} <= labels
