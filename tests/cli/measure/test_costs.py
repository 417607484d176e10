"""`spectui costs`, as a person uses it."""

import json
import os
import signal
import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.engine.session import Session
from spectui.measure import progress, quiet
from tests.measure.models import tiny_setup


def test_the_time_left_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "perf_counter", iter([0.0, 30.0, 60.0]).__next__)
    line = progress.ProgressLine(100.0)
    line(0.1, "the draft")
    line(0.9, "the draft")
    assert " 10% the draft, 1 min 10 s left" in terminal.getvalue()
    assert " 90% the draft, 7 s left" in terminal.getvalue()


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that name a tiny pair."""
    monkeypatch.setattr(quiet, "busy", lambda: "make uses 90 % of a core")
    setup = tiny_setup(tmp_path)
    return ["costs", "-m", str(setup.model), "-md", str(setup.draft), "-c", "256", "-t", "1", "--no-profile"]


def test_it_prints_what_loading_measures_also_where_a_profile_leaves_that_out(pair: list[str]) -> None:
    done = CliRunner().invoke(root, [*pair, "--json"])
    assert done.exit_code == 0, done.output
    assert "The machine is busy (make uses 90 % of a core)" in done.stderr
    whole = json.loads(done.stdout)
    assert whole["schema"] == "spectui.costs/2" and whole["devices"] == {"target": ["CPU"], "draft": ["CPU"]}
    assert {size["tokens"] for size in whole["passes"]} >= {1, 2, 4} and whole["busy"] == "make uses 90 % of a core"
    assert whole["draft_cost"]["first_s"] > 0 and whole["lengths"][0]["drafted"] == 1
    text = CliRunner().invoke(root, [*pair, "--again"], env={"COLUMNS": "40"})
    assert text.exit_code == 0 and text.stdout.startswith("target: ")
    assert max(map(len, text.stdout.splitlines())) <= 40, "nothing folds in a narrow terminal"


def test_ctrl_c_stops_it(pair: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    load = Session.load

    def interrupted(self: Session, *given: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return load(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "load", interrupted)
    done = CliRunner().invoke(root, pair)
    assert (done.exit_code, done.stdout) == (130, "")
