"""A draft of another vocabulary is refused with a sentence that names the first token that differs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import pytest

from spectui.gguf_files.compatibility import match
from spectui.gguf_files.header import read_header
from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.llama.tokens.vocabulary import VocabularyError, check_vocabularies
from tests.helpers.smollm2 import setup
from tests.llama.ggufs import vocabulary_of, write_model


@pytest.fixture(scope="module")
def smol() -> Iterator[Model]:
    model = Model(setup().model or "", extra_buffers=False)
    yield model
    model.close()


def refusal(target: Model, path: Path) -> str | None:
    """The sentence that this draft is refused with, None if it is taken."""
    draft = Model(str(path), "draft", extra_buffers=False)
    try:
        check_vocabularies(target, draft)
    except VocabularyError as error:
        return str(error)
    finally:
        draft.close()
    return None


def test_each_end_token_of_the_file_ends_a_reply(tmp_path: Path):
    """GLM's second one stands in a key of Ollama's alone."""
    path = write_model(tmp_path / "glm.gguf", keys=lambda w: w.add_array("tokenizer.ggml.eos_token_ids", [2, 9]))
    model = Model(str(path))
    assert [token for token in range(20) if model.is_end(token)] == [2, 4, 9]
    model.close()


def test_smollm2s_models_draft_for_each_other(smol: Model):
    assert refusal(smol, Path(setup().draft or "")) is None


def test_the_first_token_that_differs_is_named(smol: Model, tmp_path: Path):
    words = vocabulary_of(setup().model or "")
    tokens = list(words["tokens"])
    old, tokens[12345], tokens[40000] = tokens[12345], "zwölf\x1b", "später\x1b"
    message = refusal(smol, write_model(tmp_path / "renamed.gguf", **{**words, "tokens": tokens}))
    assert message == (
        f"The draft has another vocabulary than the target: token 12345 is 'zwölf\\x1b' in the draft and {old!r} in the target."
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    model = Model(str(write_model(tmp_path_factory.mktemp("small") / "small.gguf", **padded(0))), extra_buffers=False)
    yield model
    model.close()


BYTES = range(20, 276)
"""The tokens of the bytes."""


def padded(more: int, unused: int = 0, **changes: str) -> dict[str, Any]:
    """A vocabulary of 300 + `more` tokens, the last of them `unused`; `changes` renames, as `t7="x"`."""
    tokens = [changes.get(f"t{n}", f"t{n}" if n not in BYTES else f"<0x{n - 20:02X}>") for n in range(300 + more)]
    return {"tokens": tokens, "types": [1] * (len(tokens) - unused) + [5] * unused}


@pytest.mark.parametrize(
    ("more", "unused", "lacks"),
    [(2, 0, "token 300 and 1 more"), (1, 0, "token 300"), (100, 1, "token 300 and 98 more"), (100, 100, ""), (128, 200, "")],
)
def test_the_draft_may_lack_padding_but_no_token_that_the_target_uses(
    small: Model, tmp_path: Path, more: int, unused: int, lacks: str
):
    path = write_model(tmp_path / "target.gguf", **padded(more, unused))
    target = Model(str(path), extra_buffers=False)
    message = refusal(target, Path(small.path))
    listed = match(read_header(path), read_header(Path(small.path)))
    target.close()
    assert message == (f"The draft has another vocabulary than the target: it lacks the target's {lacks}." if lacks else None)
    assert listed.how == ("translated" if lacks else "same")


def unset(*names: str) -> Callable[[gguf.GGUFWriter], None]:
    """Leaves keys of the tokenizer out of the file."""

    def change(writer: gguf.GGUFWriter) -> None:
        for name in names:
            del writer.kv_data[0][f"tokenizer.ggml.{name}"]

    return change


def set_to(**values: Any) -> Callable[[gguf.GGUFWriter], None]:
    """Gives keys of the tokenizer another value, and leaves out whether a text begins with BOS."""

    def change(writer: gguf.GGUFWriter) -> None:
        unset("add_bos_token")(writer)
        for name, value in values.items():
            writer.kv_data[0][f"tokenizer.ggml.{name}"].value = value
        if values.get("model") == "llama":
            writer.add_token_scores([0.0] * 300)

    return change


SPM = {"types": [2] + [1] * 299, "keys": set_to(model="llama")}


@pytest.mark.parametrize(
    ("draft", "says"),
    [
        (padded(128), ""),
        (padded(129), "it has 429 tokens and the target 300."),
        (padded(200, t9="x"), "it has 500 tokens and the target 300; token 9 is 'x' in the draft and 't9' in the target."),
        (padded(0, t4="x"), ""),
        (padded(0, t5="x"), "token 5 is 'x' in the draft and 't5' in the target."),
        (
            padded(0) | {"add_bos": True, "numbers": {"tokenizer.ggml.bos_token_id": 7}},
            "it begins a text with token 7 and the target with none.",
        ),
        (
            padded(0, t8="▁x") | SPM,
            "its tokenizer is SPM and the target's is BPE; token 8 is '▁x' in the draft and 't8' in the target.",
        ),
    ],
    ids=["padding", "too much", "and another token", "one of the first five", "another token", "another BOS", "another kind"],
)
def test_what_differs_is_named(small: Model, tmp_path: Path, draft: dict[str, Any], says: str):
    said = refusal(small, write_model(tmp_path / "draft.gguf", **draft))
    assert said == (f"The draft has another vocabulary than the target: {says}" if says else None)


@pytest.mark.parametrize(
    "draft",
    [
        padded(0),
        padded(-1),
        padded(0) | SPM,
        padded(0) | {"keys": set_to(pre="llama-bpe")},
        padded(0) | {"keys": set_to(pre="glm4")},
        padded(0) | {"keys": set_to(pre="tekken", bos_token_id=900)},
        padded(0) | {"keys": unset("add_bos_token", "bos_token_id", "eos_token_id")},
        padded(0) | {"add_bos": True, "keys": unset("bos_token_id")},
        padded(0) | {"add_bos": True, "numbers": {"tokenizer.ggml.bos_token_id": 9}},
        padded(0) | {"keys": lambda writer: writer.add_add_eos_token(True)},
    ],
    ids=["same", "fewer", "spm", "llama-bpe", "glm4", "tekken", "no keys", "usual bos", "bos", "eos"],
)
def test_the_file_says_what_llama_cpp_reads(tmp_path: Path, draft: dict[str, Any]):
    path = write_model(tmp_path / "draft.gguf", **draft)
    model, said = Model(str(path), "draft", extra_buffers=False), read_header(path).vocabulary
    try:
        begins = llama.llama_vocab_bos(model.vocab) if llama.llama_vocab_get_add_bos(model.vocab) else -1
        ends = llama.llama_vocab_eos(model.vocab) if llama.llama_vocab_get_add_eos(model.vocab) else -1
        assert said is not None
        assert (said.count, said.begins, said.ends) == (model.n_vocab, begins, ends)
    finally:
        model.close()
