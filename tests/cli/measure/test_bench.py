"""`spectui bench` on a tiny pair: what it measures, keeps, shows and adds to."""

import json
import os
import signal
import subprocess
from pathlib import Path
from time import monotonic, sleep

import pytest
from click.testing import CliRunner, Result

import spectui.cli.measure.bench as command
from spectui.cli import root
from spectui.measure import quiet
from spectui.measure.bench import results
from spectui.measure.bench.results import ResultsError
from spectui.measure.bench.settings import NO_DRAFT
from spectui.measure.bench.summary import summarise
from spectui.measure.report import text
from tests.cli.programs import PROGRAM
from tests.llama.ggufs import WORDS, byte_names, write_model
from tests.llama.heads.headed import write_headed
from tests.measure.bench.runs import TARGET, a_run
from tests.measure.models import tiny_setup

ONCE = ("--prompts", "python", "--runs", "1", "-n", "8")
FIXED = ("-c", "256", "-t", "1", "--no-profile", "--requantise-draft", "off")


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(quiet, "busy", lambda: "")  # it takes a second
    setup = tiny_setup(tmp_path)
    return ["-m", str(setup.model), "-md", str(setup.draft), *FIXED]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.jsonl"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(root, ["bench", *map(str, arguments)])


def bench(file: Path, *arguments: str) -> tuple[list[results.Run], str]:
    """The runs, and what was printed."""
    done = run("--results", file, *arguments)
    assert done.exit_code == 0, done.output
    return results.read(file), done.stdout


def test_a_sweep_is_measured_kept_shown_and_added_to(pair, file):
    kept, printed = bench(file, *pair, *ONCE, "--draft-max", "2,4")
    labels = ["target alone", "model 2/0/0.75", "model 4/0/0.75", "draft alone"]
    assert [run.setting.label for run in kept] == labels and all(f"\n{label}" in printed for label in labels)
    assert {(run.statistics.emitted, run.setting.temperature) for run in kept} == {(8, 0.8)}
    more, printed = bench(file, *pair, *ONCE, "--draft-max", "2,4,6", "--json")
    assert more[:4] == kept and len(json.loads(printed)["runs"]) == 5
    assert json.loads(run("--show", "--results", file, "--json").stdout) == json.loads(printed)


def test_the_same_command_twice_gives_the_same_tokens(pair, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("tell a story\nadd 1 and 1\n")
    arguments = ("-f", str(prompts), "--runs", "2", "-n", "12", "--draft-max", "3", "--p-min", "0", "--temp", "0,0.8")
    first, second = (
        {
            (run.setting, run.prompt, run.repetition): (run.text, run.statistics.emitted, run.statistics.accepted)
            for run in bench(tmp_path / name, *pair, *arguments)[0]
        }
        for name in ("a.jsonl", "b.jsonl")
    )
    assert first == second
    assert len(first) == 3 * 2 * 2 * 2, "settings, temperatures, prompts, repetitions"
    texts: dict[tuple[str, float], set[str]] = {}
    for (setting, prompt, _), (reply, *_) in first.items():
        texts.setdefault((prompt, setting.temperature), set()).add(reply)
    assert [len(replies) for replies in texts.values()] == [1] * 4, "every setting and repetition wrote the same"
    assert texts["tell a story", 0.0] != texts["tell a story", 0.8]


def test_a_report_for_others_is_printed_of_runs_that_were_made(file):
    results.ResultsFile(file).append(a_run(TARGET, 10.0, prompt="my secret"))
    said = run("--show", "--results", file, "--report")
    assert (said.exit_code, said.stderr) == (0, "")
    assert "own prompt" in said.stdout and "CPU: made up" in said.stdout
    whole = run("--show", "--results", file, "--report", "--json")
    assert [each["prompt"] for each in json.loads(whole.stdout)["runs"]] == ["own prompt"]
    assert "secret" not in said.stdout + whole.stdout


def test_a_full_disk_prints_what_was_measured(pair, file, monkeypatch):
    append = results.ResultsFile.append

    def full(self, run):
        append(self, run)
        if run.setting.policy == "fixed" and not run.setting.baseline:
            raise ResultsError("The results cannot be written to x: No space left on device.")

    monkeypatch.setattr(results.ResultsFile, "append", full)
    done = run(*pair, *ONCE, "--draft-max", "2,4", "--results", file)
    assert done.exit_code == 1
    assert "\nmodel 2/0/0.75" in done.stdout and "model 4" not in done.stdout
    assert done.stderr.rstrip().endswith("No space left on device.")


def test_a_long_bench_asks_first_and_yes_answers(pair, file, monkeypatch):
    monkeypatch.setattr(command, "ASK_S", -1.0)
    arguments = (*pair, *ONCE, "--draft-max", "2", "--results", file)
    done = run(*arguments)
    assert done.exit_code == 2 and "add --yes" in done.stderr and len(results.read(file)) == 1
    assert run(*arguments, "--yes").exit_code == 0 and len(results.read(file)) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--draft-max", "8:2"], "flag --draft-max: the range '8:2' has no values"),
        (["--draft-max", "2", "--draft-min", "4"], "In every combination draft-min is above draft-max"),
        (["--prompts", "python,klingon"], "There is no prompt 'klingon'"),
        (["-f", "missing.txt"], "The prompt file missing.txt cannot be read"),
        (["--show", "--results", "missing.jsonl"], "The results missing.jsonl cannot be read"),
        (["--draft", "none.gguf,other.gguf"], "There is no draft model 'none.gguf': check the path."),
    ],
)
def test_what_makes_no_sense_is_one_sentence_before_anything_is_measured(arguments, said):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (1 if "no draft" in said else 2, "")
    *before, last = done.stderr.splitlines()
    assert said in last and before in ([], ["spectui: No model is named (-m), so the demo pair is measured."])


@pytest.mark.parametrize(
    ("content", "said"),
    [("mine", "this is no line of spectui bench"), (None, "were made with target target.gguf, not SmolLM2")],
    ids=["another file", "other work"],
)
def test_a_file_of_something_else_is_not_added_to(file, content, said):
    if content is None:
        results.ResultsFile(file).append(a_run(TARGET, 10.0))
    else:
        file.write_text(content)
    before = file.read_bytes()
    done = run("-c", "256", "-t", "1", *ONCE, "--no-profile", "--draft-max", "2", "--results", file)
    assert (done.exit_code, done.stdout, said in done.stderr) == (2, "", True)
    assert file.read_bytes() == before


def test_where_nothing_can_be_written_nothing_is_said_to_be_there(pair, tmp_path):
    (tmp_path / "file").touch()
    done = run(*pair, "-n", "4", "--results", tmp_path / "file" / "runs.jsonl")
    assert done.exit_code == 1 and done.stdout == ""
    assert done.stderr.startswith("spectui: The results cannot be written to ") and done.stderr.count("\n") == 1


def test_ctrl_c_keeps_and_prints_what_is_done(pair, file):
    more = ("--prompts", "python", "--draft-max", "2", "-n", "8", "--results", file, "--yes", "--runs", "100")
    process = subprocess.Popen(
        [*PROGRAM, "bench", *pair, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"COLUMNS": "100"},
    )  # fmt: skip
    try:
        deadline = monotonic() + 120
        while not file.exists() or file.read_text().count("\n") < 5:
            assert process.poll() is None and monotonic() < deadline
            sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, said
    runs = results.read(file)
    assert 4 <= len(runs) < 300
    assert " ".join(out.split()) == " ".join(" ".join(text(summarise(runs))).split())
    assert "Traceback" not in said and said.rstrip().endswith("--results adds to them, --show prints them.")


@pytest.mark.parametrize("named", [True, False], ids=["named", "beside the target"])
def test_heads_are_measured_as_a_draft_model_is_but_not_alone(pair, tmp_path, file, named):
    target = write_headed(tmp_path / "target.gguf", heads=0)
    heads = write_headed(tmp_path / "mtp-target.gguf", alone=True)
    runs, _ = bench(file, "-m", str(target), *(["-md", str(heads)] if named else []), *FIXED, *ONCE)
    labels = {run.setting.label for run in runs}
    assert "target alone" in labels and "draft alone" not in labels
    assert any(run.setting.drafter == "model" and run.statistics.drafted for run in runs)


def test_several_drafts_stand_in_one_table_with_their_divergence(pair, tmp_path, file):
    _, target, _, draft, *_ = pair
    words = [*WORDS, *byte_names()]
    mapped = write_model(tmp_path / "mapped.gguf", tokens=[*words[:10], words[11], words[10], *words[12:]])
    arguments = ("-m", target, "--draft", f"{draft},{mapped},{target}", *FIXED, "-c", "512", *ONCE, "--runs", "2")
    runs, out = bench(file, *arguments)
    divergences = {run.setting.draft: run.divergence for run in runs}
    assert set(divergences) == {NO_DRAFT, draft, str(mapped), target}
    assert divergences[NO_DRAFT] is None and divergences[target] < 0.01
    assert divergences[draft] is not None and divergences[str(mapped)] is not None
    rows = {row.setting.label: row for row in summarise(runs).rows}
    assert list(rows) == ["target alone", NO_DRAFT, "draft.gguf", "mapped.gguf", "target.gguf"]
    assert all(row.gain is not None and row.gain.pairs == 2 for row in list(rows.values())[1:])
    assert not rows["target alone"].statistics.drafted and len({run.text for run in runs}) == 1
    assert " KL" in out and "KL: divergence of the draft from the target" in out
