"""The costs of target and draft that are measured at load, and which of them are used later."""

import json
import os
from collections.abc import Callable, Iterable
from itertools import chain, cycle, repeat
from pathlib import Path
from time import time
from typing import Any

import numpy as np
import pytest

from spectui.engine.costs import measuring as room
from spectui.engine.costs.files import DraftCosts, TargetCosts, cost_model
from spectui.engine.costs.measuring import draft_costs, target_costs
from spectui.engine.loading.remarks import rounds_alike
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.top_k import TopK, top_k
from tests.toys import ToyModel


class Target(ToyModel):
    """A toy whose passes of more than `exact` tokens round otherwise."""

    rows = 49

    def __init__(self, exact: int = 49) -> None:
        super().__init__(1)
        self.exact = exact

    def evaluate(self, tokens: Any, rows: int) -> Any:
        result = super().evaluate(tokens, rows)
        return result if len(tokens) <= self.exact else result + np.float32(1e-6)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path))
    return tmp_path


def measured(target: Target, key: tuple[Any, ...] = ("build", "model")) -> TargetCosts:
    return target_costs(target, key, lambda _: None, lambda: False)  # type: ignore[arg-type]


def passes_of(found: TargetCosts) -> Callable[[int, int], float]:
    """Seconds of a pass over so many rows behind so many tokens, as the policies begin with them."""
    return cost_model(found, DraftCosts()).verify


def measured_draft(draft: ToyModel, key: tuple[Any, ...] = ("build", "draft")) -> DraftCosts:
    return draft_costs(draft, key, lambda: False)  # type: ignore[arg-type]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing else runs: a clock that every look moves on by the same."""
    ticks = iter(range(1_000_000))
    monkeypatch.setattr(room, "perf_counter", lambda: 1e-4 * next(ticks))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("exact", "up_to"), [(49, 16), (7, 6), (5, 4), (3, 3), (1, 1)])
def test_it_finds_up_to_which_size_the_logits_are_equal(exact: int, up_to: int):
    found = measured(Target(exact))
    assert (found.equal_up_to, found.tried) == (up_to, 16)
    assert set(found.verify) == {1, *chain(*room.SIZES)}
    assert all(seconds > 0 for seconds in found.verify.values())


@pytest.mark.usefixtures("quiet")
def test_it_is_measured_once_per_build_and_model():
    first = measured(Target())
    again = Target()
    assert measured(again) == first
    assert not again.passes
    other = Target()
    measured(other, ("another build", "model"))
    assert other.passes


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:40],
        lambda text: "[1, 2]",
        lambda text: text.replace('"1":', '"0":', 1),
        lambda text: text.replace('"equal_up_to": 1', '"equal_up_to": 9', 1),
        lambda text: text.partition("\n")[2],
    ],
)
def test_a_damaged_file_is_measured_again(state: Path, damage: Any):
    first = measured(Target())
    [file] = state.glob("target-costs-*.json")
    sound = file.read_text()
    file.write_text(damage(sound))
    again = Target()
    assert set(measured(again).verify) == set(first.verify)
    assert again.passes
    assert json.loads(file.read_text().splitlines()[1]).keys() == json.loads(sound.splitlines()[1]).keys()


class Clocked(Target):
    """A toy on a clock of its own: a pass takes the `seconds` of its size and of the number of tokens before it."""

    def __init__(self, seconds: Callable[[int, int], float], monkeypatch: pytest.MonkeyPatch, n_ctx: int = 96) -> None:
        super().__init__()
        self.n_ctx = n_ctx
        self.now = 0.0
        self._seconds = seconds
        monkeypatch.setattr(room, "perf_counter", lambda: self.now)

    def evaluate(self, tokens: Any, rows: int) -> Any:
        self.now += self._seconds(len(tokens), len(self.tokens))
        return super().evaluate(tokens, rows)


def in_turn(seconds: Iterable[float]) -> Callable[[int, int], float]:
    """The first pass takes the first of them, whatever its size."""
    passes = iter(seconds)
    return lambda size, before: next(passes)


@pytest.mark.parametrize(("seconds", "noisy"), [((0.001,), False), ((0.001, 0.002), True)])
def test_costs_measured_on_a_busy_machine_are_kept_for_an_hour(
    state: Path, monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], noisy: bool
):
    assert measured(Clocked(in_turn(cycle(seconds)), monkeypatch)).noisy == noisy
    [file] = state.glob("target-costs-*.json")
    for age, again in ((600, False), (4000, noisy)):
        os.utime(file, (time() - age,) * 2)
        target = Clocked(in_turn(repeat(0.001)), monkeypatch)
        assert measured(target).noisy == (noisy and not again)
        assert bool(target.passes) == again


def test_a_slow_model_is_measured_at_fewer_sizes_within_the_bound(monkeypatch: pytest.MonkeyPatch):
    target = Clocked(in_turn(repeat(0.4)), monkeypatch)
    found = measured(target)
    assert target.now <= room.BOUND_S + 0.8
    assert {1, 2, 4} <= set(found.verify)
    assert len(found.verify) < 1 + len([*chain(*room.SIZES)])


@pytest.mark.parametrize(("first", "noisy"), [([0.0625, 3.5], True), ([2.0], False)], ids=["stands still", "sets things up"])
def test_a_process_that_waits_at_its_first_passes_does_not_seem_slow(
    first: list[float], noisy: bool, monkeypatch: pytest.MonkeyPatch
):
    found = measured(Clocked(in_turn(chain(first, repeat(0.0625))), monkeypatch))
    assert (found.verify[1], found.noisy) == (0.0625, noisy)


def test_one_slow_pass_does_not_make_a_size_expensive(monkeypatch: pytest.MonkeyPatch):
    seconds = chain(repeat(0.001, 1 + max(room.EQUAL_SIZES)), [0.001, 0.05], repeat(0.001))
    found = measured(Clocked(in_turn(seconds), monkeypatch))
    assert max(found.verify.values()) < 0.002


@pytest.mark.parametrize("step", [5, 9, 17, 33])
def test_a_step_of_the_kernels_is_measured_on_both_sides(step: int, monkeypatch: pytest.MonkeyPatch):
    """CPUs take rows in fours or in sixteens, CUDA has other kernels from 9 rows on: drafts must end before the step."""
    seconds = {n: 0.008 + 1e-4 * n + 0.006 * (n >= step) for n in range(1, 64)}
    target = Clocked(lambda size, _: seconds[size], monkeypatch)
    verify = passes_of(measured(target))
    for n in (step - 1, step):
        assert verify(n, 0) == pytest.approx(seconds[n])


def attentive(per_row: float, per_pass: float) -> Callable[[int, int], float]:
    """Each token before makes a pass dearer, once and for each row."""
    return lambda size, before: 0.008 + 0.0014 * size + (per_pass + per_row * size) * before


@pytest.mark.parametrize(("per_row", "per_pass"), [(4e-6, 0.0), (4e-6, 1e-6), (23e-6, 20e-6)])
def test_the_cost_of_context_is_measured_if_a_short_one_shows_it(
    per_row: float, per_pass: float, monkeypatch: pytest.MonkeyPatch
):
    dear = measured(Clocked(attentive(per_row, per_pass), monkeypatch, 512))
    assert (dear.per_row, dear.per_pass) == pytest.approx((per_row, per_pass), rel=0.1, abs=2e-7)
    verify = passes_of(dear)
    assert verify(16, 1500) == pytest.approx(0.008 + 16 * 0.0014 + 1500 * (per_pass + 16 * per_row), rel=0.01)
    again = measured(Clocked(attentive(per_row, per_pass), monkeypatch, 512))
    assert (again.per_row, again.per_pass) == (dear.per_row, dear.per_pass), "they are kept"


@pytest.mark.parametrize(("per_row", "per_pass", "n_ctx"), [(2e-6, 1e-6, 512), (4e-6, 1e-6, 60), (2e-5, 0.0, 16)])
def test_what_could_be_noise_is_left_to_the_rounds(
    per_row: float, per_pass: float, n_ctx: int, monkeypatch: pytest.MonkeyPatch
):
    target = Clocked(attentive(per_row, per_pass), monkeypatch, n_ctx)
    found = measured(target)
    assert (found.per_row, found.per_pass) == (0.0, 0.0) and 16 in found.verify
    assert target.now <= room.BOUND_S + 0.1


def strictly(target: Target) -> TargetCosts:
    return target_costs(target, ("build", "model"), lambda _: None, lambda: False, strict=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "behind"), [(0.01, 4.0), (4.0, 4.0)])
def test_strict_makes_no_pass_of_a_size_that_there_was_no_time_to_compare(
    seconds: float, behind: float, monkeypatch: pytest.MonkeyPatch
):
    """And says so: that these passes round differently is not known. The next loading compares."""
    found = strictly(Clocked(lambda _, before: behind if before > 40 else seconds, monkeypatch))
    assert found.strict_up_to == 1
    assert rounds_alike(found, strict=True) == (
        "there was no time to compare passes of several tokens with single ones, so strict makes none"
    )
    again = strictly(Clocked(in_turn(repeat(0.01)), monkeypatch))
    assert again.strict_up_to == 16
    assert "passes of up to 16 tokens round as single ones do" in rounds_alike(again, strict=True)


class Keeping(Target):
    """A toy whose device keeps the likeliest tokens, so that a round does not pay for the copy of whole rows."""

    asynchronous = True

    def __init__(self, exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(exact)
        self.now = 0.0
        monkeypatch.setattr(room, "perf_counter", lambda: self.now)

    def evaluate(self, tokens: Any, rows: int) -> Any:
        self.now += 0.008 + 0.002 * rows
        return super().evaluate(tokens, rows)

    def submit(self, tokens: Any, rows: int, k: int) -> Callable[[], TopK]:
        self.now += 0.008
        found = top_k(super().evaluate(tokens, rows), min(k, self.n_vocab))
        return lambda: found


@pytest.mark.parametrize(("exact", "up_to"), [(49, 16), (6, 6), (1, 1)])
def test_passes_are_measured_as_rounds_make_them(exact: int, up_to: int, monkeypatch: pytest.MonkeyPatch):
    """Whole rows are looked at to compare them, and for nothing else."""
    found = measured(Keeping(exact, monkeypatch))
    assert found.verify == pytest.approx(dict.fromkeys((1, *chain(*room.SIZES)), 0.008))
    assert (found.equal_up_to, found.tried) == (up_to, 16)
    drafts = measured_draft(Keeping(exact, monkeypatch))
    assert (drafts.first, drafts.next) == pytest.approx((0.008, 0.008))


class Compiling(Keeping):
    """A toy whose driver compiles kernels in its first pass of each size."""

    def __init__(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(49, monkeypatch)
        self._seconds = seconds

    def submit(self, tokens: Any, rows: int, k: int) -> Callable[[], TopK]:
        self.now += self._seconds * (len(tokens) not in self.passes)
        return super().submit(tokens, rows, k)


@pytest.mark.parametrize(("seconds", "sizes"), [(0.05, 1 + len([*chain(*room.SIZES)])), (0.4, 5)])
def test_compiling_kernels_is_no_cost_of_a_pass(seconds: float, sizes: int, monkeypatch: pytest.MonkeyPatch):
    """Where there is no time for another pass of a size, the rounds measure it."""
    drafting = measured_draft(Compiling(10 * seconds, monkeypatch))
    assert (drafting.first, drafting.next) == pytest.approx((0.008, 0.008))
    verify = measured(Compiling(seconds, monkeypatch)).verify
    assert len(verify) >= sizes
    assert verify == pytest.approx(dict.fromkeys(verify, 0.008))


class Stopped(Target):
    """Is stopped in its eighth pass."""

    def evaluate(self, tokens: Any, rows: int) -> Any:
        if len(self.passes) == 7:
            self.passes.clear()
            raise Interrupted
        return super().evaluate(tokens, rows)


@pytest.mark.usefixtures("quiet")
def test_an_interrupted_measurement_leaves_nothing():
    target = Stopped()
    with pytest.raises(Interrupted):
        measured(target)
    assert target.tokens == []
    assert measured(Target()).verify


@pytest.mark.usefixtures("quiet")
def test_a_conversation_in_the_context_is_not_discarded_to_measure():
    target = Target()
    target.evaluate([1, 2, 3], 1)
    assert measured(target) == TargetCosts()
    assert target.tokens == [1, 2, 3]


@pytest.mark.parametrize(
    ("table", "trusted"),
    [
        (TargetCosts({1: 1.0, 2: 1.1, 4: 1.2, 8: 1.4}), True),
        (TargetCosts({1: 1.0, 2: 1.1, 4: 1.2}), False),
        (TargetCosts({1: 1.0, 2: 1.1, 4: 1.2, 8: 1.4}, noisy=True), False),
    ],
)
def test_a_table_that_is_noisy_or_cut_short_is_not_trusted(table: TargetCosts, trusted: bool):
    """Its first rounds correct it whole."""
    assert (cost_model(table, DraftCosts()).trusted > 0) == trusted
    assert [cost_model(table, DraftCosts(noisy=noisy)).draft_apart for noisy in (False, True)] == [True, False]


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


def test_a_draft_is_measured_once_per_build_and_model(monkeypatch: pytest.MonkeyPatch):
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
