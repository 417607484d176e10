"""`spectui bench` on a tiny pair: the same tokens twice, and Ctrl+C."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from time import monotonic, sleep

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.measure import quiet
from spectui.measure.bench import results
from spectui.measure.bench.settings import NO_DRAFT
from spectui.measure.bench.summary import summarise
from spectui.measure.report import text
from tests.cli.programs import PROGRAM
from tests.llama.ggufs import WORDS, byte_names, write_model
from tests.llama.heads.headed import write_headed
from tests.measure.models import tiny_setup


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(quiet, "busy", lambda: "")  # it takes a second
    setup = tiny_setup(tmp_path)
    return ["bench", "-m", str(setup.model), "-md", str(setup.draft), "-c", "256", "-t", "1", "--no-profile",
            "--requantise-draft", "off"]  # fmt: skip


def bench(pair: list[str], file: Path, *arguments: str) -> tuple[list[results.Run], str]:
    """The runs, and what was printed."""
    done = CliRunner().invoke(root, [*pair, "--results", str(file), *arguments])
    assert done.exit_code == 0, done.output
    return results.read(file), done.stdout


def test_the_same_command_twice_gives_the_same_tokens(pair, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("tell a story\nadd 1 and 1\n")
    arguments = ("-f", str(prompts), "--runs", "2", "-n", "12", "--draft-max", "3", "--p-min", "0", "--temp", "0,0.8")
    first, second = (
        {
            (run.setting, run.prompt, run.repetition): (run.text, run.statistics.emitted, run.statistics.accepted)
            for run in bench(pair, tmp_path / name, *arguments)[0]
        }
        for name in ("a.jsonl", "b.jsonl")
    )
    assert first == second
    assert len(first) == 3 * 2 * 2 * 2, "settings, temperatures, prompts, repetitions"
    for prompt in ("tell a story", "add 1 and 1"):
        texts = [
            {value[0] for (setting, name, _), value in first.items() if name == prompt and setting.temperature == heat}
            for heat in (0.0, 0.8)
        ]
        assert [len(each) for each in texts] == [1, 1], "every setting and repetition wrote the same"
        assert texts[0] != texts[1]


def test_where_nothing_can_be_written_nothing_is_said_to_be_there(pair, tmp_path):
    (tmp_path / "file").touch()
    done = CliRunner().invoke(root, [*pair, "-n", "4", "--results", str(tmp_path / "file" / "runs.jsonl")])
    assert done.exit_code == 1 and done.stdout == ""
    assert done.stderr.startswith("spectui: The results cannot be written to ") and done.stderr.count("\n") == 1


def test_ctrl_c_keeps_and_prints_what_is_done(pair, tmp_path):
    file = tmp_path / "runs.jsonl"
    more = ("--prompts", "python", "--draft-max", "2", "-n", "8", "--results", file, "--yes")
    process = subprocess.Popen(
        [*PROGRAM, *pair, *more, "--runs", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "100"},
    )
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
def test_heads_are_measured_as_a_draft_model_is_but_not_alone(pair, tmp_path, named):
    target = write_headed(tmp_path / "target.gguf", heads=0)
    heads = write_headed(tmp_path / "mtp-target.gguf", alone=True)
    arguments = ["bench", "-m", str(target), *(["-md", str(heads)] if named else []), *pair[5:]]
    runs, _ = bench(arguments, tmp_path / "runs.jsonl", "--prompts", "python", "--runs", "1", "-n", "8")
    labels = {run.setting.label for run in runs}
    assert "target alone" in labels and "draft alone" not in labels
    assert any(run.setting.drafter == "model" and run.statistics.drafted for run in runs)


def test_several_drafts_stand_in_one_table_with_their_divergence(pair, tmp_path):
    target, draft = pair[2], pair[4]
    words = [*WORDS, *byte_names()]
    mapped = write_model(tmp_path / "mapped.gguf", tokens=[*words[:10], words[11], words[10], *words[12:]])
    drafts = f"{draft},{mapped},{target}"
    arguments = [*pair[:3], "--draft", drafts, *pair[5:-2], "--requantise-draft", "off", "-c", "512"]
    runs, out = bench(arguments, tmp_path / "runs.jsonl", "--prompts", "story", "--runs", "2", "-n", "8")
    assert {run.setting.draft for run in runs} == {NO_DRAFT, draft, str(mapped), target}
    divergences = {run.setting.draft: run.divergence for run in runs}
    assert divergences[NO_DRAFT] is None and divergences[target] < 0.01
    assert divergences[draft] is not None and divergences[str(mapped)] is not None
    rows = {row.setting.label: row for row in summarise(runs).rows}
    assert list(rows) == ["target alone", NO_DRAFT, "draft.gguf", "mapped.gguf", "target.gguf"]
    assert all(row.gain is not None and row.gain.pairs == 2 for row in list(rows.values())[1:])
    assert not rows["target alone"].statistics.drafted and len({run.text for run in runs}) == 1
    assert " KL" in out and "KL: divergence of the draft from the target" in out
