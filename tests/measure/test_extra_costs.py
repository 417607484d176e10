"""What drafts cost a target beside its passes: hidden rows for heads, and rejected tokens of recurrent targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spectui.engine.costs import measuring
from spectui.engine.costs.measuring import draft_costs
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama.context import Context
from spectui.measure.costs import SIZES, Measurement, Passes, measure
from spectui.measure.extra_costs import ExtraCosts, TakingBack
from spectui.measure.report import costs as report
from spectui.speculation.policies.cost_model import CostModel
from tests.helpers.smollm2 import ask, opened
from tests.llama.heads.dflash import BLOCK, write_dflash, write_target
from tests.llama.heads.headed import write_headed, write_hybrid
from tests.measure.models import tiny_setup


@contextmanager
def loaded(path: Path, draft: Path | None = None) -> Iterator[Session]:
    heads = None if draft is None else str(draft)
    session, _ = opened(Setup(model=str(path), draft=heads, ctx_size=512, threads=1, no_profile="on"))
    try:
        yield session
    finally:
        session.close()


def calling(session: Session) -> Callable[..., Any]:
    return lambda function, *arguments: function(session, *arguments)


def test_the_ways_of_a_hybrid_are_told_by_what_it_keeps(tmp_path: Path) -> None:
    with loaded(write_hybrid(tmp_path / "hybrid.gguf")) as session:
        found = measure(calling(session), [0], repetitions=2).extra
        assert session.target_context is not None and session.target_context.tokens == []
    assert [(each.way, each.longest) for each in found.taking_back] == [("states", 4), ("checkpoint", 48)]
    assert [(len(each.save_s), len(each.back_s)) for each in found.taking_back] == [(0, 2), (2, 2)]
    assert (len(found.kept_s), len(found.not_kept_s)) == (2, 2)


def test_states_that_were_not_kept_are_no_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the architecture has none: llama.cpp says so when the context is made."""
    monkeypatch.setattr("spectui.llama.context.STATES", 0)
    with loaded(write_hybrid(tmp_path / "hybrid.gguf", heads=0)) as session:
        found = measure(calling(session), [0], repetitions=1).extra
    assert [(each.way, each.longest) for each in found.taking_back] == [("checkpoint", 48)]
    assert found.ratio is None


def test_heads_draft_as_before(tmp_path: Path) -> None:
    knobs = Knobs(temperature=0.8, seed=5, predict=60, policy="fixed", drafter="mtp", draft_max=3, p_min=0.0)
    with loaded(write_headed(tmp_path / "headed.gguf")) as session:
        before = ask(session, knobs, "hello")
        session.load(Setup(model=str(tmp_path / "headed.gguf"), ctx_size=512, threads=1, no_profile="on"))
        found = measure(calling(session), [0], repetitions=1).extra
        after = ask(session, knobs, "hello")
    assert found.taking_back == [] and len(found.kept_s) == 1
    assert (after.text, after.statistics.accepted) == (before.text, before.statistics.accepted)


def test_other_pairs_have_none(tmp_path: Path) -> None:
    session, _ = opened(tiny_setup(tmp_path))
    assert measure(calling(session), [0], repetitions=1).extra == ExtraCosts([], [], [])
    session.close()


class Counting:
    """A clock that each pass of a context moves by a second. It notes the passes' sizes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        evaluate = Context.evaluate

        def counted(context: Context, tokens: Sequence[int], rows: int) -> object:
            self.sizes.append(len(tokens))
            return evaluate(context, tokens, rows)

        monkeypatch.setattr(Context, "evaluate", counted)
        monkeypatch.setattr(measuring, "perf_counter", lambda: float(len(self.sizes)))


@pytest.mark.parametrize("heads", [1, 3])
def test_all_heads_read_a_token_and_one_drafts_it(heads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path))
    with loaded(write_headed(tmp_path / "headed.gguf", heads=heads)) as session:
        assert session.draft_context is not None
        Counting(monkeypatch)
        found = draft_costs(session.draft_context, ("build", "heads"), lambda: False)
        assert (found.first, found.next) == (heads, 1)
        costs = measure(calling(session), [0], repetitions=1).costs()
        assert (costs.first, costs.next) == (heads, 1)


def test_the_first_token_of_a_block_costs_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over the block, and one that reads the other token where there are two."""
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(tmp_path))
    target, head = write_target(tmp_path / "target.gguf"), write_dflash(tmp_path / "head.gguf")
    with loaded(target, head) as session:
        assert session.draft_context is not None
        Counting(monkeypatch)
        found = draft_costs(session.draft_context, ("build", "block"), lambda: False)
        assert (found.first, found.next) == (1.5, 0)
        costs = measure(calling(session), [0, 64], repetitions=1).costs(CostModel(foresees=BLOCK - 1))
        assert (costs.first, costs.next, costs.foresees) == (1.5, 0, BLOCK - 1)


def test_a_pass_of_a_head_over_several_tokens_reads_them_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loaded(write_headed(tmp_path / "headed.gguf")) as session:
        counted = Counting(monkeypatch)
        draft = measure(calling(session), [0, 64], repetitions=1)
        assert all(cell.medians == dict.fromkeys(SIZES, 1.0) for cell in draft.cells if cell.model == "draft")
        assert max(counted.sizes) >= 64


def text(extra: ExtraCosts) -> list[str]:
    target = Passes("target", 0, {1: [0.1], 2: [0.2]})
    model: Any = SimpleNamespace(description="made up", remark="", devices=("CPU",), kernels_in_words="llama.cpp")
    loaded: Any = SimpleNamespace(target=model, draft=None, costs=None)
    return list(report.text_lines(loaded, Measurement([target], extra=extra)))


def test_the_sentences() -> None:
    extra = ExtraCosts(
        [1.2, 1.4],
        [1.0, 1.0],
        [TakingBack("states", 4, [], [0.001]), TakingBack("checkpoint", 48, [0.01], [0.12])],
    )
    found = text(extra)
    rows = "Keeping hidden rows for the heads makes reading a prompt take 1.30 times as long (standard error 0.10, 2 pairs)."
    ways = [line for line in found if line.startswith("Of drafts")]
    assert rows in found
    assert ways == [
        "Of drafts of 1 to 4 tokens, rejected tokens are taken back by states that the target keeps (n_rs_seq): 0.01 plain "
        "passes a round.",
        "Of drafts of 5 to 48 tokens, rejected tokens are taken back by a checkpoint: 0.10 plain passes a round to save it, "
        "and 1.20 to restore it and read one accepted token again.",
    ]
    assert any("1.20 times as long (one pair)" in line for line in text(ExtraCosts([1.2], [1.0])))
    reading = ExtraCosts(taking_back=[extra.taking_back[1]._replace(way="reading")])
    (again,) = [line for line in text(reading) if "whole text" in line]
    assert again.endswith("by reading the whole text again: 1.20 plain passes behind 128 tokens.")
