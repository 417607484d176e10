"""No text ends the process: neither a long word with a tokenizer that uses regex, nor a character without a token."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from spectui.gguf_files.check import ModelFileError
from spectui.llama.model import Model
from spectui.llama.tokens.tokenizer import LONGEST_RUN, SHALLOW, TextError
from tests.llama.ggufs import write_model

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = ["<unk>", "<|im_start|>", "<|im_end|>", "▁", "a", "b", "ab", "▁ab", "ü"]


@contextmanager
def made(path: Path, kind: str, pre: str = "default", words: Sequence[str] | None = None) -> Iterator[Model]:
    """A model with a vocabulary of this kind: of bytes, or of these words."""
    types = [2, 3, 3, *(6 if word in BYTES else 1 for word in words[3:])] if words is not None else None
    with closing(Model(str(write_model(path, tokens=words, types=types, tokenizer=(kind, pre))), extra_buffers=False)) as model:
        yield model


@pytest.mark.parametrize("pre", ["gpt-4o", "deepseek-llm", "tekken"])
@pytest.mark.parametrize("sign", ["a", " ", "中"])
def test_a_word_that_would_overflow_the_usual_stack_is_tokenised(tmp_path: Path, pre: str, sign: str):
    """A thread's usual stack ends at about 20,000 characters, and the process with it."""
    with made(tmp_path / "model.gguf", "gpt2", pre) as model:
        tokens = model.tokenize(sign * LONGEST_RUN, special=True)
        assert b"".join(map(model.piece, tokens)).decode() == sign * LONGEST_RUN


@pytest.mark.parametrize("run", ["a" * (LONGEST_RUN + 1), "\n" * (LONGEST_RUN + 1), " \u3000" * LONGEST_RUN])
def test_a_word_that_would_overflow_any_stack_gets_a_sentence(tmp_path: Path, run: str):
    with made(tmp_path / "model.gguf", "gpt2", "gpt-4o") as model:
        with pytest.raises(TextError, match="characters in a row, with no space between them, are more than"):
            model.tokenize(run, special=True)
        assert model.tokenize("a " * LONGEST_RUN, special=True)


def test_a_long_text_is_the_tokens_of_its_parts(tmp_path: Path):
    with made(tmp_path / "model.gguf", "gpt2", "gpt-4o") as model:
        assert model.tokenize("word\n" * SHALLOW, special=True) == model.tokenize("word\n", special=True) * SHALLOW


def test_a_vocabulary_that_cannot_spell_each_character_is_refused(tmp_path: Path):
    """llama.cpp throws what no caller can catch at the first character that it lacks."""
    with made(tmp_path / "whole.gguf", "llama", words=[*WORDS, *BYTES]) as model:
        assert b"".join(map(model.piece, model.tokenize("è𝄞", special=False))) == " è𝄞".encode()
    with (
        pytest.raises(ModelFileError, match="has no tokens for some characters, over which"),
        made(tmp_path / "half.gguf", "llama", words=[*WORDS, *BYTES[:0x80]]),
    ):
        pass
