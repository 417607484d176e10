"""What a pair costs, as a person asks for it."""

from __future__ import annotations

import json
import os
import signal
import sys
from io import StringIO
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spectui.cli import root
from spectui.llama.devices.records import MemoryUse, ModelInfo
from spectui.measure import progress, quiet
from spectui.measure.costs import SIZES, Measurement, Passes
from spectui.measure.report import costs as report
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.plan import expected_tokens
from tests.cli.programs import one_sentence, spectui
from tests.measure.models import tiny_setup

MODEL = SimpleNamespace(
    description="made up", remark="", path="made-up.gguf", parameters=1, bytes=1, devices=("CPU",), kernels="spectui avx2",
    kernels_why="", kernels_in_words="spectui avx2", at_once=1,
)  # fmt: skip


def said(costs: CostModel, draft: object = MODEL, target: object = MODEL) -> list[str]:
    loaded: Any = SimpleNamespace(target=target, draft=draft)
    return [*report.model_lines(loaded, costs), "", *report.payoff_lines(loaded, costs)]


def test_each_length_has_its_costs_its_break_even_and_its_speeds() -> None:
    """A pass over 5 costs 1.5 plain ones and four drafted tokens 0.8, so at full acceptance 5 tokens take 2.3 passes."""
    found = said(CostModel({1: 0.1, 2: 0.12, 5: 0.15, 17: 0.2}, first=0.02, next=0.02))
    assert "100.0 ms a token without speculation, 10.0 tokens a second" in found[0]
    assert "20.0 ms a token, 0.20 of a pass" in found[1]
    four = next(line for line in found if line.split()[:1] == ["4"]).split()
    assert four[1:3] == ["1.50", "2.30"]
    assert four[-1] == f"{5 / 2.3:.2f}x"
    needed = float(four[3].rstrip("%")) / 100
    assert expected_tokens(needed, 4) == pytest.approx(2.3, abs=0.05)
    lowest = min(float(line.split()[3].rstrip("%")) for line in found[4:-2])
    assert f"more than {lowest:.0f}%" in found[-1]


def test_the_costs_of_a_block_are_those_of_its_pass() -> None:
    """And lengths that it does not have are not shown, nor what llama.cpp's rule would make of it."""
    block = SimpleNamespace(**{**vars(MODEL), "at_once": 4})
    found = said(CostModel({1: 0.1, 17: 0.2}, first=0.03, next=1e-6, foresees=4), block)
    assert "30.0 ms a draft of up to 4 tokens, which come of one pass of it, 0.30 of a pass of the target" in found[1]
    assert [line.split()[0] for line in found[4:-2]] == ["1", "2", "3", "4"]
    assert len(list(report.cpp_lines(made_up(), at_once=4))) == 1


def test_costs_are_those_of_devices() -> None:
    """The cells are where the layers are; the host keeps some weights, and buffers, in any case."""
    card, host = MemoryUse("CUDA0", 9, 9, 9), MemoryUse("CPU", 9, 0, 9)
    target = ModelInfo("t", "big", 1, 1, 1, 1, 1, memory=(card, host))
    found = said(CostModel({1: 0.1, 17: 0.2}), target._replace(memory=(host,)), target)
    assert found[0].startswith("target  big on CUDA0: ") and found[1].startswith("draft   big: ")
    both = said(CostModel({1: 0.1, 17: 0.2}), None, target._replace(memory=(card, host._replace(cells=9))))
    assert both[0].startswith("target  big on CUDA0 and CPU: ")


def test_a_pair_that_cannot_pay_is_told_so() -> None:
    found = said(CostModel({1: 0.1, 17: 1.7}, first=0.05, next=0.05))
    assert all(line.split()[3] == "never" for line in found[4:-2])
    assert "Drafting by this model cannot pay here" in found[-1]


def test_without_a_draft_the_passes_alone_are_shown() -> None:
    found = said(CostModel({1: 0.1, 17: 0.2}), draft=None)
    assert "none" in found[1]
    assert found[4].split()[1] == found[4].split()[2]


def made_up(steps_at: int = 5) -> Measurement:
    seconds = {n: [0.1 + (0.1 if n >= steps_at else 0.0) + 0.001 * n] * 3 for n in SIZES}
    return Measurement([Passes("target", 0, seconds), Passes("draft", 0, {1: [0.02] * 3})])


AT_LOAD = CostModel(first=0.03, next=0.02)


def text(found: Measurement, at_load: CostModel | None = AT_LOAD) -> str:
    loaded: Any = SimpleNamespace(target=MODEL, draft=MODEL, costs=at_load)
    return "\n".join(report.text_lines(loaded, found))


def test_a_draft_that_was_not_reached_has_its_costs_from_loading() -> None:
    partly = made_up()
    assert "as measured while it was loaded" not in text(partly)
    partly.cells.pop()
    assert "20.0 ms a token" in text(partly) and "30.0 ms" in text(partly)
    assert "as measured while it was loaded" in text(partly)
    unknown = text(partly, CostModel())
    assert "it is not known what pays" in unknown and "pays from" not in unknown


def test_nothing_is_concluded_where_only_passes_over_one_token_were_measured() -> None:
    found = Measurement([Passes("target", 0, {1: [0.1]}), Passes("draft", 0, {1: [0.02]})], stopped=True)
    assert "it is not known what pays: --minutes gives more time." in text(found)
    assert "pays from" not in text(found) and "As a fixed length" not in text(found)
    sizes = [line.split()[0] for line in text(found).splitlines() if line[:4].strip().isdigit()]
    assert sizes == ["1", "1"], "what was not measured has no line"


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


def test_steps_are_marked_and_the_rule_is_stated() -> None:
    lines = text(made_up()).splitlines()
    marked = [line.split()[0] for line in lines if line[:4].strip().isdigit() and "*" in line]
    assert marked == ["5"]
    assert any(line.startswith("* a step. L(n) is the cheapest pass") for line in lines)
    assert "As a fixed length: draft-max 3; no more." in lines


def test_no_step_is_marked_before_it_is_known_how_much_passes_scatter() -> None:
    found = made_up()
    for cell in found.cells:
        cell.seconds = {n: seconds[:2] for n, seconds in cell.seconds.items()}
    assert not any("*" in line for line in text(found).splitlines())
    assert "Medians of 2 passes each: too few to tell how much they scatter, so no steps are marked." in text(found)


def test_the_constants_for_llama_cpp_are_tokens_per_second() -> None:
    vector, draft = report.cpp_lines(made_up())
    speeds = [float(part) for part in vector[vector.index("{") + 1 : vector.index("}")].split(",")]
    assert vector.startswith("const std::vector<float> model_batch_speeds = { ") and vector.endswith(" };")
    assert speeds == pytest.approx([n / (0.1 + (0.1 if n >= 5 else 0.0) + 0.001 * n) for n in SIZES], abs=1e-3)
    assert draft == "const float draft_tg_speed = 50.000;"
    partly = made_up()
    del partly.cells[0].seconds[7]
    assert list(report.cpp_lines(partly)) == []


def test_a_machine_that_is_not_quiet_is_named() -> None:
    scattered = Measurement([Passes("target", 0, {n: [0.1, 0.2, 0.3] for n in SIZES})])
    assert "scatter by 50%" in text(scattered) and "something else used the machine" in text(scattered)
    assert "scatter by 0%" in text(made_up()) and "something else" not in text(made_up())


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that name a tiny pair."""
    monkeypatch.setattr(quiet, "busy", lambda: "make uses 90 % of a core")
    setup = tiny_setup(tmp_path)
    return ["costs", "-m", str(setup.model), "-md", str(setup.draft), "-c", "256", "-t", "1", "--no-profile"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, arguments)


def test_every_figure_can_be_computed_from_the_json(pair: list[str]) -> None:
    done = invoke(*pair, "--contexts", "0,64", "--runs", "3", "--json")
    assert done.exit_code == 0, done.output
    assert "The machine is busy (make uses 90 % of a core)" in done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "spectui.costs/1" and found["complete"] and found["busy"]
    assert found["devices"] == {"target": ["CPU"], "draft": ["CPU"]}
    assert [(each["model"], each["context"]) for each in found["passes"]] == [
        ("target", 0), ("draft", 0), ("target", 64), ("draft", 64),
    ]  # fmt: skip
    for cell in found["passes"]:
        assert [size["tokens"] for size in cell["sizes"]] == list(SIZES)
        assert all(size["median_s"] == median(size["seconds"]) and len(size["seconds"]) == 3 for size in cell["sizes"])
    assert found["draft_cost"]["next_s"] == median(found["further_s"]) and len(found["further_s"]) == 3
    assert found["hidden_rows"] == {"kept_s": [], "not_kept_s": []} and found["taking_back"] == []


def test_a_context_that_does_not_fit_is_left_out_in_a_sentence(pair: list[str]) -> None:
    arguments = (*pair, "-cd", "512", "--contexts", "0,256,512", "--runs", "1")
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    told = [line for line in done.stdout.splitlines() if line.startswith("Behind ")]
    assert told == [
        "Behind 256 and 512 tokens the target was not measured: passes need 32 tokens more, and its context holds 256 (-c).",
        "Behind 512 tokens the draft was not measured: passes need 32 tokens more, and its context holds 512 (-cd).",
    ]
    alone = invoke(*pair, "--contexts", "4096", "--runs", "1")
    assert alone.stdout.startswith("Nothing was measured.\nBehind 4096 tokens the target was not measured: ")
    found = json.loads(invoke(*arguments, "--json").stdout)
    assert found["left_out"][0] == {"model": "target", "context": 256, "n_ctx": 256} and len(found["left_out"]) == 3


def test_ctrl_c_prints_what_was_measured(pair: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[float] = []

    def interrupt(self: progress.ProgressLine, done: float, what: str) -> None:
        if done > 0.5 and not sent:  # a second one would end the printing
            sent.append(done)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress.ProgressLine, "__call__", interrupt)
    done = invoke(*pair, "--contexts", "0", "--runs", "200", "--json")
    assert done.exit_code == 130
    found = json.loads(done.stdout)
    assert not found["complete"]
    assert [len(size["seconds"]) for size in found["passes"][0]["sizes"]] == [200] * len(SIZES)


def test_another_ctrl_c_while_it_prints_ends_it_at_once(pair: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "text_lines", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    done = invoke(*pair, "--contexts", "0", "--runs", "1")
    assert (done.exit_code, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--contexts", "a,b"], "--contexts is numbers of tokens with commas, such as 0,512, not 'a,b'."),
        (["--contexts", "-1"], "--contexts is numbers of tokens"),
        (["--runs", "0"], "0 is not in the range"),
        (["--minutes", "0"], "0.0 is not in the range"),
    ],
)
def test_bad_input_is_answered_before_anything_is_loaded(arguments: list[str], sentence: str) -> None:
    assert sentence in one_sentence(spectui("costs", "-m", "none.gguf", *arguments), 2)
