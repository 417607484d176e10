"""A wrong model file gives one sentence that says what is wrong, whether spectui's check finds it or llama.cpp."""

import os
import re
import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spectui.engine.demo import default_setup
from spectui.gguf_files import metadata
from spectui.gguf_files.check import ModelFileError, check_file, metadata_of, recommended_sampling, same_vocabulary
from spectui.gguf_files.header import read_header
from spectui.knobs import Setup
from spectui.llama import selftest
from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.text import safe
from tests.helpers.unprivileged import unprivileged
from tests.llama.ggufs import WORDS, byte_names, write_model


def refused(path: Path, role: str = "target") -> str:
    """The sentence of the refusal."""
    with pytest.raises(ModelFileError) as caught:
        Model(str(path), role, extra_buffers=selftest.run().extra_buffers)
    message = str(caught.value)
    assert message == safe(message)
    assert "\n" not in message
    assert message.endswith(".")
    return message


@pytest.fixture(scope="module")
def whole() -> bytes:
    """SmolLM2's file."""
    return Path(default_setup(Setup()).model or "").read_bytes()


def test_a_good_file_is_returned_with_the_home_directory_put_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = write_model(tmp_path / "model.gguf")
    path.write_bytes(path.read_bytes() + b"more, behind the weights")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert check_file("~/model.gguf", "target") == tmp_path / "model.gguf"
    Model("~/model.gguf", extra_buffers=False).close()


def test_a_draft_without_texts_has_as_many_tokens(tmp_path: Path):
    target = write_model(tmp_path / "target.gguf")
    tokens = [*WORDS, *byte_names(), "padding"]
    draft = write_model(tmp_path / "draft.gguf", tokens=tokens)
    plain = Model(str(draft), "draft", extra_buffers=False)
    textless = Model(str(draft), "draft", extra_buffers=False, same_vocabulary=same_vocabulary(str(target), str(draft)))
    assert textless.textless and textless.same_vocabulary and textless.n_vocab == plain.n_vocab == len(tokens)
    assert [llama.llama_vocab_type(each.vocab) for each in (plain, textless)] == [2, 0], "BPE, none"
    for each in (plain, textless):
        each.close()
    other = write_model(tmp_path / "other.gguf", architecture="qwen2")
    assert same_vocabulary(str(target), str(other)) is not None
    assert same_vocabulary(str(target), str(tmp_path / "none.gguf")) is None


def test_what_is_no_file_is_refused(tmp_path: Path):
    missing, pipe, endless = (tmp_path / name for name in ("no.gguf", "pipe.gguf", "endless.gguf"))
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    assert refused(missing, "draft") == f"There is no draft model {str(missing)!r}: check the path."
    assert refused(tmp_path).endswith("is a directory: name the .gguf file in it.")
    for file in (pipe, endless):
        assert refused(file).endswith("is not a file: name one that ends in .gguf.")
    for name in ("a\0b.gguf", "x" * 5000):  # no file can have it
        assert "cannot be read" in refused(Path(name))


def test_a_name_that_is_not_utf_8(tmp_path: Path):
    path = write_model(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.gguf")))
    Model(str(path), extra_buffers=False).close()


def test_a_file_that_may_not_be_read(tmp_path: Path):
    path = write_model(tmp_path / "secret.gguf")
    path.chmod(0)
    with unprivileged():
        assert "cannot be read: Permission denied" in refused(path)


# in the header, a key, the list of tokens, the list of tensors, the weights, and one byte before the end
@pytest.mark.parametrize("length", [24, 30, 100, 5_000, 1_000_000, 1_760_000, 2_000_000, 50_000_000, -1])
def test_cut_short_anywhere(tmp_path: Path, whole: bytes, length: int):
    path = tmp_path / "model.gguf"
    path.write_bytes(whole[:length])
    assert refused(path) == f"The target model {str(path)!r} is damaged or cut short: download it again."


def test_weights_that_are_missing(tmp_path: Path):
    path = write_model(tmp_path / "model.gguf", architecture="qwen3")  # it wants norms that a llama has not
    assert re.search(r"does not hold what its header says \(.*not found\): choose another file", refused(path))


def test_an_unknown_architecture(tmp_path: Path):
    path = write_model(tmp_path / "model.gguf", architecture="\x1b]0;owned\x07")
    assert "is of an architecture that this llama.cpp does not know" in refused(path)


@pytest.mark.parametrize("key", ["tokenizer.ggml.pre", "tokenizer.ggml.model"])
def test_what_llama_cpp_quotes_from_the_file_is_made_safe(tmp_path: Path, key: str):
    def evil(writer: gguf.GGUFWriter) -> None:
        writer.kv_data[0][key].value = "\x1b]0;owned\x07\n\u202enovel"

    message = refused(write_model(tmp_path / "model.gguf", keys=evil))
    assert "could not be loaded: " in message
    assert "]0;owned novel" in message


@given(name=st.text(min_size=1, max_size=40))
@example("\x1b]0;owned\x07\n\r\u202e\x9b.gguf")
@settings(deadline=None)
def test_a_file_name_reaches_no_message_raw(name: str):
    with pytest.raises(ModelFileError) as caught:
        check_file("/no/such/directory/" + name, "target")
    message = str(caught.value)
    assert message == safe(message)
    assert not {"\n", "\t"} & set(message)


@cache
def small() -> bytes:
    """A small model's file."""
    with tempfile.TemporaryDirectory() as directory:
        return write_model(Path(directory) / "model.gguf", strings={"general.size_label": "1B"}).read_bytes()


def keyed(key: str, value: object) -> Callable[[gguf.GGUFWriter], None]:
    """Give a key another value of its type."""

    def change(writer: gguf.GGUFWriter) -> None:
        writer.kv_data[0][key].value = value

    return change


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tokens": [*"abcdefg", "x", "x"], "types": [1] * 9}, "the same token twice"),
        ({"strings": {"llama.rope.scaling.type": "nonsense"}}, "a scaling of positions that llama.cpp does not know"),
        ({"keys": keyed("llama.block_count", 600)}, "block_count = 600"),
        ({"keys": keyed("llama.block_count", 0)}, "block_count = 0"),
        ({"keys": keyed("llama.attention.layer_norm_rms_epsilon", float("nan"))}, "attention.layer_norm_rms_epsilon = nan"),
        ({"keys": keyed("llama.attention.layer_norm_rms_epsilon", -1.0)}, "attention.layer_norm_rms_epsilon = -1.0"),
        ({"numbers": {"llama.expert_count": 8, "llama.expert_used_count": 9}}, "expert_used_count = 9"),
        ({"numbers": {"llama.expert_count": 1025}}, "expert_count = 1025"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keys_that_would_make_llama_cpp_end_the_process(tmp_path: Path, changes: dict[str, Any], says: str):
    message = refused(write_model(tmp_path / "model.gguf", **changes))
    assert message.endswith(f" has {says}, over which llama.cpp would end: choose another file of this model.")


def test_empty_tokens_may_occur_twice(tmp_path: Path):
    path = write_model(tmp_path / "model.gguf", tokens=["", "", "a"], types=[1] * 3)
    assert check_file(str(path), "target") == path


NAME = struct.pack("<Q", 17) + b"token_embd.weight"


@pytest.mark.parametrize(
    ("at", "new"),
    [(0, 2**63), (len(NAME), 5), (len(NAME) + 4, 2**62), (len(NAME) + 4, 2**32), (len(NAME) + 4 + 2 * 8 + 4, 2**40)],
    ids=["name", "dimensions", "numbers", "more numbers than bytes", "offset"],
)
def test_an_absurd_tensor_is_found_before_llama_cpp_reads_it(tmp_path: Path, at: int, new: int):
    content = bytearray(small())
    start = content.index(NAME) + at
    number = struct.pack("<I" if at == len(NAME) else "<Q", new)
    content[start : start + len(number)] = number
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is damaged or cut short: download it again"):
        check_file(str(path), "target")


def test_endless_keys_are_read_up_to_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "LARGEST", 1000)
    path = write_model(tmp_path / "model.gguf")
    assert "is damaged or cut short" in refused(path)
    assert read_header(path).problem.startswith("is damaged or cut short")


@given(where=st.integers(0, 9_000), new=st.binary(min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_any_damage_is_a_sentence_or_nothing(tmp_path: Path, where: int, new: bytes):
    """Also in the fixed header and the keys, with lengths and counts: nothing is read beyond the file's end."""
    content = bytearray(small())
    content[where : where + len(new)] = new
    path = tmp_path / f"{where}-{new.hex()}.gguf"  # written again within a tick of the clock, a file would look the same
    path.write_bytes(content)
    listed = read_header(path)
    assert all(text.isprintable() for text in (listed.architecture, listed.quantisation, listed.parameters, listed.problem))
    if listed.problem:
        assert refused(path) == f"The target model {str(path)!r} {listed.problem}."


@pytest.mark.parametrize("alignment", [8, 16, 32])
def test_a_file_whose_numbers_are_aligned_otherwise_is_loaded_unmapped(tmp_path: Path, alignment: int) -> None:
    """llama.cpp would end the process."""
    mappable = set()
    for length in range(1, 40, 8):

        def keys(writer: gguf.GGUFWriter, length: int = length) -> None:
            writer.add_custom_alignment(alignment)
            writer.add_name("x" * length)

        path = str(write_model(tmp_path / "model.gguf", keys=keys))
        mappable.add(metadata_of(path).tensors.mappable)
        model = Model(path)
        assert model.tokenize("ab", special=False)
        model.close()
    assert mappable == ({True} if alignment == 32 else {True, False})


def test_the_sampling_that_a_file_recommends_is_that_of_the_knobs_in_their_ranges(tmp_path: Path):
    def keys(writer: gguf.GGUFWriter) -> None:
        for name, value in (("temp", 0.3), ("penalty_repeat", 1.1), ("top_p", 7.0), ("xtc_probability", 0.5), ("mirostat", 0)):
            writer.add_float32(f"general.sampling.{name}", value)
        writer.add_int32("general.sampling.top_k", 1)
        writer.add_string("general.sampling.min_p", "0.2")

    file = write_model(tmp_path / "a.gguf", keys=keys)
    expected = {"temperature": 0.3, "repeat_penalty": 1.1, "top_k": 1}, ["xtc_probability"]
    assert recommended_sampling(str(file)) == expected
    assert recommended_sampling(str(tmp_path / "none.gguf")) == ({}, [])
