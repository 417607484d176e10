"""A head that reads the rows of its target's layers (EAGLE-3): what it foresees, in every order of reading and taking back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spectui.llama.context import Context
from spectui.llama.heads.eagle import Eagle
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from tests.llama.heads.eagle import LAYERS, layer_row, letters, write_eagle, write_target
from tests.llama.heads.headed import foreseen
from tests.llama.heads.test_heads import TEXT, close_to


class Pair:
    """A target and its head."""

    def __init__(self, target: Path, head: Path, chunk: int = 512) -> None:
        interrupt = Interrupt()
        self.models = Model(str(target)), Model(str(head), "draft", heads=True)
        self.target = Context(self.models[0], interrupt, n_ctx=512, rows=17, ubatch=chunk, hidden=LAYERS)
        self.head = Eagle(self.models[1], self.target, interrupt, n_ctx=512, ubatch=chunk)

    def close(self) -> None:
        for each in (self.head, self.target, *self.models):
            each.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target") / "target.gguf")


@pytest.fixture
def pair(target: Path, tmp_path: Path) -> Iterator[Pair]:
    found = Pair(target, write_eagle(tmp_path / "head.gguf"))
    yield found
    found.close()


def test_the_target_keeps_the_rows_of_its_layers(pair: Pair) -> None:
    pair.target.evaluate(TEXT, 1)
    assert pair.target.hidden is not None
    for position, token in enumerate(TEXT):
        expected = np.concatenate([layer_row(token, layer) for layer in LAYERS])
        assert np.allclose(pair.target.hidden.row(position), expected, atol=1e-4)


def test_a_head_reads_the_targets_rows_and_then_its_own(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:-1], 0)
    assert close_to(pair.head.evaluate(TEXT, 1)[0], foreseen(TEXT, 0))
    for drafted in (1, 2):
        text = [*TEXT, 90, 91][: len(TEXT) + drafted]
        assert close_to(pair.head.evaluate(text[-1:], 1)[0], foreseen(text, drafted))


def test_accepted_tokens_are_read_again_and_rejected_ones_taken_back(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:4], 0)
    for token in ([*TEXT[:5]], [TEXT[5]], [99]):
        pair.head.evaluate(token, 1)
    pair.target.evaluate([TEXT[4], TEXT[5], 99], 3)
    pair.target.truncate(6)
    pair.head.truncate(6)
    assert pair.head.tokens == TEXT[:5]
    assert close_to(pair.head.evaluate(TEXT[5:7], 1)[0], foreseen(TEXT[:7], 0))


def test_the_target_reads_a_token_again_where_its_row_is_lost(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:-1], 0)
    pair.head.evaluate(TEXT, 1)
    pair.target.truncate(4)
    assert pair.target.tokens == TEXT[:3]
    pair.target.evaluate([TEXT[3], 95, 96], 0)
    pair.head.truncate(4)
    text = [*TEXT[:4], 95, 96, 97]
    assert close_to(pair.head.evaluate(text[4:], 1)[0], foreseen(text, 0))


def test_a_text_of_one_token_is_read(pair: Pair) -> None:
    assert close_to(pair.head.evaluate([70], 1)[0], foreseen([70], 0))
    pair.head.truncate(0)
    pair.target.evaluate([70], 0)
    assert close_to(pair.head.evaluate([70, 71], 1)[0], foreseen([70, 71], 0))


def test_a_long_text_is_read_along_in_chunks(target: Path, tmp_path: Path) -> None:
    pair = Pair(target, write_eagle(tmp_path / "head.gguf"), chunk=4)
    assert pair.target.hidden is not None
    text = [5 + n % 200 for n in range(19)]
    try:
        pair.target.evaluate(text, 0)
        assert len(pair.head.tokens) == 16
        assert pair.target.hidden.first == 14
        assert close_to(pair.head.evaluate([*text[16:], 40], 1)[0], foreseen([*text, 40], 0))
    finally:
        pair.close()


def test_it_foresees_the_tokens_of_its_own_vocabulary_alone(target: Path, tmp_path: Path) -> None:
    pair = Pair(target, write_eagle(tmp_path / "head.gguf", mapped=letters()))
    try:
        pair.target.evaluate(TEXT[:-1], 0)
        found = pair.head.evaluate(TEXT, 1)[0]
        assert np.flatnonzero(np.isfinite(found)).tolist() == letters()
        assert close_to(found[letters()], foreseen(TEXT, 0)[letters()])
    finally:
        pair.close()
