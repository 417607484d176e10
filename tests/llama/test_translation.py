"""Drafts of other vocabularies in llama.cpp, for SmolLM2 as the target: the text stays plain decoding's."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import gguf
import pytest

from spectui.engine.loading.models import drafter_for
from spectui.gguf_files.random_model import write_tiny_model
from spectui.knobs import Knobs
from spectui.llama.context import Context
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.llama.tokens.vocabulary import TokenBytes, VocabularyError
from spectui.speculation.decoder import Decoder
from spectui.speculation.drafters.cross_vocabulary.drafters import IntersectionDrafter, RetokenisingDrafter
from spectui.speculation.drafters.cross_vocabulary.vocabulary_map import VocabularyMap, usable
from spectui.speculation.drafters.model import ModelDrafter
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.strategy import Strategy
from spectui.speculation.statistics import Statistics
from tests.helpers.smollm2 import SNAKE, setup
from tests.llama.ggufs import vocabulary_of, write_model
from tests.toys import ToyHooks

PROMPT = f"<|im_start|>user\n{SNAKE}<|im_end|>\n<|im_start|>assistant\n"
SAMPLES = ["x", " x", "\n  y = 1\n", "naïve 日本語 👋🏽", "<|im_end|>", "    if a:\n\n\n\t\treturn"]


@contextmanager
def memory(model: Model, rows: int = 1) -> Iterator[Context]:
    context = Context(model, Interrupt(), n_ctx=512, rows=rows, ubatch=32, threads=1)
    yield context
    context.close()


@pytest.fixture(scope="module")
def target() -> Iterator[Model]:
    model = Model(setup().model or "", extra_buffers=False)
    yield model
    model.close()


def reply(target: Model, knobs: Knobs, drafter=None) -> tuple[list[int], Statistics]:
    """(the reply's tokens, its statistics)"""
    with memory(target, rows=17) as context:
        prompt = target.tokenize(PROMPT, special=True)
        hooks = ToyHooks()
        hooks.is_end = target.is_end  # type: ignore[method-assign]
        decoder = Decoder(context, Strategy(drafter, CostModel()), hooks)
        decoder.prompt(prompt)
        statistics = Statistics.of(decoder.rounds(lambda: knobs))
        return decoder.tokens[len(prompt) :], statistics


def test_pieces_are_the_models_and_tokenise_to_themselves(target: Model):
    words = TokenBytes(target)
    assert all(words.pieces[token] == target.piece(token) for token in range(0, target.n_vocab, 97))
    assert target.token_text(words.ends[0]) == "<|im_end|>" == words.names[words.ends[0]]
    assert words.bos == []
    for text in SAMPLES:
        assert b"".join(words.pieces[token] for token in words.tokenize(text)) == text.encode()


def test_a_space_that_the_tokenizer_adds_is_left_out(tmp_path: Path):
    def unigram(writer: gguf.GGUFWriter) -> None:
        writer.kv_data[0]["tokenizer.ggml.model"].value = "llama"
        writer.kv_data[0]["tokenizer.ggml.add_bos_token"].value = True
        writer.add_token_scores([0.0] * len(tokens))

    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "x", "▁x"]
    types = [2, 3, 3, *[6] * 256, 1, 1, 1]
    model = Model(str(write_model(tmp_path / "a.gguf", tokens=tokens, types=types, keys=unigram)), extra_buffers=False)
    words = TokenBytes(model)
    assert model.piece(model.tokenize("x", special=False)[0]) == b" x"
    for text in SAMPLES:
        assert b"".join(words.pieces[token] for token in words.tokenize(text)) == text.encode()
    assert usable(words)
    assert words.bos == [1]
    model.close()


@pytest.fixture(scope="module")
def draft_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with SmolLM2's vocabulary: backwards, or without most of its words."""
    return write_model(tmp_path_factory.mktemp("draft") / "draft.gguf", **other_vocabulary(request.param))


def other_vocabulary(kind: str) -> dict[str, list]:
    words = vocabulary_of(setup().model or "")
    pairs = list(zip(words["tokens"], words["types"], strict=True))
    if kind == "backwards":
        pairs = pairs[:17] + pairs[:16:-1]
        merges = words["merges"]
    else:
        pairs, merges = pairs[:6000], words["merges"][: 6000 - 17 - 256]
    return {"tokens": [name for name, _ in pairs], "types": [type for _, type in pairs], "merges": merges}


@pytest.mark.parametrize(
    ("draft_file", "drafter_type"),
    [("backwards", IntersectionDrafter), ("small", RetokenisingDrafter)],
    indirect=["draft_file"],
)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_text_is_plain_decodings(target: Model, draft_file: Path, drafter_type, temperature: float):
    knobs = Knobs(policy="fixed", drafter="off", temperature=temperature, seed=7, predict=24, draft_max=5, p_min=0.0)
    plain, _ = reply(target, knobs)
    draft = Model(str(draft_file), "draft", extra_buffers=False)
    with memory(draft) as context:
        drafter, sentence = drafter_for(target, draft, context)
        assert isinstance(drafter, drafter_type)
        assert "another vocabulary" in sentence
        text, statistics = reply(target, replace(knobs, drafter="model"), drafter)
    draft.close()
    assert text == plain
    assert statistics.drafted > 20


def test_drafting_by_text_accepts_what_drafting_by_token_does(target: Model):
    knobs = Knobs(policy="fixed", drafter="model", temperature=0.0, predict=32, draft_max=4, p_min=0.0)
    draft = Model(setup().draft or "", "draft", extra_buffers=False)
    with memory(draft) as one, memory(draft) as other:
        by_token, sentence = drafter_for(target, draft, one)
        assert isinstance(by_token, ModelDrafter)
        assert sentence == ""
        by_text = RetokenisingDrafter(other, VocabularyMap(TokenBytes(target), TokenBytes(draft)))
        expected, like_this = reply(target, knobs, by_token)
        text, like_that = reply(target, knobs, by_text)
    draft.close()
    assert text == expected
    assert like_that.tokens_per_pass > 0.9 * like_this.tokens_per_pass > 1.5


def test_a_model_without_text_is_refused(target: Model, tmp_path: Path):
    write_tiny_model(tmp_path / "tiny.gguf")
    draft = Model(str(tmp_path / "tiny.gguf"), "draft", extra_buffers=False)
    with memory(draft) as context, pytest.raises(VocabularyError, match="it has none of text"):
        drafter_for(target, draft, context)
    draft.close()
