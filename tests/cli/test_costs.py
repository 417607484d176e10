"""What a pair costs, as a person asks for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from spectui.cli import root
from spectui.cli.costs import lines
from spectui.speculation.policies.cost_model import CostModel, DraftCost, VerifyCost
from spectui.speculation.policies.value import expected_tokens

MODEL = SimpleNamespace(description="made up", remark="")


def said(costs: CostModel, draft: object = MODEL, target: object = MODEL) -> list[str]:
    return list(lines(SimpleNamespace(target=target, draft=draft), costs))  # type: ignore[arg-type]


def test_each_length_has_its_costs_its_break_even_and_its_speeds():
    """A pass over 5 costs 1.5 plain ones and four drafted tokens 0.8, so at full acceptance 5 tokens take 2.3 passes."""
    found = said(CostModel(VerifyCost({1: 0.1, 2: 0.12, 5: 0.15, 17: 0.2}), DraftCost(0.02, 0.02)))
    assert "100.0 ms a token without speculation, 10.0 tokens a second" in found[0]
    assert "20.0 ms a token, 0.20 of a pass" in found[1]
    four = next(line for line in found if line.split()[:1] == ["4"]).split()
    assert four[1:3] == ["1.50", "2.30"]
    assert four[-1] == f"{5 / 2.3:.2f}x"
    needed = float(four[3].rstrip("%")) / 100
    assert expected_tokens(needed, 4) == pytest.approx(2.3, abs=0.05)
    lowest = min(float(line.split()[3].rstrip("%")) for line in found[4:-2])
    assert f"more than {lowest:.0f}%" in found[-1]


def test_a_pair_that_cannot_pay_is_told_so():
    found = said(CostModel(VerifyCost({1: 0.1, 17: 1.7}), DraftCost(0.05, 0.05)))
    assert all(line.split()[3] == "never" for line in found[4:-2])
    assert "Drafting by this model cannot pay here" in found[-1]


def test_without_a_draft_the_passes_alone_are_shown():
    found = said(CostModel(VerifyCost({1: 0.1, 17: 0.2})), draft=None)
    assert "none" in found[1]
    assert found[4].split()[1] == found[4].split()[2]


def test_what_was_found_out_about_the_target_is_told():
    costs = CostModel(VerifyCost({1: 0.1, 17: 0.2}))
    target = SimpleNamespace(description="made up", remark="passes round alike")
    assert said(costs, target=target) == [*said(costs), "Of the target: passes round alike."]


@pytest.mark.xdist_group("smollm2")
def test_it_measures_the_pair_that_is_named():
    done = CliRunner().invoke(root, ["costs", "-c", "512", "-t", "1"])
    assert done.exit_code == 0, done.output
    assert "ms a token without speculation" in done.output
    assert len([line for line in done.output.splitlines() if line.split()[:1] == ["16"]]) == 1


@pytest.mark.xdist_group("smollm2")
def test_what_was_not_measured_is_not_made_up():
    done = CliRunner().invoke(root, ["costs", "-c", "512", "-t", "1", "--no-profile"])
    assert "Nothing was measured" in done.output
