"""A head drafts from the target's hidden rows: it gets each pass's, and knows which of its tokens stayed in the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.choice import choose_draft
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import Candidate
from spectui.speculation.statistics import Statistics
from spectui.speculation.strategy import Strategy
from tests.toys import ToyModel, decode, emitted

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
KNOBS = Knobs(policy="fixed", drafter="model", draft_max=4, p_min=0.0, predict=50, temperature=0.8, seed=3)


class Target(ToyModel):
    """A toy whose hidden row at a place says its token, and where it is."""

    hidden = np.empty((0, 2), np.float32)

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        found = super().evaluate(tokens, rows)
        start = len(self.tokens) - len(tokens)
        self.hidden = np.array([[token, start + at] for at, token in enumerate(tokens)], np.float32)
        return found


class Head:
    """Knows what the target writes behind two tokens: the first is in a hidden row, the second is the text's last one."""

    upcoming = "model"

    def __init__(self, knows: ToyModel) -> None:
        self.model = knows
        self.rows: list[list[float]] = []
        """Of the text's tokens, as far as the target has read them."""
        self.fails_after: int | None = None
        self.passes: list[tuple[int, int]] = []

    def observe(self, hidden: NDArray[np.float32], start: int, kept: int) -> None:
        if self.fails_after is not None and len(self.passes) >= self.fails_after:
            raise SpectuiError("the head failed")
        assert 0 <= start <= len(self.rows) and 0 < kept <= len(hidden)
        self.passes.append((len(hidden), kept))
        self.rows[start:] = hidden[:kept].tolist()

    def lag(self, tokens: Sequence[int]) -> int:
        return 0

    def full(self, tokens: Sequence[int]) -> bool:
        return False

    def prepare(self, tokens: Sequence[int], cancelled: object) -> None:
        pass

    def check(self, tokens: Sequence[int]) -> None:
        """There is a row for each token that the target has read, which is all but the last."""
        assert self.rows == [[token, at] for at, token in enumerate(tokens[:-1])]

    def propose(self, tokens: Sequence[int], knobs: Knobs) -> Iterator[Candidate]:
        self.check(tokens)
        history, before = list(tokens), int(self.rows[-1][0])
        while True:
            row = self.model.logits([*[0] * (len(history) - 2), before, history[-1]])
            token, p = choose_draft(row, knobs, len(history), history)
            yield Candidate(token, p, "model")
            before = history[-1]
            history.append(token)


def drafting(noise: float, head: Head | None = None) -> tuple[Head, list[int], Statistics]:
    """The head, the text, and the figures of a reply."""
    head = head or Head(ToyModel(1, noise=noise, ends=False))
    _, rounds, notices = decode(Target(1, ends=False), PROMPT, KNOBS, head)  # type: ignore[arg-type]
    assert bool(notices) == (head.fails_after is not None)
    return head, emitted(rounds), Statistics.of(rounds)


@pytest.fixture(scope="module")
def plain() -> list[int]:
    return emitted(decode(ToyModel(1, ends=False), PROMPT, replace(KNOBS, drafter="off"))[1])


def test_a_head_that_knows_the_target_is_always_right(plain: list[int]):
    head, text, statistics = drafting(0.0)
    assert text == plain and statistics.acceptance == 1.0 and statistics.tokens_per_pass == 5.0
    assert head.passes[:2] == [(5, 5), (5, 5)], "the prompt but for its last token"
    assert set(head.passes[2:]) == {(5, 5)}


def test_rows_of_rejected_tokens_do_not_stay(plain: list[int]):
    head, text, statistics = drafting(1.0)
    assert text == plain
    assert statistics.rejected > 10 and statistics.accepted > 10
    assert any(kept < rows for rows, kept in head.passes)


def test_the_next_reply_goes_on_from_the_rows_that_are_left(plain: list[int]):
    head, target = Head(ToyModel(1, noise=0.5, ends=False)), Target(1, ends=False)
    strategy = Strategy(head, CostModel())  # type: ignore[arg-type]
    decoder, rounds, _ = decode(target, PROMPT, KNOBS, strategy=strategy)
    assert emitted(rounds) == plain
    head.passes.clear()
    decode(target, [*decoder.tokens[:30], 7, 8], KNOBS, strategy=strategy)
    assert head.passes[0] == (1, 1), "the others are of tokens that the context has"


def test_a_head_that_fails_is_left_out(plain: list[int]):
    for passes in (0, 1, 5):
        head = Head(ToyModel(1, noise=0.5, ends=False))
        head.fails_after = passes
        _, text, _ = drafting(0.5, head)
        assert text == plain
