"""What passes cost by their size, where the cost steps, and what follows for draft-max."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spectui.engine.costs import measuring as room
from spectui.engine.loading import models
from spectui.engine.session import Session
from spectui.knobs import Knobs
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.measure import costs
from spectui.measure.costs import SIZES, Measurement, Passes, Role, advise, measure, steps
from spectui.speculation.choice import tokens_to_keep
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.top_k import TopK
from tests.measure.models import tiny_setup
from tests.toys import ToyModel


@pytest.fixture(scope="module")
def interrupt() -> Interrupt:
    return Interrupt()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, interrupt: Interrupt) -> Iterator[Session]:
    session = Session(lambda event: None, interrupt)
    session.load(tiny_setup(tmp_path_factory.mktemp("models")))
    yield session
    session.close()


def calling(session: Session) -> Callable[..., Any]:
    """Calls functions with the session, in this thread."""
    return lambda function, *arguments: function(session, *arguments)


def stairs(*risers: int, tread: float = 0.01, riser: float = 0.5) -> dict[int, float]:
    """A cost that rises by `tread` with each token, and by `riser` more at each of these sizes."""
    return {n: 1 + tread * (n - 1) + riser * sum(n >= step for step in risers) for n in SIZES}


def test_a_step_is_where_the_cost_rises_much_more_than_on_average() -> None:
    assert steps(stairs(5, 9, 17)) == [5, 9, 17]
    assert steps({n: float(n) for n in SIZES}) == []


def test_a_disturbed_pass_is_no_step() -> None:
    costs = stairs(9)
    costs[4] += 0.6
    assert steps(costs) == [9]
    costs[32] += 3  # nothing larger shows whether it was disturbed
    assert 32 not in steps(costs)


def test_a_rise_within_the_scatter_is_no_step() -> None:
    costs = stairs(9)
    assert steps(costs, {9: 0.6}) == []
    assert steps(costs, {9: 0.4, 20: 2.0}) == [9]


def test_kernels_that_take_rows_in_groups() -> None:
    """Q8_0 with AVX-512, as llama-bench measured it: 8 rows cost less than 6, and 12 less than 9."""
    times = (1.0, 1.11, 1.24, 1.36, 1.96, 2.11, 2.22, 1.95, 2.58, 2.37, 3.28, 2.80, 3.56, 3.60)
    sizes = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 18)
    assert steps(dict(zip(sizes, times, strict=True))) == [5, 9, 17]


def test_the_ends_of_the_treads_are_advised() -> None:
    costs = CostModel(stairs(5, 17, riser=1.0), first=0.02, next=0.02)
    found = advise(costs)
    assert found.best == (3, 15)
    assert found.never == ((4, 13), (16, 31))
    assert found.sentence == "draft-max 3 or 15; never 4 to 13, and no more than 15."
    dear = advise(CostModel(stairs(5, 17, riser=1.0), first=0.3, next=0.3))
    assert dear.sentence == "draft-max 3; no more."


def test_a_disturbed_pass_changes_no_advice() -> None:
    """A draft of one token can be sent in the pass over three, where that costs less than the one over two."""
    disturbed = stairs(5, 17, riser=1.0)
    disturbed[2] += 0.6
    calm, found = (advise(CostModel(table, first=0.02, next=0.02)) for table in (stairs(5, 17, riser=1.0), disturbed))
    assert found == calm


def test_no_draft_is_advised_where_none_pays() -> None:
    costs = CostModel({n: float(n) for n in SIZES}, first=0.5, next=0.5)
    found = advise(costs)
    assert found.best == () and found.sentence.startswith("No draft")


def test_every_size_is_measured_at_every_context(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int, int]] = []
    submit = Context.submit

    def spied(self: Context, tokens: list[int], rows: int, k: int | None) -> object:
        role = "draft" if self is session.draft_context else "target"
        seen.append((role, len(self.tokens), len(tokens), rows))
        return submit(self, tokens, rows, k)

    monkeypatch.setattr(Context, "submit", spied)
    found = measure(calling(session), [128, 0, 10_000], repetitions=2)
    assert [(cell.model, cell.context) for cell in found.cells] == [
        ("target", 0), ("draft", 0), ("target", 128), ("draft", 128),
    ]  # fmt: skip
    for cell in found.cells:
        assert {n: len(seconds) for n, seconds in cell.seconds.items()} == dict.fromkeys(SIZES, 2)
    assert not found.stopped
    for n in SIZES:
        for context in (0, 128):
            # The target computes logits for every token of a draft, the draft model for its next token.
            assert seen.count(("target", context, n, n)) >= 2
            assert seen.count(("draft", context, n, 1)) >= 2
    sizes = [size for role, context, size, rows in seen if (role, context) == ("target", 128)]
    assert any(b < a for a, b in pairwise(sizes[3:34])), "in another order than by size"
    assert session.target_context is not None and session.target_context.tokens == []


def test_passes_are_timed_as_rounds_make_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the device keeps the likeliest tokens, no whole rows are copied."""
    monkeypatch.setattr(models, "tokens_to_keep_on", lambda model: tokens_to_keep(Knobs()))
    sizes: list[int] = []
    whole: list[int] = []
    evaluate, submit = Context.evaluate, Context.submit

    def spied_submit(self: Context, tokens: list[int], rows: int, k: int | None) -> Callable[[], object]:
        def computed() -> object:
            found = compute()
            (sizes if isinstance(found, TopK) else whole).append(rows)
            return found

        compute = submit(self, tokens, rows, k)
        return computed

    def spied(self: Context, tokens: list[int], rows: int) -> object:
        whole.append(rows)
        return evaluate(self, tokens, rows)

    session = Session(lambda event: None)
    session.load(tiny_setup(tmp_path))
    monkeypatch.setattr(Context, "evaluate", spied)
    monkeypatch.setattr(Context, "submit", spied_submit)
    measure(calling(session), [64], repetitions=1)
    session.close()
    assert set(sizes) == set(SIZES) and not any(whole)


class Compiling(ToyModel):
    """A toy on a clock of its own, whose driver compiles kernels in its first pass of each size."""

    asynchronous = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(1)
        self.now = 0.0
        monkeypatch.setattr(room, "perf_counter", lambda: self.now)

    def evaluate(self, tokens: Any, rows: int) -> Any:
        self.now += 0.008 + 0.3 * (len(tokens) not in self.passes)
        return super().evaluate(tokens, rows)


@pytest.mark.parametrize("role", ["target", "draft"])
def test_compiling_kernels_is_no_cost_of_a_pass(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    toy: Any = Compiling(monkeypatch)
    found = costs.time_sizes(toy, list(range(1, 12)) * 4, role, 4, 0)
    assert found == pytest.approx(dict.fromkeys(SIZES, 0.008))


class SettingUp(ToyModel):
    """A toy on a clock of its own, whose first pass over several tokens sets things up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(1)
        self.now = 0.0
        monkeypatch.setattr(room, "perf_counter", lambda: self.now)

    def evaluate(self, tokens: Any, rows: int) -> Any:
        self.now += 0.008 + 0.3 * (len(tokens) > 1 and not any(size > 1 for size in self.passes))
        return super().evaluate(tokens, rows)


def test_what_the_first_pass_sets_up_is_no_cost_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    toy: Any = SettingUp(monkeypatch)
    found = costs.time_sizes(toy, list(range(1, 12)) * 4, "target", 0, 0)
    assert found == pytest.approx(dict.fromkeys(SIZES, 0.008))


def test_what_was_measured_is_kept_when_it_is_stopped(session: Session, interrupt: Interrupt) -> None:
    def progress(done: float, what: str) -> None:
        if what.startswith("the draft"):
            interrupt.set()

    found = measure(calling(session), [0], repetitions=3, progress=progress)
    interrupt.clear()
    assert found.stopped
    target = found.of("target")
    assert target is not None and all(len(target.seconds[n]) == 3 for n in SIZES)
    assert found.of("draft") is None


def test_the_time_is_bounded(session: Session) -> None:
    found = measure(calling(session), [0, 64], repetitions=1000, seconds=0.0)
    assert found.stopped
    assert [set(cell.seconds) for cell in found.cells] == [{1}] * 4


def test_the_costs_are_those_of_the_shortest_context() -> None:
    target = Passes("target", 0, {1: [2.0, 1.0, 3.0], 2: [4.0, 4.0, 4.0]})
    behind = Passes("target", 512, {1: [9.0]})
    draft = Passes("draft", 0, {1: [0.1], 2: [0.3]})
    costs = Measurement([target, draft, behind]).costs()
    assert costs.verify(1, 0) == 2.0 and costs.verify(2, 0) == 4.0
    assert costs.drafting(1) == pytest.approx(0.2) and costs.drafting(3) == pytest.approx(0.4)
    assert target.spread(1) == pytest.approx(0.5)
    assert behind.spread(1) is None
