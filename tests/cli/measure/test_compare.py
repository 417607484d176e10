"""`spectui compare`, as a person uses it."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from pathlib import Path
from statistics import geometric_mean
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.engine.worker import Worker
from spectui.measure import progress, quiet
from spectui.measure.report import compare as report
from tests.cli.programs import one_sentence, spectui
from tests.measure.models import tiny_setup
from tests.measure.test_compare import compared


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A tiny target, its draft and one that is not there."""
    monkeypatch.setattr(quiet, "busy", lambda: "make uses 90 % of a core")
    setup = tiny_setup(tmp_path)
    return [
        "compare", str(setup.draft), str(tmp_path / "none.gguf"), "-m", str(setup.model), "-c", "512", "-t", "1",
        "--no-profile", "--requantise-draft", "off", "--prompts", "story,toaster", "--tokens", "16",
    ]  # fmt: skip


def test_every_figure_can_be_computed_from_the_json(arguments: list[str]) -> None:
    done = CliRunner().invoke(root, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    assert "The machine is busy (make uses 90 % of a core)" in done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "spectui.compare/1" and found["complete"]
    drafter = {row["name"]: row for row in found["drafters"]}
    assert set(drafter) == {"draft.gguf", "none.gguf", "suffix lookup"}
    assert "There is no draft model" in drafter["none.gguf"]["problem"]
    row = drafter["draft.gguf"]
    assert row["vocabulary"] == "same" and row["divergence"]["positions"] > 8
    replies = row["replies"]
    assert list(replies) == ["story", "toaster"]
    for each in replies.values():
        assert each["speed_up"] == pytest.approx(each["measured"]["tokens_per_s"] / each["plain"]["tokens_per_s"])
    assert row["measured_speed_up"] == pytest.approx(geometric_mean(each["speed_up"] for each in replies.values()))
    fixed = [each["fixed"] for each in replies.values()]
    judged = sum(each["accepted"] + each["rejected"] for each in fixed)
    assert row["acceptance"] == pytest.approx(sum(each["accepted"] for each in fixed) / judged)
    assert row["draft_s"] == pytest.approx(
        sum(each["draft_s"] for each in fixed) / sum(each["drafted"] for each in fixed)
    )


def test_the_table_ranks_with_the_target_alone_as_a_row(arguments: list[str]) -> None:
    done = CliRunner().invoke(root, arguments)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    ranking = lines[2 : lines.index("", 2)]
    names = [line.split("  ")[0] for line in ranking[1:]]
    assert sorted(name.split(" ")[0] for name in names) == ["draft.gguf", "none.gguf:", "suffix", "target"]
    figures = [float(re.findall(r"([\d.]+)x(?: best| tie)?$", line)[0]) for line in ranking[1:-1]]
    assert figures == sorted(figures, reverse=True), "the best is first, and the target alone stands where 1.00 belongs"
    assert "There is no draft model" in ranking[-1]
    assert any(line.startswith("KL: ") and "a page about the Aral Sea" in line for line in lines)


def test_a_draft_that_is_named_as_in_a_chat_is_compared_too(arguments: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(root, [*arguments, "-md", str(tmp_path / "other.gguf"), "--tokens", "8", "--json"])
    assert done.exit_code == 0, done.output
    names = {row["name"] for row in json.loads(done.stdout)["drafters"]}
    assert names == {"draft.gguf", "none.gguf", "other.gguf", "suffix lookup"}


def test_the_target_alone_stands_between_what_is_faster_and_what_is_slower() -> None:
    found = compared(0.8, 1.5, 1.2)
    target: Any = SimpleNamespace(description="made up", kernels_in_words="llama.cpp")
    found.target = target
    lines = list(report.text_lines(found))
    names = [line.split("  ")[0] for line in lines[3 : lines.index("", 3)]]
    assert names == ["draft 1", "draft 2", "target alone", "draft 0"]
    assert lines[3].endswith("1.50x best")
    noisy = compared(1.2, 1.1, plain=(1.0, 2.0))
    noisy.target = target
    assert not any(line.endswith(("best", "tie")) for line in report.text_lines(noisy))


def test_ctrl_c_prints_what_was_measured(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, stop = threading.Event(), Worker.stop

    def told(self: Worker) -> None:
        stop(self)
        stopped.set()

    def interrupt(self: progress.ProgressLine, done: float, what: str) -> None:
        if what == "draft.gguf: toaster, plain":
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.wait(60)

    monkeypatch.setattr(Worker, "stop", told)
    monkeypatch.setattr(progress.ProgressLine, "__call__", interrupt)
    done = CliRunner().invoke(root, [*arguments, "--json"])
    assert done.exit_code == 130
    found = json.loads(done.stdout)
    row = next(row for row in found["drafters"] if row["name"] == "draft.gguf")
    assert not found["complete"] and "story" in row["replies"] and "toaster" not in row["replies"]


def test_the_verdict_names_ties_and_a_target_that_is_as_fast_alone() -> None:
    assert report.verdict(compared(1.2, 1.5, 1.1)) == "Best: draft 1, 1.50 times as fast as the target alone."
    close = report.verdict(compared(1.48, 1.5, plain=(1.0, 1.04)))
    assert close.endswith("; not to be told from it: draft 0.")
    once = report.verdict(compared(1.02))
    assert once.endswith(
        "1.02 times as fast as the target alone; measured once, so it is not known how much of that is noise."
    )
    slow = report.verdict(compared(0.8, 0.9))
    assert slow == "None is measurably faster than the target alone; the best is draft 1 with 0.90x."


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Missing argument 'DRAFT...'"),
        (["a.gguf", "--prompts", "snake,story"], "There is no prompt 'snake': choose among python, typescript"),
        (["a.gguf", "--minutes", "0"], "0.0 is not in the range"),
        (["a.gguf", "-m", "none.gguf"], "There is no target model 'none.gguf'"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], sentence: str) -> None:
    assert sentence in one_sentence(spectui("compare", *arguments), 2 if "-m" not in arguments else 1)
