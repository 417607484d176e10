"""Drafts of another vocabulary: the text is plain decoding's, most of what they know is accepted, no cell is wasted."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.knobs import Knobs
from spectui.speculation.drafters.cross_vocabulary.contexts import RetokenisedContext
from spectui.speculation.drafters.cross_vocabulary.drafters import (
    IntersectionDrafter,
    RetokenisingDrafter,
    TranslationError,
    translating_drafter,
)
from spectui.speculation.drafters.cross_vocabulary.vocabulary_map import VocabularyMap, usable, whole_characters
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics
from tests.helpers.words import Reciter, ToyWords
from tests.toys import END, ToyModel, decode, emitted

TARGET = ToyWords(["ab", "abc", " a", " ab", "\n ", "ca", "éa", "cé", " b", "bca", "é"], opening=True)
DRAFT = ToyWords(["abca", "aé", "ca", " c", "  ", "\n", "abc", " ab", "bb", "cab", "é é"], end="<stop>")
LONGER = ToyWords(["ab", "abc", " a", " ab", "\n ", "ca", "éa", "cé", " b", "é", "abca"], end="<stop>", opening=True)
TEXT = "abc abca bca é\n  abab cab éa cé cabca\n abc abab é écab " * 12
PROMPT = TEXT[:40]

fixed = partial(Knobs, policy="fixed", drafter="model", p_min=0.0)
kinds = pytest.mark.parametrize(("kind", "words"), [(IntersectionDrafter, LONGER), (RetokenisingDrafter, DRAFT)])
samplers = st.builds(
    fixed,
    temperature=st.sampled_from([0.0, 0.8, 1.5]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, 0.7]),
    seed=st.integers(0, 2**32 - 1),
    predict=st.integers(1, 40),
)


def toy(words: ToyWords, seed: int) -> ToyModel:
    return ToyModel(seed, n_vocab=words.n_vocab, n_ctx=256)


def prompt_of(text: str) -> list[int]:
    return [*TARGET.bos, *TARGET.tokenize(text)]


def reply(kind, words: ToyWords, knobs: Knobs, certainty: float = 30.0) -> tuple[list[Round], list[Round], Reciter]:
    """(plain rounds, drafted rounds, the draft)"""
    _, plain, _ = decode(Reciter(TARGET, TEXT), prompt_of(PROMPT), replace(knobs, drafter="off"))
    model = Reciter(words, TEXT, seed=9, certainty=certainty)
    drafter = kind(model, VocabularyMap(TARGET, words))
    _, rounds, notices = decode(Reciter(TARGET, TEXT), prompt_of(PROMPT), knobs, drafter)
    assert notices == []
    return plain, rounds, model


@kinds
@settings(max_examples=20)
@given(
    sampler=samplers,
    drafts=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.4])), min_size=1, max_size=9),
    prompt=st.lists(st.integers(1, TARGET.n_vocab - 1), min_size=1, max_size=30),
    seed=st.integers(0, 30),
    drafter=st.sampled_from(["model", "auto"]),
)
def test_text_is_plain_decodings_whatever_the_draft(kind, words, sampler, drafts, prompt, seed, drafter):
    _, plain, _ = decode(toy(TARGET, seed), prompt, replace(sampler, drafter="off"))
    knobs = [replace(sampler, drafter=drafter, draft_max=most, p_min=p) for most, p in drafts]
    strategy = Strategy(kind(toy(words, seed + 1), VocabularyMap(TARGET, words)), CostModel())
    for _ in range(2):  # the second reply begins with a draft that has cells of the first
        _, rounds, notices = decode(toy(TARGET, seed), prompt, knobs, strategy=strategy)
        assert emitted(rounds) == emitted(plain)
        assert notices == []


@kinds
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_the_draft_knows_is_accepted(kind, words, temperature):
    knobs = fixed(temperature=temperature, seed=3, draft_max=6, predict=150)
    plain, rounds, _ = reply(kind, words, knobs)
    assert emitted(rounds) == emitted(plain)
    assert TEXT.encode().startswith(PROMPT.encode() + TARGET.text(emitted(plain)))
    statistics = Statistics.of(rounds)
    assert statistics.acceptance > 0.8
    assert statistics.tokens_per_pass > 5.5


@kinds
def test_shared_tokens_meet_the_same_noise(kind, words):
    """Drafting with another seed is as good as sampling twice; the coupled choice is far better."""
    knobs = fixed(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=3, draft_max=3, predict=200)
    drafter = kind(toy(TARGET, 1), VocabularyMap(TARGET, TARGET))
    _, rounds, _ = decode(toy(TARGET, 1), prompt_of(PROMPT), knobs, drafter)

    class Uncoupled(kind):
        def propose(self, tokens, knobs):
            return super().propose(tokens, replace(knobs, seed=77))

    other = Uncoupled(toy(TARGET, 1), VocabularyMap(TARGET, TARGET))
    _, uncoupled, _ = decode(toy(TARGET, 1), prompt_of(PROMPT), knobs, other)
    assert emitted(rounds) == emitted(uncoupled)
    assert Statistics.of(rounds).acceptance > 0.5 > 2 * Statistics.of(uncoupled).acceptance


@kinds
def test_cells_of_accepted_tokens_are_kept(kind, words):
    _, rounds, model = reply(kind, words, fixed(temperature=0.0, draft_max=6, predict=300))
    prompt_passes = -(-len(words.tokenize(PROMPT)) // model.chunk)
    # A round begins with the one or two tokens that the target added, and what they merge with.
    assert max(model.passes[prompt_passes:]) <= 6
    drafted = sum(len(round.drafted) for round in rounds)
    assert drafted > 250
    assert model.evaluated < len(PROMPT) + 1.4 * drafted


@kinds
def test_a_full_or_failing_draft_only_ends_the_drafting(kind, words):
    knobs = fixed(temperature=0.0, draft_max=4, predict=60)
    _, plain, _ = decode(Reciter(TARGET, TEXT), prompt_of(PROMPT), knobs)
    for fails_after, n_ctx in ((None, 50), (12, 4096)):
        model = Reciter(words, TEXT)
        model.n_ctx, model.fails_after = n_ctx, fails_after
        drafter = kind(model, VocabularyMap(TARGET, words))
        _, rounds, notices = decode(Reciter(TARGET, TEXT), prompt_of(PROMPT), knobs, drafter)
        assert emitted(rounds) == emitted(plain)
        assert rounds[0].drafted
        assert not rounds[-1].drafted
        assert len(notices) == (fails_after is not None)


@given(st.lists(st.integers(0, TARGET.n_vocab - 1), max_size=60), st.data())
def test_the_draft_reads_the_targets_text(tokens, data):
    context = RetokenisedContext(VocabularyMap(TARGET, DRAFT))
    seen: list[int] = []
    for _ in range(4):  # grows and is cut back, as drafts of the suffix match are
        cut, more = (data.draw(st.integers(0, len(seen))), data.draw(st.lists(st.sampled_from([*tokens, 5]), max_size=30)))
        seen = seen[:cut] + more
        context.follow(seen)
    read = context.follow(tokens)
    assert DRAFT.text(read) == TARGET.text(tokens)
    note = [token for token in tokens if token == 1]
    assert [token for token in read if token == 1] == note
    assert END not in read  # <end> is not <stop>


def test_only_the_first_bos_becomes_the_drafts_own():
    """A text may hold the token again, such as one per turn: that one is the draft's token of the same name."""
    context = RetokenisedContext(VocabularyMap(TARGET, LONGER))
    tokens = [*TARGET.bos, *TARGET.tokenize("ab"), *TARGET.bos, *TARGET.tokenize("c")]
    read = context.follow(tokens)
    assert read[0] == LONGER.bos[0] and read.count(LONGER.bos[0]) == 2
    assert context.follow(tokens[:2]) == read[:2]


@given(st.text(alphabet="abc é\n", max_size=80), st.lists(st.integers(1, 9), max_size=30))
def test_a_short_look_back_spells_nearly_what_the_whole_text_would(text, steps):
    context, tokens = RetokenisedContext(VocabularyMap(TARGET, DRAFT)), TARGET.tokenize(text)
    at = 0
    for step in steps:
        at += step
        context.follow(tokens[:at])
    whole = DRAFT.tokenize(text)
    assert abs(len(context.follow(tokens)) - len(whole)) <= 0.25 * len(whole) + 1


def test_shared_tokens_are_matched_by_bytes_and_names():
    vocabularies = VocabularyMap(TARGET, DRAFT)
    assert VocabularyMap(TARGET, TARGET).shared_fraction == 1.0
    assert vocabularies.shared_fraction < 0.9 < VocabularyMap(TARGET, LONGER).shared_fraction
    assert vocabularies.to_draft[TARGET.pieces.index(b"abc")] == DRAFT.pieces.index(b"abc")
    assert vocabularies.to_draft[1] == 1
    assert END not in vocabularies.to_draft


def test_the_right_drafter_is_chosen_and_said():
    drafter, sentence = translating_drafter(toy(LONGER, 1), TARGET, LONGER)
    assert isinstance(drafter, IntersectionDrafter)
    assert "drafts among those" in sentence
    drafter, sentence = translating_drafter(toy(DRAFT, 1), TARGET, DRAFT)
    assert isinstance(drafter, RetokenisingDrafter)
    assert "drafts by text" in sentence


class Shouting(ToyWords):
    """A tokenizer that does not keep the text, as those of some encoders."""

    def tokenize(self, text: str) -> list[int]:
        return super().tokenize(text.replace(" ", ""))


def test_a_tokenizer_that_loses_text_is_refused():
    careless = Shouting(["ab", "abc", "aab", "bbb", "ccc", "cba"])
    assert usable(TARGET)
    assert not usable(careless)
    for target, draft in ((TARGET, careless), (careless, DRAFT)):
        with pytest.raises(TranslationError, match="tokenizer"):
            translating_drafter(toy(draft, 1), target, draft)


@given(st.text(), st.integers(0, 4))
def test_whole_characters(text, cut):
    data = text.encode()
    data = data[: max(0, len(data) - cut)]
    whole = whole_characters(data)
    assert data[:whole].decode() == data.decode("utf-8", "ignore")
