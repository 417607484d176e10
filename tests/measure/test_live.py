"""What the window measures with: the command, and its process on tiny models: its table grows, it stops early, and its errors
are sentences."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from spectui.cli.options import INTERRUPTED
from spectui.config import load
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench import results
from spectui.measure.live import MeasurementProcess, arguments, flags, in_short, results_of
from tests.measure.models import tiny_setup

PAIR = Setup(
    model="/m/big one.gguf", draft="/m/small.gguf", ctx_size=512, gpu_layers=-2, flash_attn="on", system="Be terse."
)
KNOBS = Knobs(temperature=0.3, top_k=10, draft_max=5, policy="fixed", seed=7, predict=9)


def test_the_models_their_settings_and_the_sampling_of_the_chat_are_flags_and_its_drafting_is_none():
    assert flags(PAIR, KNOBS) == [
        "-m", "/m/big one.gguf", "-md", "/m/small.gguf", "-c", "512", "-ngl", "-2", "-fa", "on", "-sys", "Be terse.",
        "--temp", "0.3", "--top-k", "10",
    ]  # fmt: skip
    assert flags(Setup(), Knobs()) == ["--temp", "0.8"], "a measurement says its temperature"


def test_a_command_reads_no_configuration_and_ends_with_the_options_of_a_person():
    command = arguments(PAIR, KNOBS, "--minutes 2 -f 'my prompts.txt'")
    assert command[:5] == ("tune", "--live", "--config", os.devnull, "--results")
    assert results_of(command) == Path(command[5])
    assert results_of(arguments(PAIR, KNOBS, "--results mine.jsonl")) == Path("mine.jsonl"), "a person's counts"
    assert command[-4:] == ("--minutes", "2", "-f", "my prompts.txt")
    assert load(path=Path(os.devnull), environ={}).setup == Setup()
    with pytest.raises(UsageError, match=r"The options cannot be read: No closing quotation\."):
        arguments(PAIR, KNOBS, "'")


def test_in_short_it_has_the_names_of_the_models():
    assert in_short(PAIR) == "spectui tune -m 'big one.gguf' -md small.gguf"


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


def measured(
    *arguments: object, changed: Callable[[MeasurementProcess], object] = lambda process: None
) -> MeasurementProcess:
    """A measurement at its end. `changed` is called with it when there is news."""
    process = MeasurementProcess([str(each) for each in arguments], changed=lambda: changed(process))
    asyncio.run(process.run())
    return process


def test_the_table_grows_and_the_winner_is_told(tmp_path, quick, prompts):
    file = tmp_path / "runs.jsonl"
    lengths = list[int]()
    asked = ("tune", *quick, "-f", prompts, "--minutes", "0.1", "--results", file)
    process = measured(*asked, changed=lambda process: lengths.append(len(process.view.lines)))
    assert process.code == 0, process.notices
    assert len(set(lengths)) > 2, "the table grows"
    labels = [line.split("  ")[0].rstrip(" *=") for line in process.view.lines]
    assert labels.count("target alone") == labels.count("auto policy, draft-max 16") == 2
    assert any(line.startswith("A fixed setting is drafter") for line in process.view.lines), "what the command printed"
    assert process.view.winner is not None and set(process.view.winner.knobs) >= {"drafter"}
    assert process.progress is not None and process.progress.done > 0.5


def test_what_was_measured_is_kept_when_it_is_stopped(tmp_path, quick, prompts):
    file = tmp_path / "runs.jsonl"

    def stop(process: MeasurementProcess) -> None:
        if process.view.lines and not process.stops:
            process.stop()

    process = measured("tune", *quick, "-f", prompts, "--minutes", "9", "--results", file, changed=stop)
    assert process.code == INTERRUPTED
    assert process.view.lines and results.read(file)


PARENT = """
import asyncio, sys
from spectui.measure.live import MeasurementProcess
process = MeasurementProcess(sys.argv[1:], changed=lambda: process.view.lines and print(flush=True))
asyncio.run(process.run())
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
        parent.stdout.readline()
        (child,) = psutil.Process(parent.pid).children()
        parent.kill()
    deadline = monotonic() + 60
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert monotonic() < deadline
        sleep(0.01)


def test_a_command_that_fails_says_its_sentence():
    process = measured("tune", "-m", "/nowhere/target.gguf", "--live")
    assert process.code not in (0, None) and process.failed
    assert len(process.notices) == 1 and "/nowhere/target.gguf" in process.notices[0]
    assert "--draft-max" in measured("tune", "--draft-max", "no", "--live").notices[-1]
    process = measured("tune", "-f", "\0")
    assert process.notices == ("The measurement could not be started: embedded null byte.",)


def test_settings_of_the_environment_are_not_its_own(monkeypatch):
    monkeypatch.setenv("SPECTUI_MODEL", "/nowhere/other.gguf")
    process = measured("tune", "-m", "/nowhere/target.gguf", "--live")
    assert "/nowhere/target.gguf" in process.notices[0] and "other" not in process.notices[0]
