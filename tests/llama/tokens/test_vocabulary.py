"""A draft of another vocabulary is refused with a sentence that says what differs, by the list of models as by loading, and
its texts are loaded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectui.gguf_files.check import same_vocabulary
from spectui.gguf_files.compatibility import match
from spectui.gguf_files.header import read_header
from spectui.llama.model import Model
from spectui.llama.tokens.vocabulary import VocabularyError, check_vocabularies
from tests.llama.ggufs import SPM, write_model


@pytest.fixture
def made() -> Iterator[list[Model]]:
    """Models that a test has opened, to be closed."""
    opened: list[Model] = []
    yield opened
    for model in opened:
        model.close()


def test_each_end_token_of_the_file_ends_a_reply(tmp_path: Path, made: list[Model]):
    """GLM's second one stands in a key of Ollama's alone."""
    path = write_model(tmp_path / "glm.gguf", keys=lambda w: w.add_array("tokenizer.ggml.eos_token_ids", [2, 9]))
    made.append(model := Model(str(path)))
    assert [token for token in range(20) if model.is_end(token)] == [2, 4, 9]


BYTES = range(20, 276)
"""The tokens of the bytes."""


def padded(more: int, unused: int = 0, **changes: str) -> dict[str, Any]:
    """A vocabulary of 300 + `more` tokens, the last of them `unused`; `changes` renames, as `t7="x"`."""
    tokens = [changes.get(f"t{n}", f"t{n}" if n not in BYTES else f"<0x{n - 20:02X}>") for n in range(300 + more)]
    return {"tokens": tokens, "types": [1] * (len(tokens) - unused) + [5] * unused}


@pytest.mark.parametrize(
    ("target", "draft", "says"),
    [
        (padded(0), padded(128), ""),
        (padded(0), padded(129), "it has 429 tokens and the target 300"),
        (padded(0), padded(0, t4="x"), ""),
        (padded(0), padded(0, t5="x"), "some of its tokens differ from the target's"),
        (padded(50), padded(0, t200="x"), "some of its tokens differ from the target's"),
        (padded(0), padded(0) | {"add_bos": True, "numbers": {"tokenizer.ggml.bos_token_id": 7}}, ""),
        (padded(0), padded(0) | {"tokenizer": SPM}, "its tokenizer is SPM and the target's is BPE"),
        (padded(2), padded(0), "it lacks the target's token 300 and 1 more"),
        (padded(1), padded(0), "it lacks the target's token 300"),
        (padded(100, 1), padded(0), "it lacks the target's token 300 and 98 more"),
        (padded(100, 100), padded(0), ""),
        (padded(128, 200), padded(0), ""),
    ],
)
def test_what_differs_is_named(tmp_path: Path, made: list[Model], target: Any, draft: Any, says: str):
    files = write_model(tmp_path / "target.gguf", **target), write_model(tmp_path / "draft.gguf", **draft)
    made += [Model(str(file), role, extra_buffers=False) for file, role in zip(files, ("target", "draft"), strict=True)]
    try:
        check_vocabularies(*made)
        said = ""
    except VocabularyError as error:
        said = str(error)
    assert said == (f"The draft has another vocabulary than the target: {says}." if says else "")
    assert (same_vocabulary(*map(str, files)) is None) == bool(says)
    listed = match(*map(read_header, files))
    assert listed.how == ("translated" if says else "same")
    assert says in listed.reason
