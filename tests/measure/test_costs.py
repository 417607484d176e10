"""What the passes of a pair cost, and what heads cost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spectui.engine.costs import measuring
from spectui.engine.costs.measuring import draft_costs
from spectui.engine.session import Session
from spectui.knobs import Setup
from spectui.llama.context import Context
from spectui.llama.devices.records import MemoryUse, ModelInfo
from spectui.measure.costs import load, text_lines
from spectui.speculation.policies.cost_model import CostModel
from tests.helpers.smollm2 import opened
from tests.llama.heads.dflash import write_dflash, write_target
from tests.llama.heads.headed import write_headed
from tests.measure.models import tiny_setup

MODEL = SimpleNamespace(
    description="made up", remark="", path="made-up.gguf", parameters=1, bytes=1, devices=("CPU",), kernels="spectui avx2",
    kernels_why="", kernels_in_words="spectui avx2", at_once=1,
)  # fmt: skip


def lines(costs: CostModel, draft: object = MODEL, target: object = MODEL) -> list[str]:
    loaded: Any = SimpleNamespace(target=target, draft=draft)
    return list(text_lines(loaded, costs, 120))


def rows(text: list[str]) -> dict[str, list[str]]:
    """Tokens of a pass -> the cells of its row."""
    return {line.split()[0]: line.split()[1:] for line in text if line[:1].isdigit()}


def test_each_length_has_its_costs_its_break_even_and_its_speeds() -> None:
    """A pass over 5 costs 1.5 plain ones and four drafted tokens 0.8, so at full acceptance 5 tokens take 2.3 passes."""
    text = lines(CostModel({1: 0.1, 2: 0.12, 5: 0.15, 17: 0.2}, first=0.02, next=0.02))
    assert "100.0 ms a token without drafts, 10.0 tokens a second" in text[0]
    assert "20.0 ms a token, 0.20 of a pass" in text[1]
    table = rows(text)
    assert list(table) == ["1", "2", "5"], "the sizes that were measured, up to 16"
    milliseconds, verify, drafted, whole, needed, *speeds = table["5"]
    assert (milliseconds, verify, drafted, whole) == ("150.0", "1.50", "4", "2.30")
    assert speeds[-1] == f"{5 / 2.3:.2f}x"
    assert sum((float(needed.rstrip("%")) / 100) ** k for k in range(5)) == pytest.approx(2.3, abs=0.05)
    lowest = next(line for line in text if line.startswith("Drafts pay where more than "))
    assert int(lowest.split()[5].rstrip("%")) <= int(needed.rstrip("%"))


def test_the_costs_of_a_block_are_those_of_its_pass_and_longer_drafts_are_not_shown() -> None:
    block = SimpleNamespace(**{**vars(MODEL), "at_once": 4})
    text = lines(CostModel({1: 0.1, 5: 0.12, 9: 0.15}, first=0.03, next=1e-6, max_drafted=4), block)
    assert "30.0 ms a draft of up to 4 tokens" in text[1]
    assert rows(text)["5"][2] == "4" and set(rows(text)["9"][2:]) == {"–"}


def test_costs_are_those_of_devices() -> None:
    """The cells are where the layers are; the host keeps some weights, and buffers, in any case."""
    card, host = MemoryUse("CUDA0", 9, 9, 9), MemoryUse("CPU", 9, 0, 9)
    target = ModelInfo("t", "big", 1, 1, 1, 1, 1, memory=(card, host))
    costs = CostModel({1: 0.1, 17: 0.2}, 0, 0, 0.01, 0.01)
    text = lines(costs, target._replace(memory=(host,)), target)
    assert text[0].startswith("target: big on CUDA0, ") and text[1].startswith("draft: big, ")
    both = lines(costs, None, target._replace(memory=(card, host._replace(cells=9))))
    assert both[0].startswith("target: big on CUDA0 and CPU, ")


def test_a_pair_that_cannot_pay_is_told_so() -> None:
    text = lines(CostModel({1: 0.1, 2: 0.2, 17: 1.7}, first=0.05, next=0.05))
    assert rows(text)["2"][4] == "never" and any("cannot pay here" in line for line in text)


def test_nothing_is_concluded_from_passes_over_one_token() -> None:
    text = lines(CostModel({1: 0.1}, first=0.01, next=0.01))
    assert any("it is not known what pays" in line for line in text) and not any("Drafts pay" in line for line in text)


def test_again_measures_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_directories: None) -> None:
    monkeypatch.setattr(measuring, "_is_noisy", lambda seconds: False)
    setup = tiny_setup(tmp_path, no_profile="off")
    session, _ = opened(setup)
    measured: list[Context] = []
    measure = measuring._measure_target
    monkeypatch.setattr(measuring, "_measure_target", lambda *given: (measured.append(given[0]), measure(*given))[1])
    session.close()
    loaded = load(session, setup, again=False)
    assert loaded.costs is not None and not measured
    again = load(session, setup, again=True)
    assert len(measured) == 1 and again.costs is not None and again.costs is not loaded.costs
    session.close()


@contextmanager
def loaded_heads(path: Path, draft: Path | None = None) -> Iterator[Session]:
    heads = None if draft is None else str(draft)
    session, _ = opened(Setup(model=str(path), draft=heads, ctx_size=512, threads=1, no_profile="on"))
    try:
        yield session
    finally:
        session.close()


def count_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each pass of a context move the clock by a second."""
    passes: list[int] = []
    evaluate = Context.evaluate

    def counted(context: Context, tokens: Sequence[int], rows: int) -> object:
        passes.append(len(tokens))
        return evaluate(context, tokens, rows)

    monkeypatch.setattr(Context, "evaluate", counted)
    monkeypatch.setattr(measuring, "perf_counter", lambda: float(len(passes)))


@pytest.mark.parametrize("heads", [1, 3])
def test_all_heads_read_a_token_and_one_drafts_it(
    heads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_directories: None
) -> None:
    with loaded_heads(write_headed(tmp_path / "headed.gguf", heads=heads)) as session:
        assert session.pair.draft_context is not None
        count_passes(monkeypatch)
        costs = draft_costs(session.pair.draft_context, ("build", "heads"), lambda: False)
        assert (costs.first, costs.next) == (heads, 1)


def test_the_first_token_of_a_block_costs_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_directories: None
) -> None:
    """A pass over the block, and one that reads the other token where there are two."""
    with loaded_heads(write_target(tmp_path / "target.gguf"), write_dflash(tmp_path / "head.gguf")) as session:
        assert session.pair.draft_context is not None
        count_passes(monkeypatch)
        costs = draft_costs(session.pair.draft_context, ("build", "block"), lambda: False)
        assert (costs.first, costs.next) == (1.5, 0)
