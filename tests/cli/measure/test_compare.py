"""`spectui compare`, as a person uses it."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.engine.worker import Worker
from spectui.measure import progress, quiet
from spectui.measure.bench.results import parsed, read
from spectui.measure.bench.summary import summarise
from spectui.measure.compare import ACCEPTANCE
from tests.cli.programs import one_sentence, spectui
from tests.measure.models import tiny_setup


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A tiny target, its draft and one that is not there."""
    monkeypatch.setattr(quiet, "busy", lambda: "make uses 90 % of a core")
    setup = tiny_setup(tmp_path)
    return [
        "compare", str(setup.draft), str(tmp_path / "none.gguf"), "-m", str(setup.model), "-c", "512", "-t", "1",
        "--no-profile", "--requantise-draft", "off", "--prompts", "story,toaster", "-n", "16", "--runs", "2",
    ]  # fmt: skip


def test_every_figure_can_be_computed_from_the_json_and_the_runs_are_kept(arguments: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(root, [*arguments, "--json", "--results", str(tmp_path / "runs.jsonl")])
    assert done.exit_code == 0, done.output
    assert "The machine is busy (make uses 90 % of a core)" in done.stderr
    found = json.loads(done.stdout)
    assert found["complete"] and found["model"]["file"] == "target.gguf"
    draft, none = found["drafts"]
    assert "There is no draft model" in none["problem"]
    assert draft["vocabulary"] == "same" and draft["divergence"]["positions"] > 8
    runs = [parsed(each) for each in found["runs"]]
    assert runs == read(tmp_path / "runs.jsonl")
    for told, row in zip(found["settings"], summarise(runs).rows, strict=True):
        assert told["setting"] == asdict(row.setting) and told["gain"] == (row.gain and row.gain._asdict())
    fixed = [run.statistics for run in runs if run.stage == ACCEPTANCE]
    judged = sum(each.accepted + each.rejected for each in fixed)
    assert draft["fixed"]["acceptance"] == pytest.approx(sum(each.accepted for each in fixed) / judged)
    assert draft["draft_s"] == pytest.approx(sum(each.draft_s for each in fixed) / sum(each.drafted for each in fixed))
    shown = CliRunner().invoke(root, ["bench", "--show", "--results", str(tmp_path / "runs.jsonl")])
    assert shown.exit_code == 0 and "suffix lookup" in shown.stdout, "one record, one table"


def test_the_drafts_stand_in_a_table_of_their_own_and_in_that_of_the_speeds(arguments: list[str]) -> None:
    done = CliRunner().invoke(root, arguments)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["draft", "MB", "vocabulary", "ms/token", "KL", "accepted", "estimate"]
    assert lines[1].startswith("draft.gguf") and "same" in lines[1]
    assert any(line.startswith("none.gguf: There is no draft model") for line in lines)
    assert any(line.startswith("KL: ") and "a page about the Aral Sea" in line for line in lines)
    names = [line.split("  ")[0].rstrip(" *=") for line in lines]
    assert [names.count(name) for name in ("target alone", "suffix lookup", "draft.gguf")] == [2, 2, 3]


def test_a_draft_that_is_named_as_in_a_chat_is_compared_too(arguments: list[str], tmp_path: Path) -> None:
    twice = [*arguments[:3], arguments[2], *arguments[3:]]
    done = CliRunner().invoke(root, [*twice, "-md", str(tmp_path / "other.gguf"), "-n", "8", "--json"])
    assert done.exit_code == 0, done.output
    names = [Path(draft["path"]).name for draft in json.loads(done.stdout)["drafts"]]
    assert names == ["draft.gguf", "none.gguf", "other.gguf"]


def test_ctrl_c_prints_what_was_measured(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, stop = threading.Event(), Worker.stop

    def told(self: Worker) -> None:
        stop(self)
        stopped.set()

    def interrupt(self: progress.ProgressLine, done: float, what: str) -> None:
        if what.startswith("story, draft.gguf") and not stopped.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.wait(60)

    monkeypatch.setattr(Worker, "stop", told)
    monkeypatch.setattr(progress.ProgressLine, "__call__", interrupt)
    done = CliRunner().invoke(root, [*arguments, "--json"])
    assert done.exit_code == 130
    found = json.loads(done.stdout)
    assert not found["complete"]
    prompts = {run["prompt"] for run in found["runs"] if run["setting"]["draft"].endswith("draft.gguf")}
    assert prompts == {"story"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Missing argument 'DRAFT...'"),
        (
            ["a.gguf", "--prompts", "snake,story"],
            "There is no prompt 'snake': the built-in ones are python, typescript",
        ),
        (["a.gguf", "--minutes", "0"], "0.0 is not in the range"),
        (["a.gguf", "-m", "none.gguf"], "There is no target model 'none.gguf'"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], sentence: str) -> None:
    assert sentence in one_sentence(spectui("compare", *arguments), 2 if "-m" not in arguments else 1)
