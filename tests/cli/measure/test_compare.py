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
        "--no-profile", "--requantise-draft", "off", "--prompts", "story,toaster", "--tokens", "16", "--runs", "2",
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

    def whole_s(reply: dict[str, Any]) -> float:
        return float(reply["prompt_s"] + reply["decode_s"])

    ratios = [
        geometric_mean(whole_s(a) / whole_s(b) for a, b in zip(each["plain"], each["measured"], strict=True))
        for each in replies.values()
    ]
    assert all(len(each["plain"]) == 2 for each in replies.values())
    assert row["gain"]["ratio"] == pytest.approx(geometric_mean(ratios))
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
    noisy = compared(1.2, 1.1, noise=0.5)
    noisy.target = target
    assert not any(line.endswith(("best", "tie")) for line in report.text_lines(noisy))


def test_ctrl_c_prints_what_was_measured(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, stop = threading.Event(), Worker.stop

    def told(self: Worker) -> None:
        stop(self)
        stopped.set()

    def interrupt(self: progress.ProgressLine, done: float, what: str) -> None:
        if what == "draft.gguf: toaster, plain" and not stopped.is_set():
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
    best = report.verdict(compared(1.2, 1.5, 1.1))
    assert re.fullmatch(r"Best: draft 1 is faster than the target alone by \d+ to \d+ %\.", best)
    assert report.verdict(compared(1.5, 1.5)).endswith("; not to be told from it: draft 1.")
    assert report.verdict(compared(1.02)).startswith(
        "None is known to be faster than the target alone. Of the best: draft 0 cannot be told from the target alone after 4 "
    )
    assert "draft 1 is slower than the target alone by " in report.verdict(compared(0.8, 0.9))


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
