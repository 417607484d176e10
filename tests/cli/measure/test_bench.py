"""`spectui bench` on the demo pair, and on a smaller one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import spectui.cli.measure.bench as bench
from spectui.cli import root
from spectui.measure.bench import results
from spectui.measure.bench.results import ResultsError
from tests.helpers.smollm2 import setup
from tests.measure.bench.runs import TARGET, a_run

pytestmark = pytest.mark.xdist_group("demo pair")

SMALL = ("-c", "512", "-t", "1", "-n", "6", "--no-profile", "--prompts", "python", "--runs", "1")


def run(*arguments: str | Path, **options: str) -> Result:
    return CliRunner().invoke(root, ["bench", *map(str, arguments)], **options)


def test_a_sweep_is_measured_kept_shown_and_added_to(tmp_path):
    file = tmp_path / "runs.jsonl"
    done = run(*SMALL, "--draft-max", "2,4", "--results", file)
    assert done.exit_code == 0, done.output
    kept = results.read(file)
    assert [each.setting.label for each in kept] == ["target alone", "model 2/0/0.75", "model 4/0/0.75", "draft alone"]
    assert all(each.statistics.emitted == 6 and each.setting.temperature == 0.8 for each in kept)
    assert len({each.text for each in kept[:3]}) == 1
    assert "n_drafted" in done.stdout and "target alone" in done.stdout
    assert "spectui: No model is named (-m), so the demo pair is measured.\n" in done.stderr
    more = run(*SMALL, "--draft-max", "2,4,6", "--results", file, "--json")
    assert more.exit_code == 0, more.output
    assert results.read(file)[:4] == kept
    assert len(json.loads(more.stdout)["runs"]) == 5
    shown = run("--show", "--results", file, "--json")
    assert json.loads(shown.stdout) == json.loads(more.stdout)


def test_runs_of_other_work_are_not_added_to(tmp_path):
    file = tmp_path / "runs.jsonl"
    results.ResultsFile(file).append(a_run(TARGET, 10.0))
    done = run(*SMALL, "--draft-max", "2", "--results", file)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "were made with target target.gguf, not SmolLM2" in done.stderr
    assert len(results.read(file)) == 1


def test_a_report_for_others_is_printed_of_runs_that_were_made(tmp_path):
    file = tmp_path / "runs.jsonl"
    results.ResultsFile(file).append(a_run(TARGET, 10.0, prompt="my secret"))
    text = run("--show", "--results", file, "--report")
    assert (text.exit_code, text.stderr) == (0, "")
    assert "own prompt" in text.stdout and "CPU: made up" in text.stdout
    whole = run("--show", "--results", file, "--report", "--json")
    assert [each["prompt"] for each in json.loads(whole.stdout)["runs"]] == ["own prompt"]
    assert "secret" not in text.stdout + whole.stdout


def quick() -> tuple[str, ...]:
    """The demo's target with a few of its layers."""
    pair = setup()
    return "-m", pair.model or "", "-md", pair.draft or "", *SMALL


def test_a_full_disk_prints_what_was_measured(tmp_path, monkeypatch):
    append = results.ResultsFile.append

    def full(self, run):
        append(self, run)
        if run.setting.policy == "fixed" and not run.setting.baseline:
            raise ResultsError("The results cannot be written to x: No space left on device.")

    monkeypatch.setattr(results.ResultsFile, "append", full)
    done = run(*quick(), "--draft-max", "2,4", "--results", tmp_path / "runs.jsonl")
    assert done.exit_code == 1
    assert "\nmodel 2/0/0.75" in done.stdout and "model 4" not in done.stdout
    assert done.stderr.rstrip().endswith("No space left on device.")


def test_a_long_bench_asks_first_and_yes_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ASK_S", -1.0)
    file = tmp_path / "runs.jsonl"
    done = run(*quick(), "--draft-max", "2", "--results", file)
    assert done.exit_code == 2
    assert "add --yes" in done.stderr
    assert len(results.read(file)) == 1
    assert run(*quick(), "--draft-max", "2", "--results", file, "--yes").exit_code == 0
    assert len(results.read(file)) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--draft-max", "8:2"], "flag --draft-max: the range '8:2' has no values"),
        (["--draft-max", "2", "--draft-min", "4"], "In every combination draft-min is above draft-max"),
        (
            ["--draft-max", "1:48", "--draft-min", "0:48", "--p-min", "0:0.99:0.01", "--temp", "0:2:0.1", "--yes"],
            "These lists mean 4,939,200 combinations, 59,270,400 runs, and a bench makes at most 100,000",
        ),
        (["--prompts", "python,klingon"], "There is no prompt 'klingon'"),
        (["--prompts", "python", "-f", "x"], "not with both"),
        (["-f", "missing.txt"], "The prompt file missing.txt cannot be read"),
        (["--show", "--results", "missing.jsonl"], "The results missing.jsonl cannot be read"),
        (["--draft", "none.gguf,other.gguf"], "There is no draft model 'none.gguf': check the path."),
    ],
)
def test_what_makes_no_sense_is_one_sentence_before_anything_is_measured(arguments, said):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (1 if "no draft" in said else 2, "")
    lines = [line for line in done.stderr.splitlines() if "so the demo pair is measured" not in line]
    assert len(lines) == 1 and said in lines[0]


def test_a_file_of_results_is_never_overwritten(tmp_path):
    file = tmp_path / "runs.jsonl"
    file.write_text("mine")
    done = run("--results", file)
    assert done.exit_code == 2 and "this is no line of spectui bench" in done.stderr
    assert file.read_text() == "mine"
