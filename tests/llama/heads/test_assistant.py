"""Gemma 4's assistant: what it foresees from the target's cells and rows, in every order of reading, drafting, taking back."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.llama.context import Context
from spectui.llama.heads.context import Assistant
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from tests.llama.heads.assistant import write_assistant, write_target
from tests.llama.heads.headed import foreseen

TEXT = [10, 70, 71, 72, 73, 74, 75, 76, 80, 81]
LONG = [5 + n % 200 for n in range(380)]


class Pair:
    """A target and its assistant."""

    def __init__(self, folder: Path, attends: float, **cells: str) -> None:
        self.models = [
            Model(str(write_target(folder / "target.gguf", attends=attends))),
            Model(str(write_assistant(folder / "assistant.gguf", attends=attends)), "draft", heads=True),
        ]
        interrupt = Interrupt()
        settings: dict[str, Any] = {"n_ctx": 512, "ubatch": 64, **cells}
        self.target = Context(self.models[0], interrupt, rows=17, hidden=(), equal_rows=True, **settings)
        self.heads = Assistant(self.models[1], self.target, interrupt, **settings)

    def drafted(self, text: Sequence[int], drafted: Sequence[int]) -> NDArray[np.float32]:
        """The logits behind a text that the target has read but for its last token, and behind these drafted tokens."""
        self.heads.truncate(0)
        self.target.truncate(0)
        self.target.evaluate(text[:-1], 0)
        found = self.heads.evaluate(text, 1)[0]
        for token in drafted:
            found = self.heads.evaluate([token], 1)[0]
        return found.copy()

    def close(self) -> None:
        self.heads.close()
        self.target.close()
        for model in self.models:
            model.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path, attends=0.0)
    yield found
    found.close()


@pytest.fixture(params=["auto", "off"])
def attending(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    found = Pair(tmp_path, attends=0.3, flash_attn=request.param)
    yield found
    found.close()


def close_to(found: NDArray[np.float32], expected: NDArray[np.float32]) -> bool:
    return bool(np.allclose(found, expected, atol=0.03))


def test_it_reads_the_targets_row_and_then_its_own(pair: Pair) -> None:
    assert close_to(pair.drafted(TEXT, []), foreseen(TEXT, 0))
    for drafted in (1, 2):
        text = [*TEXT, 90, 91][: len(TEXT) + drafted]
        assert close_to(pair.drafted(TEXT, text[len(TEXT) :]), foreseen(text, drafted))


def test_it_attends_to_the_targets_cells(attending: Pair) -> None:
    expected = attending.drafted(TEXT, [90])
    assert not close_to(expected, foreseen([*TEXT, 90], 1))
    assert not close_to(attending.drafted([*reversed(TEXT[:-1]), TEXT[-1]], [90]), expected)


@pytest.mark.parametrize("cells", [{"flash_attn": "off"}, {"type_k": "q8_0", "type_v": "q8_0"}], ids=str)
def test_it_reads_them_however_they_lie(tmp_path: Path, cells: dict[str, str]) -> None:
    found = []
    for kind in ({}, cells):
        pair = Pair(tmp_path, attends=0.3, **kind)
        found.append(pair.drafted(LONG, [90]))
        pair.close()
    assert np.allclose(*found, atol=0.1)


@pytest.mark.parametrize("text", [TEXT, LONG], ids=["short", "longer than its window and its ring"])
def test_what_it_says_does_not_depend_on_what_was_taken_back(attending: Pair, text: list[int]) -> None:
    heads, target = attending.heads, attending.target
    expected = attending.drafted(text, [90, 91])
    heads.truncate(len(text))
    heads.evaluate([60], 1)
    target.evaluate([text[-1], 60, 61], 3)
    target.truncate(len(text) - 1)  # rejected
    heads.truncate(len(text) - 1)
    heads.evaluate(text[len(heads.tokens) :], 1)
    for token in (90, 91):
        found = heads.evaluate([token], 1)[0]
    assert np.array_equal(found, expected)


def test_the_target_keeps_its_cells_whatever_it_drops(attending: Pair) -> None:
    target, heads = attending.target, attending.heads
    target.evaluate(LONG, 0)
    expected = target.evaluate([7], 1).copy()
    target.truncate(len(LONG))
    heads.evaluate([*LONG, 7], 1)
    heads.evaluate([8], 1)
    heads.clear()
    assert heads.tokens == []
    assert np.array_equal(target.evaluate([7], 1), expected)


def test_nothing_is_read_along_and_few_rows_are_kept(pair: Pair) -> None:
    assert pair.target.hidden is not None
    pair.target.evaluate(LONG, 0)
    assert pair.heads.tokens == []
    assert len(LONG) - pair.target.hidden.first <= pair.target.rows
    assert close_to(pair.heads.evaluate([*LONG, 40], 1)[0], foreseen([*LONG, 40], 0))


def test_a_target_that_gets_another_assistant_reads_its_text_again(tmp_path: Path) -> None:
    """llama.cpp empties the table of the target's cells when such a context is made."""
    pair = Pair(tmp_path, attends=0.3)
    expected = pair.drafted(TEXT, [])
    pair.heads.close()
    pair.heads = Assistant(pair.models[1], pair.target, Interrupt(), n_ctx=512)
    assert pair.target.tokens == []
    assert np.array_equal(pair.drafted(TEXT, []), expected)
    pair.close()
