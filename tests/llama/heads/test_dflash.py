"""A head that foresees a block in one pass (DFlash): what it foresees, in every order of reading and taking back."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectui.llama.context import Context
from spectui.llama.heads.context import DFlash
from tests.llama.heads.dflash import BLOCK, foreseen, write_dflash, write_target
from tests.llama.heads.eagle import LAYERS, SAID
from tests.llama.heads.test_heads import Pair, close_to

LETTERS = SAID[1:]
TEXT = [LETTERS[at] for at in (0, 3, 5, 6, 1, 2, 9, 11, 4, 7)]


Open = Callable[..., Pair]
"""Opens the target with a head of this shape, and closes both after the test."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target") / "target.gguf")


@pytest.fixture
def opened(target: Path, tmp_path: Path) -> Iterator[Open]:
    pairs: list[Pair] = []

    def open(chunk: int = 512, **shape: Any) -> Pair:
        pairs.append(Pair(target, write_dflash(tmp_path / "head.gguf", **shape), DFlash, LAYERS, chunk))
        return pairs[-1]

    yield open
    for pair in pairs:
        pair.close()


@pytest.fixture
def pair(opened: Open) -> Pair:
    return opened()


def drafts(pair: Pair, text: Sequence[int], **settings: int) -> bool:
    """Does the head foresee a whole block behind this text as it was made to?"""
    found = [pair.heads.evaluate(text[len(pair.heads.tokens) :], 1)[0].copy()]
    found += [pair.heads.evaluate([LETTERS[0]], 1)[0].copy() for _ in range(BLOCK - 2)]
    return all(close_to(row, foreseen(list(text), drafted, **settings)) for drafted, row in enumerate(found))


def test_a_block_is_foreseen_in_one_pass(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    evaluate = Context.evaluate

    def counted(context: Context, tokens: Sequence[int], rows: int) -> object:
        sizes.append(len(tokens))
        return evaluate(context, tokens, rows)

    pair.target.evaluate(TEXT[:-1], 0)
    monkeypatch.setattr(Context, "evaluate", counted)
    assert drafts(pair, TEXT)
    assert sizes == [len(TEXT) - 1, BLOCK]


def test_several_tokens_behind_the_texts_last_one_are_foreseen_with_it(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:-1], 0)
    assert close_to(pair.heads.evaluate([*TEXT, 90, 91], 1)[0], foreseen(TEXT, 2))
    assert pair.heads.tokens == [*TEXT, 90, 91]


def test_accepted_tokens_are_read_and_rejected_ones_taken_back(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:6], 0)
    assert drafts(pair, TEXT[:7])
    pair.target.evaluate([*TEXT[6:8], 99], 3)
    pair.target.truncate(8)
    pair.heads.truncate(8)
    assert pair.heads.tokens == TEXT[:6]
    assert drafts(pair, TEXT[:9])


def test_a_text_that_turns_elsewhere_is_read_from_there_on(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:-1], 0)
    assert drafts(pair, TEXT)
    other = [*TEXT[:4], *reversed(TEXT)]
    pair.target.truncate(4)
    pair.target.evaluate(other[len(pair.target.tokens) : -1], 0)
    pair.heads.truncate(4)
    assert drafts(pair, other)


@pytest.mark.parametrize("known", [0, 1])
def test_a_text_of_one_token_or_two_is_read(pair: Pair, known: int) -> None:
    pair.target.evaluate(TEXT[:known], 0)
    found = pair.heads.evaluate(TEXT[: known + 1], 1)[0]
    assert found.argmax() == foreseen([*TEXT[:5], *TEXT[: known + 1]]).argmax()
    assert pair.heads.tokens == TEXT[: known + 1]


def test_a_long_text_is_read_along_in_chunks(opened: Open) -> None:
    pair = opened(chunk=8)
    assert pair.target.hidden is not None
    text = [LETTERS[n * n % 11] for n in range(37)]
    pair.target.evaluate(text[:-1], 0)
    assert len(pair.heads.tokens) == 32
    assert pair.target.hidden.first == 30
    assert drafts(pair, text)


def test_a_chunk_is_never_smaller_than_a_block(opened: Open) -> None:
    """llama.cpp ended the process."""
    pair = opened(chunk=2)
    pair.target.evaluate(TEXT[:-1], 0)
    assert drafts(pair, TEXT)


def test_the_last_tokens_of_the_context_have_room_for_a_block(pair: Pair) -> None:
    text = [LETTERS[n * n % 11] for n in range(512)]
    pair.target.evaluate(text[:-1], 0)
    assert close_to(pair.heads.evaluate(text[len(pair.heads.tokens) :], 1)[0], foreseen(text))


def test_a_block_is_no_longer_than_what_the_target_can_judge(opened: Open) -> None:
    pair = opened(block=900)
    pair.target.evaluate(TEXT[:-1], 0)
    assert pair.heads.max_drafted == pair.target.rows - 1
    assert close_to(pair.heads.evaluate(TEXT, 1)[0], foreseen(TEXT, masks=pair.target.rows - 1))


@pytest.mark.parametrize(
    "settings", [{"own": False}, {"causal": False}, {"window": 16}, {"sections": True}, {"block": None}], ids=str
)
def test_it_foresees_the_same_in_every_shape(opened: Open, settings: dict[str, bool]) -> None:
    """With the target's embeddings and output matrix, a sliding window, or positions of four numbers."""
    pair = opened(**settings)
    masks = pair.heads.max_drafted or 0
    for known in range(7, len(TEXT)):
        pair.target.evaluate(TEXT[len(pair.target.tokens) : known], 0)
        pair.heads.truncate(known)
        assert drafts(pair, TEXT[: known + 1], masks=masks)


def test_a_head_whose_masks_do_not_see_later_ones(opened: Open) -> None:
    pair = opened(causal=True)
    pair.target.evaluate(TEXT[:-1], 0)
    assert close_to(pair.heads.evaluate(TEXT, 1)[0], foreseen(TEXT, masks=1))


def test_it_foresees_the_tokens_of_its_own_vocabulary_alone(opened: Open) -> None:
    pair = opened(mapped=SAID)
    pair.target.evaluate(TEXT[:-1], 0)
    found = pair.heads.evaluate(TEXT, 1)[0]
    assert np.flatnonzero(np.isfinite(found)).tolist() == SAID
    assert close_to(found[SAID], foreseen(TEXT)[SAID])
