"""--strict compares the logits behind a long context too, all rows of each pass, with the cells in use."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectui.engine.costs import measuring as room
from spectui.engine.costs.files import TargetCosts
from spectui.engine.costs.measuring import target_costs
from tests.toys import ToyModel


class Target(ToyModel):
    """A toy that rounds the rows `odd` of a pass otherwise behind so many tokens."""

    rows = 49

    def __init__(self, behind: int = 257, odd: slice = slice(0), n_ctx: int = 1024) -> None:
        super().__init__(1, n_ctx=n_ctx)
        self.behind, self.odd = behind, odd
        self.longest = 0

    def evaluate(self, tokens: Any, rows: int) -> Any:
        before = len(self.tokens)
        result = super().evaluate(tokens, rows)
        self.longest = max(self.longest, len(self.tokens))
        if before >= self.behind and len(tokens) > 1:
            result[self.odd] += np.float32(1e-6)
        return result


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which each look at the clock moves it on by the same, and on which nothing was measured."""
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path))
    ticks = iter(range(1_000_000))
    monkeypatch.setattr(room, "perf_counter", lambda: 1e-4 * next(ticks))


def measured(target: Any, strict: bool = True) -> TargetCosts:
    return target_costs(target, ("build", "model"), lambda _: None, lambda: False, strict)


@pytest.mark.parametrize(
    ("odd", "up_to"),
    [(slice(0), 16), (slice(0, 1), 1), (slice(2, 3), 2), (slice(3, 4), 3), (slice(12, 13), 8), (slice(15, None), 8)],
)
def test_no_pass_is_longer_than_those_whose_rows_are_all_equal_behind_a_long_context(odd: slice, up_to: int):
    target = Target(odd=odd)
    found = measured(target)
    assert (found.equal_up_to, found.tried, found.behind) == (up_to, 16, 600)
    assert not target.tokens


def test_without_strict_nothing_long_is_read():
    target = Target(odd=slice(0, 1))
    found = measured(target, strict=False)
    assert (found.equal_up_to, found.behind) == (16, None)
    assert target.longest < 257


def test_what_was_measured_without_strict_is_compared_once_for_strict():
    measured(Target(odd=slice(3, 4)), strict=False)
    target = Target(odd=slice(3, 4))
    assert measured(target).equal_up_to == 3
    assert max(target.passes) == 48 and len(target.passes) < 50, "the sizes are not measured again"
    again = Target(odd=slice(3, 4))
    assert measured(again).equal_up_to == 3 and again.evaluated < 10


@pytest.mark.parametrize(("odd", "up_to"), [(slice(0), 16), (slice(12, 13), 8)])
def test_sizes_that_there_was_no_time_for_without_strict_are_compared_with_it(
    odd: slice, up_to: int, monkeypatch: pytest.MonkeyPatch
):
    """A GPU's driver compiles kernels in its first passes, and those of 16 tokens may be out of reach."""
    with monkeypatch.context() as slow:
        slow.setattr(room, "BOUND_S", 0.002)
        assert 1 < measured(Target(odd=odd), strict=False).tried < 16
    found = measured(Target(odd=odd))
    assert (found.equal_up_to, found.tried, found.behind) == (up_to, 16, 600)


def test_a_context_that_was_not_truncated_is_read_again():
    target = Target(odd=slice(3, 4))
    target.forgets = True
    assert measured(target).equal_up_to == 3


def test_a_small_context_is_filled():
    assert measured(Target(n_ctx=300)).behind == 300 - 16


def test_sizes_that_there_was_no_time_for_count_as_unequal(monkeypatch: pytest.MonkeyPatch):
    target, now = Target(), 0.0
    measured(target, strict=False)
    evaluate = target.evaluate

    def slow(tokens: Any, rows: int) -> Any:
        nonlocal now
        now += 0.3
        return evaluate(tokens, rows)

    monkeypatch.setattr(target, "evaluate", slow)
    monkeypatch.setattr(room, "perf_counter", lambda: now)
    found = measured(target)
    assert now <= 2 * room.BOUND_S + 1.0
    assert found.behind == 11 * 48 and 1 < found.equal_up_to < 16
