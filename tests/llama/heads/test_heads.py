"""A model's own heads: what they foresee, from whose hidden rows, in every order of reading, drafting and taking back."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from spectui.llama.context import Context
from spectui.llama.heads.context import Eagle, Heads
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from tests.llama.heads import eagle
from tests.llama.heads.headed import chances, foreseen, write_headed

TEXT = [10, 70, 71, 72, 73, 74, 75, 76, 80, 81]


class Pair:
    """A target and its heads: its own, or those in a file of theirs."""

    def __init__(
        self, target: Path, head: Path | None = None, kind: type[Heads] = Heads, layers: Sequence[int] = (), chunk: int = 512
    ) -> None:
        """`layers`: the target's whose rows the heads read; () for what comes out of the last."""
        interrupt = Interrupt()
        self.models = [Model(str(target), heads=head is None)]
        if head is not None:
            self.models.append(Model(str(head), "draft", heads=True))
        self.target = Context(self.models[0], interrupt, n_ctx=512, rows=17, ubatch=chunk, hidden=layers)
        self.heads = kind(self.models[-1], self.target, interrupt, n_ctx=512, ubatch=chunk)

    def close(self) -> None:
        for part in (self.heads, self.target, *self.models):
            part.close()


Open = Callable[..., Pair]
"""Opens a pair with these settings."""


@pytest.fixture(scope="module", params=[1, 3, "eagle3"], ids=["one head", "three heads", "eagle3"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """Each kind of heads that foresees token after token."""
    folder = tmp_path_factory.mktemp("heads")
    if request.param == "eagle3":
        target, head = eagle.write_target(folder / "target.gguf"), eagle.write_eagle(folder / "head.gguf")
        return partial(Pair, target, head, Eagle, eagle.LAYERS)
    return partial(Pair, write_headed(folder / "headed.gguf", heads=request.param))


@pytest.fixture
def pair(made: Open) -> Iterator[Pair]:
    opened = made()
    yield opened
    opened.close()


def close_to(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.allclose(found, expected, atol=0.03))


def test_the_target_says_what_it_was_made_to_say(tmp_path: Path) -> None:
    pair = Pair(write_headed(tmp_path / "headed.gguf", heads=1))
    rows = pair.target.evaluate(TEXT, 3)
    assert close_to(rows, chances()[TEXT[-3:]])
    pair.close()


def test_a_head_reads_the_targets_rows_and_then_its_own(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:-1], 0)
    assert close_to(pair.heads.evaluate(TEXT, 1)[0], foreseen(TEXT, 0))
    for drafted in (1, 2):
        text = [*TEXT, 90, 91][: len(TEXT) + drafted]
        assert close_to(pair.heads.evaluate(text[-1:], 1)[0], foreseen(text, drafted))


def test_drafted_tokens_are_read_again_with_the_targets_rows(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:4], 0)
    pair.heads.evaluate(TEXT[:5], 1)
    pair.heads.evaluate([TEXT[5]], 1)
    pair.heads.evaluate([TEXT[6]], 1)
    pair.target.evaluate(TEXT[4:7], 3)  # accepted; TEXT[7] is the target's own
    pair.heads.truncate(7)
    assert pair.heads.tokens == TEXT[:5]
    assert close_to(pair.heads.evaluate(TEXT[5:8], 1)[0], foreseen(TEXT[:8], 0))


def test_a_rejected_draft_is_taken_back(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:4], 0)
    pair.heads.evaluate(TEXT[:5], 1)
    pair.heads.evaluate([99], 1)
    pair.target.evaluate([TEXT[4], 99], 2)
    pair.target.truncate(5)
    pair.heads.truncate(5)
    assert close_to(pair.heads.evaluate(TEXT[5:6], 1)[0], foreseen(TEXT[:6], 0))


def test_the_target_reads_a_token_again_where_its_row_is_lost(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:-1], 0)
    pair.heads.evaluate(TEXT, 1)
    pair.target.truncate(4)
    assert pair.target.tokens == TEXT[:3]
    pair.target.evaluate([TEXT[3], 95, 96], 0)
    pair.heads.truncate(4)
    text = [*TEXT[:4], 95, 96, 97]
    assert close_to(pair.heads.evaluate(text[4:], 1)[0], foreseen(text, 0))


def test_a_long_text_is_read_along_in_chunks(made: Open) -> None:
    pair = made(chunk=4)
    assert pair.target.hidden is not None
    text = [5 + n % 200 for n in range(19)]
    try:
        pair.target.evaluate(text, 0)
        assert len(pair.heads.tokens) == 16
        assert pair.target.hidden.first == 14
        assert close_to(pair.heads.evaluate([*text[16:], 40], 1)[0], foreseen([*text, 40], 0))
    finally:
        pair.close()


def test_a_draft_goes_on_behind_tokens_of_another_drafter(pair: Pair) -> None:
    pair.target.evaluate(TEXT[:-1], 0)
    other = [*TEXT, 90, 91]
    assert close_to(pair.heads.evaluate(other, 1)[0], foreseen(other, 2))


def test_a_text_of_one_token_is_read(pair: Pair) -> None:
    assert close_to(pair.heads.evaluate([70], 1)[0], foreseen([70], 0))
    pair.heads.truncate(0)
    pair.target.evaluate([70], 0)
    assert close_to(pair.heads.evaluate([70, 71], 1)[0], foreseen([70, 71], 0))


def test_the_target_keeps_the_rows_of_its_layers(tmp_path: Path) -> None:
    files = (eagle.write_target(tmp_path / "target.gguf"), eagle.write_eagle(tmp_path / "head.gguf", mapped=eagle.SAID))
    pair = Pair(*files, Eagle, eagle.LAYERS)
    try:
        pair.target.evaluate(TEXT[:-1], 0)
        assert pair.target.hidden is not None
        for position, token in enumerate(TEXT[:-1]):
            expected = np.concatenate([eagle.layer_row(token, layer) for layer in eagle.LAYERS])
            assert np.allclose(pair.target.hidden.row(position), expected, atol=1e-4)
        logits = pair.heads.evaluate(TEXT, 1)[0]
        assert np.flatnonzero(np.isfinite(logits)).tolist() == eagle.SAID, "it foresees those of its own vocabulary"
        assert close_to(logits[eagle.SAID], foreseen(TEXT, 0)[eagle.SAID])
    finally:
        pair.close()
