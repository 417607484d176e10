"""The costs of the draft that are measured at load."""

from pathlib import Path
from typing import Any

import pytest

from spectui.engine.costs import measuring as room
from spectui.engine.costs.files import DraftCosts
from tests.engine.costs.test_costs import measured_draft
from tests.toys import ToyModel


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path))


class TimedDraft(ToyModel):
    """A draft whose passes take `seconds` and half of that more for a second token."""

    def __init__(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(2)
        self.now = 0.0
        self._seconds = seconds
        monkeypatch.setattr(room, "perf_counter", lambda: self.now)

    def evaluate(self, tokens: Any, rows: int) -> Any:
        self.now += self._seconds * (0.5 + 0.5 * len(tokens))
        return super().evaluate(tokens, rows)


def test_it_is_measured_once_per_build_and_model(monkeypatch: pytest.MonkeyPatch):
    first = measured_draft(TimedDraft(0.002, monkeypatch))
    again = TimedDraft(0.002, monkeypatch)
    assert measured_draft(again) == first
    assert not again.passes
    other = TimedDraft(0.002, monkeypatch)
    measured_draft(other, ("build", "another"))
    assert 2 in other.passes


def test_a_draft_begins_its_rounds_with_one_token_or_two(monkeypatch: pytest.MonkeyPatch):
    found = measured_draft(TimedDraft(0.002, monkeypatch))
    assert (found.first, found.next) == pytest.approx((0.0025, 0.002))


class TimedBlock(TimedDraft):
    """Drafts all tokens with the first one."""

    def evaluate(self, tokens: Any, rows: int) -> Any:
        before = self.now
        found = super().evaluate(tokens, rows)
        if len(self.tokens) > len(tokens):
            self.now = before + 1e-6 * len(self.passes)
        return found


def test_where_further_tokens_take_no_time_only_the_first_ones_cost(monkeypatch: pytest.MonkeyPatch):
    found = measured_draft(TimedBlock(0.002, monkeypatch))
    assert found.first == pytest.approx(0.0025) and found.next < 1e-4 and not found.noisy


def test_a_draft_in_use_is_not_emptied_to_measure_it(monkeypatch: pytest.MonkeyPatch):
    draft = TimedDraft(0.002, monkeypatch)
    draft.evaluate([1, 2, 3], 1)
    assert measured_draft(draft) == DraftCosts()
    assert draft.tokens == [1, 2, 3]
