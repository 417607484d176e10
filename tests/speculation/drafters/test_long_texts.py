"""A round takes as much memory behind a long text as behind a short one: nothing of the text is copied, nor compared again."""

import tracemalloc
from collections.abc import Callable
from statistics import quantiles

import numpy as np
import pytest

from spectui.knobs import Knobs
from spectui.speculation.drafters.cross_vocabulary.drafters import IntersectionDrafter, RetokenisingDrafter
from spectui.speculation.drafters.cross_vocabulary.vocabulary_map import VocabularyMap
from spectui.speculation.drafters.model import DraftModel, ModelDrafter
from spectui.speculation.drafters.text import CommonPrefix, DraftedText
from spectui.speculation.records import Round
from tests.helpers.words import ToyWords
from tests.toys import ToyModel, decode

LONG = 6_000
"""Tokens; a copy of them takes eight bytes each."""

WORDS = ToyWords(["ab", "abc", " a", " ab", "\n ", "ca", "éa", "cé", " b", "bca", "é"], opening=True)
OTHERS = ToyWords(["abca", "aé", "ca", " c", "  ", "\n", "abc", " ab", "bb", "cab", "é é"], end="<stop>")
LONGER = ToyWords(["ab", "abc", " a", " ab", "\n ", "ca", "éa", "cé", " b", "é", "abca"], end="<stop>", opening=True)


def toy(n_vocab: int, noise: float = 0.0) -> ToyModel:
    """A model with room for the text, which it reads in one pass."""
    model = ToyModel(1, n_vocab=n_vocab, n_ctx=2 * LONG, noise=noise, ends=False)
    model.chunk = LONG
    return model


def mapped(kind: Callable[[ToyModel, VocabularyMap], DraftModel], words: ToyWords) -> DraftModel:
    return kind(toy(words.n_vocab), VocabularyMap(WORDS, words))


def bytes_of_rounds(drafter: DraftModel | None, name: str) -> list[int]:
    """What each round takes at its most, beyond what was taken when it began."""
    numbers = np.random.default_rng(1)
    prompt = [*WORDS.bos, *numbers.integers(2, WORDS.n_vocab, LONG).tolist()]
    taken: list[int] = []
    begun = 0

    def seen(_: Round) -> None:
        nonlocal begun
        if not tracemalloc.is_tracing():
            tracemalloc.start()  # not before: reading the prompt would take long
        now, most = tracemalloc.get_traced_memory()
        taken.append(most - begun)
        tracemalloc.reset_peak()
        begun = now

    knobs = Knobs(drafter=name, policy="fixed", draft_max=4, p_min=0.0, predict=60, seed=1)
    try:
        decode(toy(WORDS.n_vocab), prompt, knobs, drafter, seen=seen)  # type: ignore[arg-type]
    finally:
        tracemalloc.stop()
    return taken[3:]  # the first rounds compare all of the text


def nearly_most(taken: list[int]) -> float:
    """Lists that grow are moved now and then, which is no round's."""
    assert len(taken) > 10
    return quantiles(taken, n=10)[7]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: None, "off"),
        (lambda: None, "suffix"),
        (lambda: ModelDrafter(toy(WORDS.n_vocab, 0.5), WORDS.n_vocab), "model"),
        (lambda: ModelDrafter(toy(WORDS.n_vocab, 0.5), WORDS.n_vocab), "auto"),
        (lambda: mapped(IntersectionDrafter, LONGER), "model"),
        (lambda: mapped(RetokenisingDrafter, OTHERS), "model"),
    ],
)
def test_a_round_copies_nothing_of_the_text(make, name: str):
    assert nearly_most(bytes_of_rounds(make(), name)) < 4 * LONG


def test_nor_does_one_that_drafts_ahead(ahead: Callable[[ToyModel], DraftModel]):
    assert nearly_most(bytes_of_rounds(ahead(toy(WORDS.n_vocab, 0.5)), "model")) < 4 * LONG


def test_a_copy_would_be_seen():
    """What is measured above is no accident of the toys."""

    class Copying(ModelDrafter):
        def propose(self, tokens, knobs):
            return super().propose(list(tokens), knobs)

    assert nearly_most(bytes_of_rounds(Copying(toy(WORDS.n_vocab, 0.5), WORDS.n_vocab), "model")) > 8 * LONG


def test_a_drafted_text_is_the_list_as_it_was_and_what_is_behind_it():
    tokens = [1, 2, 3, 4]
    text = DraftedText(DraftedText(tokens, [5]), (6, 7))
    tokens.append(99)
    text.append(8)
    assert list(text) == [1, 2, 3, 4, 5, 6, 7, 8] and len(text) == 8
    whole = list(text)
    for start in range(-9, 10):
        for stop in range(-9, 10):
            assert text[start:stop] == whole[start:stop]
        assert text[start:] == whole[start:]
    assert [text[at] for at in range(-8, 8)] == [*whole, *whole]
    with pytest.raises(IndexError):
        text[8]
    assert text.common([1, 2, 3, 4, 5, 9]) == 5
    assert text.common(tokens) == 4
    assert text.common(DraftedText(tokens)) == 4


def test_a_common_prefix_is_that_of_comparing_all():
    """Of a cache that follows a growing text with drafts behind it, and of other texts in between."""
    numbers = np.random.default_rng(2)
    prefix, cached, text = CommonPrefix(), [1, 2, 3], [1, 2, 3, 4]

    def expected(seen: DraftedText) -> int:
        pairs = zip(cached, seen, strict=False)
        return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(cached), len(seen)))

    for _ in range(3000):
        drafted = numbers.integers(0, 3, numbers.integers(0, 4)).tolist()
        seen = DraftedText(text, drafted)
        found = prefix.of(cached, seen)
        assert found == expected(seen)
        del cached[int(numbers.integers(max(0, found - 2), found + 1)) :]
        if numbers.random() < 0.05:
            cached.clear()
        cached += seen[len(cached) :]
        cached += numbers.integers(0, 3, numbers.integers(0, 4)).tolist()
        text += numbers.integers(0, 3, numbers.integers(0, 4)).tolist()
        if numbers.random() < 0.05:
            text = [*text[: int(numbers.integers(1, len(text) + 1))], 1]


class Counted(list[int]):
    """A text that counts the tokens that are looked at."""

    looks = 0

    def __getitem__(self, at):
        self.looks += len(range(*at.indices(len(self)))) if isinstance(at, slice) else 1
        return super().__getitem__(at)


def test_of_a_text_that_the_draft_was_not_let_read_only_new_tokens_are_looked_at():
    drafter, text = ModelDrafter(toy(WORDS.n_vocab), WORDS.n_vocab + 1), Counted([2] * LONG)
    assert drafter.lag(text) == LONG
    text.looks = 0
    text.append(3)
    assert drafter.lag(text) == drafter.lag(DraftedText(text, [WORDS.n_vocab])) == LONG + 1
    text += [WORDS.n_vocab, 2]
    assert drafter.lag(text) == drafter.lag(text) == LONG + 1, "behind a token that it lacks it drafts nothing"
    assert text.looks < 10
    assert drafter.lag(Counted([2, WORDS.n_vocab])) == 1, "another text is looked at anew"
