"""Runs that cannot stand in one table are told apart."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench.conditions import conditions, machine
from spectui.measure.bench.prompt_files import built_in
from spectui.measure.bench.results import ResultsFile, Run, check_same, read
from spectui.measure.bench.runner import make_run, plan
from tests.measure.bench.runs import FAST, ToyModels, elsewhere

KNOBS = Knobs(seed=1, predict=8)
FILE = Path("runs.jsonl")


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    for name in ("target", "draft"):
        (tmp_path / f"{name}.gguf").write_bytes(b"1234")
    return Setup(str(tmp_path / "target.gguf"), str(tmp_path / "draft.gguf"), threads=1)


def made(setup: Setup, knobs: Knobs = KNOBS) -> list[Run]:
    models, now = ToyModels(), conditions(setup, knobs, {})
    return [make_run(each, models.answer, knobs, now) for each in plan([], [FAST], built_in(["python"], setup.system), 2)]


def check(done: list[Run], setup: Setup, knobs: Knobs = KNOBS) -> None:
    check_same(FILE, done, conditions(setup, knobs, {}), built_in(["python", "chess"], setup.system))


def kept(file: Path, runs: list[Run]) -> list[Run]:
    """These runs as they come back from a file."""
    out = ResultsFile(file)
    for run in runs:
        out.append(run)
    return read(file)


def test_the_same_work_may_go_on_after_it_was_kept(setup, tmp_path):
    check(kept(tmp_path / "runs.jsonl", made(setup)), replace(setup, system=""), replace(KNOBS, temperature=0.7, draft_max=3))
    stops = replace(KNOBS, stop=("END", "DONE"))
    done = kept(tmp_path / "others.jsonl", made(setup, stops))
    check(done, setup, stops)
    with pytest.raises(UsageError, match="stop END, DONE, not none"):
        check(done, setup)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"model": "b.gguf"}, "target target.gguf, not b.gguf"), ({"draft": None}, "draft draft.gguf, not none"),
        ({"threads": 2}, "threads 1, not 2"), ({"ctx_size": 512}, "ctx-size 4096, not 512"),
        ({"cache_type_k": "q8_0"}, "cache-type-k f16, not q8_0"),
        ({"system": "be brief"}, "another text of the prompt 'python'"),
        ({"seed": 2}, "seed 1, not 2"), ({"predict": 9}, "predict 8, not 9"), ({"top_k": 3}, "top-k 40, not 3"),
        ({"repeat_penalty": 1.1}, "repeat-penalty 1.0, not 1.1"),
    ],
)  # fmt: skip
def test_another_pair_set_up_or_sampling_is_one_sentence(setup, other, said):
    now = [replace(holder, **other) if hasattr(holder, *other) else holder for holder in (setup, KNOBS)]
    with pytest.raises(UsageError, match=rf"in runs\.jsonl were made with {said}: repeat that") as caught:
        check(made(setup), *now)
    assert "\n" not in str(caught.value)


def test_a_bench_does_not_go_on_with_the_runs_of_a_search(setup):
    done = [replace(run, stage="finals") for run in made(setup)]
    with pytest.raises(UsageError, match="were made with another command"):
        check(done, setup)


@pytest.mark.parametrize("key", ["spectui", "llama-cpp-python", "llama.cpp's libraries", "CPU", "cores", "system"])
def test_another_version_or_machine_is_one_sentence(setup, key):
    now = machine()
    assert all(now.values())
    done = [elsewhere(run, machine=now | {key: "another"}) for run in made(setup)]
    with pytest.raises(UsageError, match=f"were made with {key} another, not {re.escape(now[key])}: repeat that"):
        check(done, setup)
