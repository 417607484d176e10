"""The bounds of llama.cpp, and the version that they are of."""

import re
from pathlib import Path

import pytest

from spectui import pin
from spectui.gguf_files.check import metadata_of
from spectui.gguf_files.judgement import judge, read_file
from tests.generators.pin import in_source, installed
from tests.gguf_files.test_judgement import file_of, split
from tests.helpers.peers import NOT_THERE, SOURCE


def test_they_are_those_of_the_pinned_version() -> None:
    """Moves the pin? Make `pin.py` anew: python -m tests.generators.pin DIR."""
    pinned = re.search(r'"llama-cpp-python==([\d.]+)"', Path("pyproject.toml").read_text())
    assert pinned is not None and pinned[1] == pin.LLAMA_CPP_PYTHON
    assert installed() == {name: getattr(pin, name) for name in ("LLAMA_CPP_PYTHON", "LLAMA", "GGML")}


@pytest.mark.skipif(not (SOURCE / "src").is_dir(), reason=NOT_THERE)
def test_they_are_those_of_the_source() -> None:
    found = in_source(SOURCE)
    assert found == {name: getattr(pin, name) for name in found}


def test_the_embedding_of_a_split_model_is_found_in_any_part(tmp_path: Path) -> None:
    parts = split(tmp_path, parts=2, tensors=(0, 2))
    assert metadata_of(str(parts[0])).tensors.tied == 0
    keys = {"general.architecture": "llama", "split.no": 1, "split.count": 2, "split.tensors.count": 2}
    file_of(parts[1], keys, ["blk.0.a", "token_embd.weight"])
    assert judge(parts[0], read_file).problem == "" and metadata_of(str(parts[0])).tensors.tied > 0
    file_of(parts[1], keys, ["output.weight", "token_embd.weight"])
    assert metadata_of(str(parts[0])).tensors.tied == 0
