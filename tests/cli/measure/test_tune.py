"""`spectui tune` on a tiny pair: what it prints, keeps and saves."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spectui import config
from spectui.cli import root
from spectui.cli.measure import tune as command
from spectui.errors import SpectuiError
from spectui.measure import progress, quiet
from spectui.measure import tune as search
from spectui.measure.bench import runner
from spectui.measure.bench.results import FINALS, Run, parsed, parsed_conditions
from spectui.measure.bench.runner import EngineModels, PlannedRun
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import summarise
from spectui.measure.tune import AUTO, PLAIN, Search
from tests.measure.bench.runs import a_run
from tests.measure.models import tiny_setup
from tests.measure.test_tune import steady

FIXED = Setting("model", "fixed", 4, 0, 0.4)
OTHER = Setting("suffix", "fixed", 4, 0, 0.5)


@pytest.fixture
def halved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments with which the first replies of the halving are shorter than plain decoding's."""
    many = [replace(FIXED, p_min=(8 + n) / 20) for n in range(12)]
    monkeypatch.setattr(search, "candidates", lambda drafts: many)
    return ["-n", "100000", "--no-profile", "--minutes", "0.5"]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments: a tiny pair, two candidates, one prompt."""
    monkeypatch.setattr(search, "candidates", lambda drafts: [FIXED, OTHER])
    monkeypatch.setattr(quiet, "busy", lambda: "")
    looks = count()  # the search's clock: 120 looks at it are 3 seconds, however busy the machine is
    monkeypatch.setattr(command, "perf_counter", lambda: next(looks) / 40)
    setup = tiny_setup(tmp_path)
    (tmp_path / "config.toml").write_text("# mine\ntemperature = 0.3  # warm\n")
    arguments = ["-m", str(setup.model), "-md", str(setup.draft), "-c", "256", "-t", "1", "--requantise-draft", "off"]
    return [*arguments, "--prompts", "toaster", "--minutes", "0.05", "--config", str(tmp_path / "config.toml")]


def heated(setting: Setting) -> Setting:
    """At the temperature of the configuration."""
    return replace(setting, temperature=0.3)


def tune(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["tune", *arguments])


def saved(tmp_path: Path, name: str = "tuned") -> config.Configuration:
    return config.load(path=tmp_path / "config.toml", profile=name, environ={})


def interrupt_at(monkeypatch: pytest.MonkeyPatch, replies: int) -> None:
    """Ctrl+C after so many replies."""
    told: list[str] = []

    def tell(self: progress.ProgressLine, done: float, what: str) -> None:
        told.append(what)
        if len(told) == replies:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress.ProgressLine, "__call__", tell)


@pytest.mark.parametrize(
    ("plain", "auto", "fixed", "knobs"),
    [
        (10, 9, 8, {"drafter": "off", "policy": "auto", "draft_max": 16, "p_min": 0.75}),
        (10, 20, 12, {"drafter": "auto", "policy": "auto", "draft_max": 16, "p_min": 0.75}),
        (10, 9, 12, {"drafter": "model", "policy": "fixed", "draft_max": 4, "p_min": 0.4}),
    ],
)
def test_the_profile_is_what_wins_with_the_whole_set_up(
    pair: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: float, auto: float, fixed: float, knobs: Any
) -> None:
    speeds = {PLAIN: plain, AUTO: auto, FIXED: fixed}

    def made(planned: PlannedRun, *more: object) -> Run:
        at = planned.repetition
        return a_run(
            planned.setting, steady(speeds[replace(planned.setting, temperature=0.0)])[at], at, "toaster", stage=FINALS
        )

    def ended(self: Search, settings: object, make: Callable[[PlannedRun], Run]) -> None:
        """The end of a search, with replies of these speeds."""
        self.best = heated(FIXED)
        for setting in speeds:
            self.runs += [make(PlannedRun(heated(setting), self.prompts[0], number)) for number in range(4)]

    monkeypatch.setattr(Search, "run", ended)
    monkeypatch.setattr(runner, "make_run", made)
    given = ("--no-profile", "-n", "6", "-s", "5", "-ctk", "bf16", "--top-k", "7")
    done = tune(*pair, *given, "--save", "tuned")
    assert done.exit_code == 0, done.output
    assert "target alone" in done.stdout and "\nThe best of 1 fixed settings: " in done.stdout and "\nSo " in done.stdout
    profile = saved(tmp_path)
    assert {key: getattr(profile.knobs, key) for key in knobs} == knobs
    setup = profile.setup
    assert (setup.model, setup.draft) == (pair[1], pair[3])
    assert (setup.ctx_size, setup.threads, setup.cache_type_k, setup.requantise_draft) == (256, 1, "bf16", "off")
    assert (profile.knobs.temperature, profile.knobs.top_k) == (0.3, 7)
    assert (profile.knobs.predict, profile.knobs.seed) == (-1, -1), "those were the measured replies'"
    assert (tmp_path / "config.toml").read_text().startswith("# mine\ntemperature = 0.3  # warm\n")
    if auto > plain:
        command = done.stderr.split("best fixed setting: spectui ")[1].splitlines()[0].split()
        exported = CliRunner().invoke(root, [*command, "--config", str(tmp_path / "config.toml")])
        assert "--threads 1" in exported.stdout and "--cache-type-k bf16" in exported.stdout
        assert "--spec-draft-n-max 4" in exported.stdout and "--spec-draft-p-min 0.4" in exported.stdout
    else:
        assert "best fixed setting:" not in done.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("taken", "", "has a profile 'taken' already: --replace it, or give this one another name."),
        ("x" * 121, "", "A profile's name has 1 to 120 printable characters"),
        ("  ", "", "A profile's name has 1 to 120 printable characters"),
        ("new", "-f prompts --prompts toaster", "Give the prompts with --prompts or with -f, not with both."),
        ("taken", "--replace", "nonesuch.gguf"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_a_model_is_looked_for(
    tmp_path: Path, name: str, arguments: str, sentence: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[profiles.taken]\ndraft-max = 3\n")
    model = str(tmp_path / "nonesuch.gguf")
    done = tune("-m", model, "--config", str(file), "--save", name, *arguments.split())
    assert done.exit_code != 0 and sentence in done.stderr
    assert file.read_text() == "[profiles.taken]\ndraft-max = 3\n"


def test_a_file_that_cannot_be_written_is_refused_before_a_model_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none").write_text("no directory")
    monkeypatch.setenv("SPECTUI_CONFIG_DIR", str(tmp_path / "none"))
    done = tune("-m", str(tmp_path / "nonesuch.gguf"), "--save", "new")
    assert done.exit_code == 1 and "config.toml cannot be written: Not a directory." in done.stderr


@pytest.mark.parametrize(("replies", "policies"), [(2, ["fixed"] * 2), (4, ["fixed", "fixed", "auto", "fixed"])])
def test_ctrl_c_prints_what_is_known_and_saves_nothing(
    pair: list[str], halved: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replies: int, policies: list[str]
) -> None:
    interrupt_at(monkeypatch, replies)
    before = (tmp_path / "config.toml").read_text()
    done = tune(*pair, *halved, "--save", "tuned", "--replace", "--json")
    assert done.exit_code == 130, done.output
    found = json.loads(done.stdout)
    assert found["sentences"] == ["It ended before a fixed setting was compared with plain decoding."]
    assert not found["complete"] and found["best"] is None and found["winner"] is None
    assert [run["setting"]["policy"] for run in found["runs"]] == policies
    assert done.stderr.splitlines()[-1].startswith("spectui: Profile tuned was not saved: ")
    assert (tmp_path / "config.toml").read_text() == before


def test_a_model_that_fails_leaves_what_was_measured(
    pair: list[str], halved: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, asked = EngineModels.answer, list[Setting]()

    def failing(self: EngineModels, setting: Setting, *arguments: Any) -> Any:
        asked.append(setting)
        if len(asked) == 5:
            raise SpectuiError("The device is gone.")
        return answer(self, setting, *arguments)

    monkeypatch.setattr(EngineModels, "answer", failing)
    done = tune(*pair, *halved, "--save", "tuned")
    assert done.exit_code == 1
    assert "It ended before a fixed setting was compared" in done.stdout
    assert "was not saved" in done.stderr and done.stderr.endswith("spectui: The device is gone.\n")


def test_every_figure_can_be_computed_from_its_json_and_a_profile_is_replaced(pair: list[str], tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("Hi\nWho are you?\n")
    (tmp_path / "config.toml").write_text("[profiles.tuned]\nbatch = 64  # small\ndraft-max = 3\n")
    own = [argument for argument in pair if argument not in ("--prompts", "toaster")]
    save = ("--save", "tuned", "--replace")
    done = tune(*own, "-n", "20", "-s", "3", "-f", str(tmp_path / "prompts.txt"), "--json", *save)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    runs = [parsed(run, parsed_conditions(run["conditions"])) for run in found["runs"]]
    assert {run.prompt for run in runs} == {"Hi", "Who are you?"} and {run.conditions.seed for run in runs} == {3}
    summary = summarise(runs)
    for told, row in zip(found["settings"], summary.rows, strict=True):
        assert told["setting"] == asdict(row.setting)
        assert told["gain"] == (row.gain and row.gain._asdict()) and told["best"] == row.best
    assert found["complete"] and found["winner"] is not None
    assert "A drafted token takes " in " ".join(found["sentences"]), "both models are the same size"
    assert saved(tmp_path).origins["batch"] == "default" and saved(tmp_path).setup.ctx_size == 256
