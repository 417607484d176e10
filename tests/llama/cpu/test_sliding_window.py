"""A context whose layers look back over a sliding window keeps few cells, and its rows are those of one that keeps all."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.llama.quantiser import quantise
from tests.llama.ggufs import write_gemma

TOKENS = [5 + n * 7 % 200 for n in range(700)]
RING = 256


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """In Q8_0, whose kernels are bit-equal at every batch; F32's are not."""
    directory = tmp_path_factory.mktemp("gemma")
    write_gemma(directory / "f32.gguf")
    quantise(directory / "f32.gguf", directory / "q8.gguf", "Q8_0")
    model = Model(str(directory / "q8.gguf"), extra_buffers=selftest.run().extra_buffers)
    yield model
    model.close()


def opened(model: Model, *, swa_full: bool = False, equal_rows: bool = True) -> Context:
    return Context(model, Interrupt(), n_ctx=1024, rows=17, ubatch=32, threads=1, swa_full=swa_full, equal_rows=equal_rows)


def single_rows(context: Context, tokens: Sequence[int]) -> list[NDArray[np.float32]]:
    return [context.evaluate([token], rows=1)[0].copy() for token in tokens]


def drafted_rows(context: Context, tokens: Sequence[int], ring: int) -> list[NDArray[np.float32]]:
    """The rows of the tokens, each evaluated with a draft that is rejected, as long as the ring allows."""
    rows = []
    for token in tokens:
        position = len(context.tokens)
        wrong = [3] * min(8, ring - (position + 1) % ring)
        rows.append(context.evaluate([token, *wrong], rows=1 + len(wrong))[0].copy())
        context.truncate(position + 1)
    return rows


def test_few_cells_are_kept_and_the_rows_are_those_of_all_cells(gemma: Model) -> None:
    few, full = opened(gemma), opened(gemma, swa_full=True)
    assert (few.ring, full.ring) == (RING, 0)
    cells = [sum(each.cells for each in context.memory) for context in (few, full)]
    assert cells[0] <= cells[1] / 4
    assert np.allclose(single_rows(few, TOKENS), single_rows(full, TOKENS), atol=0.1)  # Q8_0 rounds activations
    few.close()
    full.close()


def test_rejected_drafts_change_no_row_when_the_cells_are_filled_again(gemma: Model) -> None:
    plain, drafted = opened(gemma), opened(gemma)
    expected = single_rows(plain, TOKENS)
    assert np.array_equal(drafted_rows(drafted, TOKENS, drafted.ring), expected)
    assert drafted.tokens == TOKENS
    careless = opened(gemma, equal_rows=False)
    assert careless.ring == 0
    rows = drafted_rows(careless, TOKENS, 10**6)
    assert not np.array_equal(rows, expected), "a draft over the end of the ring moves the cells behind it"
    for context in (plain, drafted, careless):
        context.close()


@pytest.mark.parametrize("length", [100, 155])  # before all cells that are left, and among the first of them
def test_a_context_without_the_cells_is_emptied(gemma: Model, length: int) -> None:
    """llama.cpp answers that it dropped the tokens, and would then attend to cells that are gone."""
    for equal_rows in (True, False):
        context = opened(gemma, equal_rows=equal_rows)
        context.evaluate(TOKENS[:400], rows=0)
        context.truncate(390)
        assert context.tokens == TOKENS[:390]
        context.truncate(length)
        assert context.tokens == []
        assert context.evaluate([9], rows=1).shape == (1, gemma.n_vocab)
        context.close()


@pytest.mark.parametrize("length", [100, RING, RING + 44, 2 * RING - 1])
def test_a_window_that_was_kept_is_restored_into_its_cells(gemma: Model, length: int) -> None:
    """Else attention would add in another order, and round otherwise."""
    fresh, kept = opened(gemma), opened(gemma)
    fresh.evaluate(TOKENS[:length], rows=0)
    kept.keep_at = [length]
    kept.evaluate(TOKENS[: length + 150], rows=0)
    single_rows(kept, TOKENS[:200])
    kept.truncate(length + 3)
    assert kept.tokens == TOKENS[:length]
    assert np.array_equal(single_rows(kept, TOKENS[:300]), single_rows(fresh, TOKENS[:300]))
    for context in (fresh, kept):
        context.close()


def test_a_context_that_has_all_cells_is_truncated(gemma: Model) -> None:
    full = opened(gemma, swa_full=True)
    full.evaluate(TOKENS[:400], rows=0)
    full.truncate(100)
    assert full.tokens == TOKENS[:100]
    again, expected = single_rows(full, [9]), opened(gemma, swa_full=True)
    expected.evaluate(TOKENS[:100], rows=0)
    assert np.allclose(again, single_rows(expected, [9]), atol=0.1)
    full.close()
    expected.close()
