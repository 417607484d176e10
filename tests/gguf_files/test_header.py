"""Reading GGUF headers: the right values, within bounds, and which model may draft for which."""

import os
from pathlib import Path
from typing import Any

import pytest

from spectui.gguf_files.compatibility import drafts_for, match
from spectui.gguf_files.header import Cancelled, read_header
from spectui.gguf_files.parts import is_later_part
from tests.llama.ggufs import WORDS, byte_names, write_model

NAMES = [*WORDS, *byte_names()]


def words(count: int) -> dict[str, Any]:
    """A vocabulary of `count` tokens. Texts use the first 580, and the others are padding."""
    tokens = [*NAMES, *(f"word{number}" for number in range(count - len(NAMES)))]
    return {"tokens": tokens, "types": [1 if number < 580 else 5 for number in range(count)]}


def test_a_header_says_what_the_model_is(tmp_path: Path):
    path = write_model(tmp_path / "Some-1B-Q8_0.gguf", numbers={"general.file_type": 7}, strings={"general.size_label": "1B"})
    found = read_header(path)
    assert (found.name, found.path, found.size) == ("Some-1B-Q8_0", str(path), path.stat().st_size)
    assert (found.architecture, found.quantisation, found.parameters, found.n_ctx_train) == ("llama", "Q8_0", "1B", 512)
    assert found.vocabulary is not None and (found.vocabulary.kind, found.vocabulary.count) == ("BPE", len(NAMES))
    assert found.problem == ""


def test_a_pipe_does_not_block(tmp_path: Path):
    os.mkfifo(tmp_path / "model.gguf")
    assert read_header(tmp_path / "model.gguf").problem == "is not a file: name one that ends in .gguf"


def test_reading_can_be_cancelled(tmp_path: Path):
    path = write_model(tmp_path / "model.gguf", **words(4000))
    with pytest.raises(Cancelled):
        read_header(path, lambda: True)


def test_files_with_the_names_of_parts_are_one(tmp_path: Path):
    """Also where no key says that the model was split."""
    first = write_model(tmp_path / "big-00001-of-00002.gguf")
    assert read_header(first).problem == "lacks part 2 of 2, or that is damaged: download it"
    (tmp_path / "big-00002-of-00002.gguf").write_bytes(b"x" * 1000)
    found = read_header(first)
    assert (found.name, found.size, found.problem) == ("big", first.stat().st_size + 1000, "")
    assert is_later_part("big-00002-of-00002.gguf")
    assert not is_later_part(first.name)


def test_a_model_that_cannot_draft_has_a_reason(tmp_path: Path):
    target = read_header(write_model(tmp_path / "target.gguf"))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"")
    assert match(target, target).reason == "is the target itself"
    assert match(target, read_header(broken)).reason.startswith("is damaged")
    assert {match(target, draft).how for draft in (target, read_header(broken))} == {"never"}


def test_the_best_drafts_come_first(tmp_path: Path):
    sizes = {"target": 700, "small": 600, "tiny": 580, "other": 300}
    found = [read_header(write_model(tmp_path / f"{name}.gguf", **words(count))) for name, count in sizes.items()]
    assert [draft.name for draft in drafts_for(found[0], found)] == ["tiny", "small", "other"]
