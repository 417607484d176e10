"""What a file is, if it is no model to chat with: the list of models and loading say the same of it."""

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from spectui.gguf_files.check import ModelFileError, check_file, metadata_of
from spectui.gguf_files.compatibility import drafting_heads, drafts_for, heads_beside, match, smaller_drafts
from spectui.gguf_files.header import read_header
from spectui.gguf_files.heads import assists
from tests.llama.ggufs import finished, write_model
from tests.llama.heads import dflash, eagle
from tests.llama.heads.assistant import write_assistant, write_target
from tests.llama.heads.headed import write_headed


def problem(path: Path) -> str:
    """What both say of the file, the list without the name; "" if it is a model."""
    listed = read_header(path)
    try:
        check_file(str(path), "target")
        said = ""
    except ModelFileError as error:
        said = str(error).removeprefix(f"The target model {str(path)!r} ").removesuffix(".")
    assert listed.problem == said
    assert not said or ": " in said, "it says what to do"
    if said:
        whole = read_header(write_model(path.with_name("whole.gguf")))
        why = "are the heads of another model" if listed.only_heads and listed.heads else said
        why = "is the head of another model" if listed.architecture in ("eagle3", "dflash") and listed.heads else why
        assert match(whole, listed) == ("never", why), "it is not offered as a draft"
    return said


def file_of(path: Path, keys: dict[str, Any], tensors: Sequence[str] = ()) -> Path:
    """A GGUF file of these keys, with a tensor of 32 numbers for each name."""
    writer = gguf.GGUFWriter(path, str(keys.get("general.architecture", "")))
    if "general.architecture" not in keys:
        writer.kv_data[0].clear()
    for key, value in keys.items():
        if key != "general.architecture":
            {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32}[type(value)](key, value)
    for name in tensors:
        writer.add_tensor(name, np.zeros(32, np.float32))
    return finished(writer, path)


WORDS = {"tokenizer.ggml.model": "gpt2"}
CUT = "is damaged or cut short: download it again"
UNUSABLE = "is a draft head ({}) with which spectui cannot draft"
EMBEDS = "is an embedding, reranking or encoder model"
TEXT = "is a web page or another text instead of a model: download it again"
OTHER = "is not a GGUF file: unpack it, convert it with llama.cpp, or choose another"


def fixed(version: int = 3, tensors: int = 0, keys: int = 0) -> bytes:
    """The beginning of a GGUF file."""
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1117320736\n", "is a pointer of Git LFS"),
        (b"\n  <HTML>", TEXT),
        (b"\xef\xbb\xbf<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", TEXT),
        (b'{"error":"Repository not found"}', TEXT),
        (b"Entry not found", TEXT),  # Hugging Face's
        (b"Invalid username or password.\n" * 100, TEXT),
        (b"", CUT),
        (b"\0" * 4096, CUT),
        (b"GGU", CUT),
        (b"GGUF", CUT),
        (fixed()[:23], CUT),
        (fixed(tensors=2**63) + b"\0" * 99, CUT),
        (fixed(keys=2**64 - 1) + b"\0" * 99, CUT),
        (fixed(tensors=300, keys=30) + b"\0" * 99, CUT),
        (fixed(tensors=1, keys=1) + b"\xff" * 99, CUT),
        # a list of 2^60 strings, and one string of 2^62 bytes
        (fixed(keys=1) + struct.pack("<Q1sIIQ", 1, b"a", 9, 8, 2**60) + b"\0" * 90, CUT),
        (fixed(keys=1) + struct.pack("<Q1sIQ", 1, b"a", 8, 2**62) + b"\0" * 90, CUT),
        (b"\x1f\x8b\x08\0" + b"x" * 99, OTHER),
        (b'\x60\x10\0\0\0\0\0\0{"__metadata__":{"format":"pt"}}', OTHER),  # safetensors
        (fixed(version=1) + b"\0" * 99, "is of GGUF version 1, and this llama.cpp reads the versions 2 to 3: choose another"),
        (fixed(version=4) + b"\0" * 99, "is of GGUF version 4, and this llama.cpp reads the versions 2 to 3: choose another"),
        (b"GGUF" + struct.pack(">IQQ", 3, 1, 1) + b"\0" * 99, "is of GGUF version 50331648"),  # big-endian
        (fixed(keys=2) + b"\0" * 99, "has no weights, only a vocabulary"),
    ],
    ids=lambda value: value[:24].hex() if isinstance(value, bytes) else "",
)
def test_wrong_content(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert problem(path).startswith(says)


def head(layer: int) -> list[str]:
    """The names of what makes a layer a head."""
    return [f"blk.{layer}.nextn.{part}.weight" for part in ("eh_proj", "enorm", "hnorm")]


@pytest.mark.parametrize(
    ("keys", "tensors", "says"),
    [
        ({"general.type": "imatrix", "imatrix.chunk_size": 512}, ["blk.0.attn_q.in_sum2"], "is an importance matrix"),
        ({"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"}, ["a"], "is a LoRA adapter"),
        ({"general.architecture": "clip", "general.type": "mmproj"}, ["v.blk.0.a"], "is the part of a model that sees"),
        ({"general.architecture": "controlvector"}, ["direction.1"], "is a control vector"),
        ({"general.architecture": "llama", **WORDS}, [], "has no weights, only a vocabulary"),
        ({"general.architecture": "eagle3", **WORDS}, ["blk.0.attn_q.weight", "fc.weight"], "is the draft head (EAGLE-3)"),
        ({"general.architecture": "eagle2", **WORDS}, ["blk.0.attn_q.weight", "fc.weight"], UNUSABLE.format("EAGLE")),
        ({"general.architecture": "dflash", **WORDS}, ["blk.0.attn_q.weight", "fc.weight"], "is the draft head (DFlash)"),
        ({"general.architecture": "dflash", **WORDS}, ["fc.weight", "markov_w1.weight"], UNUSABLE.format("DFlash")),
        ({"general.architecture": "dflash", "dflash.hyper_connection.count": 4, **WORDS}, ["a"], UNUSABLE.format("DFlash")),
        ({"general.architecture": "dflash", **WORDS}, ["fc.weight", "selector_hidden.weight"], UNUSABLE.format("DFlash")),
        ({"general.architecture": "mtp", **WORDS}, ["blk.0.attn_q.weight"], UNUSABLE.format("MTP")),
        ({"general.architecture": "gemma4-assistant", "gemma4-assistant.nextn_predict_layers": 4,
          "gemma4-assistant.block_count": 4, **WORDS}, ["blk.0.attn_q.weight"], "is the draft head (MTP) of one target"),
        ({"general.architecture": "gemma4-assistant", "gemma4-assistant.nextn_predict_layers": 1,
          "gemma4-assistant.block_count": 4, **WORDS}, ["blk.0.a"], "claims to have 1 draft heads (MTP) and has 4"),
        ({"general.architecture": "gemma4-assistant", **WORDS}, ["blk.0.a"], UNUSABLE.format("MTP")),
        ({"general.architecture": "qwen35", "qwen35.block_count": 25, "qwen35.nextn_predict_layers": 1, **WORDS},
         ["token_embd.weight", "blk.24.attn_norm.weight", *head(24)], "is the draft head (MTP)"),
        ({"general.architecture": "step35", "step35.block_count": 1, "step35.nextn_predict_layers": 1, **WORDS},
         head(0), "is the draft head (MTP)"),
        ({"general.architecture": "bailingmoe2", "bailingmoe2.block_count": 1, "bailingmoe2.nextn_predict_layers": 1, **WORDS},
         head(0), UNUSABLE.format("MTP")),
        ({"general.architecture": "step35", "step35.block_count": 2, "step35.nextn_predict_layers": 3, **WORDS},
         ["blk.0.a", *head(1)], "claims to have 3 draft heads (MTP) and has 1: choose another file"),
        ({"general.architecture": "step35", "step35.block_count": 3, "step35.nextn_predict_layers": 2, **WORDS},
         ["blk.0.a", "blk.1.a", *head(2)], "claims to have 2 draft heads (MTP) and has 1: choose another file"),
        ({"general.architecture": "qwen35", "qwen35.block_count": 2, "qwen35.nextn_predict_layers": 1, **WORDS},
         ["blk.0.a", "blk.1.a"], "claims to have 1 draft heads (MTP) and has 0: choose another file"),
        ({"general.architecture": "qwen3", "qwen3.pooling_type": 3, **WORDS}, ["a"], EMBEDS),
        ({"general.architecture": "qwen3", "qwen3.pooling_type": 4, **WORDS}, ["blk.0.a"], EMBEDS),
        ({"general.architecture": "bert", **WORDS}, ["blk.0.a"], EMBEDS),
        ({"general.architecture": "llama", "llama.attention.causal": False, **WORDS}, ["a"], EMBEDS),
        ({"general.architecture": "llada", "llada.attention.causal": False, **WORDS}, ["blk.0.a"], "is a model that writes"),
        ({"general.architecture": "wavtokenizer-dec", "wavtokenizer-dec.attention.causal": False}, ["a"], "is a model that"),
        ({"general.architecture": "flux"}, ["double_blocks.0.a"], "has no vocabulary of text: choose a chat model"),
        ({"general.architecture": "llama", "general.type": "\x1b[31mnovel"}, ["blk.0.a"], "is no model of its own ([31mnovel)"),
        ({"general.architecture": "qwen35", "qwen35.block_count": 2, "qwen35.nextn_predict_layers": 1, **WORDS},
         ["blk.0.attn_norm.weight", "blk.1.nextn.eh_proj.weight"], ""),
        ({"general.architecture": "qwen3", "qwen3.pooling_type": 0, "general.type": "model", **WORDS}, ["blk.0.a"], ""),
    ],
)  # fmt: skip
def test_what_the_keys_say(tmp_path: Path, keys: dict[str, Any], tensors: list[str], says: str) -> None:
    found = problem(file_of(tmp_path / "model.gguf", keys, tensors))
    assert found.startswith(says) and bool(found) == bool(says)


def split(directory: Path, parts: int = 3, tensors: Sequence[int] = (2, 2, 2)) -> list[Path]:
    """A model in parts, as llama-gguf-split makes them: only the first has the model's keys."""
    names = iter(f"blk.{number}.attn_q.weight" for number in range(sum(tensors)))
    files = []
    for number, count in enumerate(tensors):
        own = {"split.no": number, "split.count": parts, "split.tensors.count": sum(tensors)}
        keys = {"general.architecture": "llama", **WORDS} if number == 0 else {}
        path = directory / f"big-{number + 1:05}-of-{parts:05}.gguf"
        files.append(file_of(path, keys | own, [next(names) for _ in range(count)]))
    return files


@pytest.mark.parametrize("tensors", [(2, 2, 2), (0, 3, 1)], ids=["usual", "no tensors in the first"])
def test_a_model_in_parts(tmp_path: Path, tensors: Sequence[int]) -> None:
    files = split(tmp_path, tensors=tensors)
    assert problem(files[0]) == ""
    assert read_header(files[0]).size == sum(file.stat().st_size for file in files)
    assert problem(files[1]).startswith(
        "is part 2 of 3 of a split model: choose the first, such as big-00001-of-00003.gguf, and keep the names"
    )


def test_parts_that_were_joined_or_renamed(tmp_path: Path) -> None:
    files = split(tmp_path)
    joined = tmp_path / "joined.gguf"
    joined.write_bytes(b"".join(file.read_bytes() for file in files))
    assert problem(joined).startswith("is part 1 of 3 of a split model: choose the first, such as joined-00001-of-00003")
    alone = files[0].rename(tmp_path / "my model.gguf")
    assert problem(alone) == (
        "is part 1 of 3 of a split model: choose the first, such as my model-00001-of-00003.gguf, and keep the names that the "
        "parts were downloaded with"
    )
    renamed = files[1].rename(files[0])
    assert problem(renamed).startswith("is part 2 of 3 of a split model: choose the first")


def test_parts_that_do_not_belong_together(tmp_path: Path) -> None:
    first, second, third = split(tmp_path)
    kept = second.rename(tmp_path / "kept")
    third.rename(second)
    kept.rename(third)
    mixed = "has parts of different models: download them again, and keep their names"
    assert problem(first) == mixed
    split(tmp_path)
    (tmp_path / "other").mkdir()
    split(tmp_path / "other", tensors=(2, 1, 2))[1].rename(second)
    assert problem(first) == mixed


def test_a_part_that_is_missing_or_cut_short(tmp_path: Path) -> None:
    first, second, third = split(tmp_path)
    third.write_bytes(third.read_bytes()[:-1])
    assert problem(first) == "lacks part 3 of 3, or that is damaged: download it"
    second.unlink()
    assert problem(first) == "lacks part 2 of 3, or that is damaged: download it"
    os.mkfifo(second)  # to open it would block
    assert problem(first) == "lacks part 2 of 3, or that is damaged: download it"


@pytest.mark.parametrize(("numbers", "there"), [(64, 0.5), (1 << 23, 0.9)])
def test_a_download_that_has_only_reserved_its_room_is_no_whole_model(tmp_path: Path, numbers: int, there: float) -> None:
    def written(name: str, *weights: np.ndarray) -> Path:
        writer = gguf.GGUFWriter(tmp_path / name, "llama")
        writer.add_string("tokenizer.ggml.model", "gpt2")
        for number, tensor in enumerate(weights):
            writer.add_tensor(f"blk.{number}.w", tensor)
        return finished(writer, tmp_path / name)

    ones, bias = np.ones(numbers, np.float32), np.zeros(numbers // 64, np.float32)
    whole = written("whole.gguf", ones, bias)
    assert problem(whole) == ""
    reserved = written("reserved.gguf", np.where(np.arange(numbers) < there * numbers, ones, 0), bias)
    assert problem(reserved) == CUT


def test_heads_are_offered_to_their_target_alone(tmp_path: Path) -> None:
    target = read_header(write_headed(tmp_path / "target.gguf", heads=0, layers=3))
    small = read_header(write_headed(tmp_path / "small.gguf", heads=0, feed_forward=16))
    heads = read_header(write_headed(tmp_path / "mtp-target.gguf", alone=True, feed_forward=8))
    other = read_header(write_headed(tmp_path / "mtp-other.gguf", alone=True, width=320))
    own = read_header(write_headed(tmp_path / "own.gguf", heads=1))
    assert check_file(heads.path, "draft") == Path(heads.path)
    assert match(target, heads) == ("same", "heads for such a target (MTP)")
    assert match(target, other) == ("never", "are the heads of another model")
    assert drafts_for(target, [small, other, heads]) == [heads, small]
    assert smaller_drafts(target, [small, heads]) == [heads, small]
    assert own.heads == 1 and not own.only_heads
    assert smaller_drafts(own, [small, heads]) == []


def test_a_head_that_reads_layers_is_offered_to_targets_that_give_them(tmp_path: Path) -> None:
    target, small = (read_header(eagle.write_target(tmp_path / f"{layers}.gguf", layers=layers)) for layers in (4, 1))
    wider = read_header(eagle.write_target(tmp_path / "wider.gguf", width=320))
    silent = read_header(eagle.write_target(tmp_path / "silent.gguf", architecture="exaone"))
    head = read_header(eagle.write_eagle(tmp_path / "eagle3-4.gguf"))
    assert match(target, head) == ("same", "a head for such a target (EAGLE-3)")
    assert match(wider, head) == ("never", "is the head of another model")
    assert match(silent, head) == ("never", "drafts for no exaone, which does not give it its layers' rows")
    assert smaller_drafts(target, [small, head]) == [head, small]
    assert heads_beside(target.path) == head.path
    assert heads_beside(silent.path) is None
    Path(head.path).unlink()
    block = read_header(dflash.write_dflash(tmp_path / "dflash-4.gguf"))
    assert match(target, block) == ("same", "a head for such a target (DFlash)")
    assert match(wider, block) == ("never", "is the head of another model")
    assert heads_beside(target.path) == block.path


def test_an_assistant_is_offered_to_its_target_alone(tmp_path: Path) -> None:
    target = read_header(write_target(tmp_path / "target.gguf"))
    small = read_header(write_target(tmp_path / "small.gguf", width=320))
    assistant = read_header(write_assistant(tmp_path / "target-assistant.gguf"))
    assert check_file(assistant.path, "draft") == Path(assistant.path)
    assert match(target, assistant).how == "same"
    assert match(small, assistant).how == "never"
    assert match(assistant, assistant).how == "never"
    assert drafts_for(target, [small, assistant])[0] == assistant
    assert heads_beside(target.path) == drafting_heads(target.path, None) == assistant.path
    assert heads_beside(small.path) is None


Changes = dict[str, Any]


@pytest.mark.parametrize(
    ("target", "assistant", "fits"),
    [
        ({}, {}, True),
        ({"layers": 4}, {}, True),
        ({"layers": 4}, {"layers": 4}, True),
        ({"layers": 3}, {}, False),  # its last layer has a sliding window
        ({"layers": 1}, {"layers": 1}, False),
        ({}, {"heads": 2}, False),
        ({}, {"width": 320}, False),
    ],
)
def test_an_assistant_fits_the_last_layers_of_its_target(
    tmp_path: Path, target: Changes, assistant: Changes, fits: bool
) -> None:
    files = write_target(tmp_path / "target.gguf", **target), write_assistant(tmp_path / "heads.gguf", **assistant)
    of, heads = (metadata_of(str(file)) for file in files)
    assert assists(of, heads) is fits
    other = metadata_of(str(write_headed(tmp_path / "other.gguf", heads=0)))
    assert assists(other, heads) is False
    assert assists(of, other) is None


def test_heads_beside_their_target_are_found(tmp_path: Path) -> None:
    target, own = tmp_path / "target.gguf", tmp_path / "own.gguf"
    write_headed(target, heads=0)
    write_headed(own, heads=1)
    (tmp_path / "mtp-broken.gguf").write_bytes(b"GGUF")
    (tmp_path / "mtp-loop.gguf").symlink_to("mtp-loop.gguf")
    write_headed(tmp_path / "mtp-other.gguf", alone=True, width=320)
    write_headed(tmp_path / "whole-with-mtp.gguf", heads=1)
    assert heads_beside(str(target)) is None
    heads = write_headed(tmp_path / "Target-MTP.gguf", alone=True)
    assert heads_beside(str(target)) == str(heads)
    assert heads_beside(str(own)) is None
    assert heads_beside(str(tmp_path / "nowhere" / "x.gguf")) is None


@pytest.mark.parametrize(
    ("target", "heads", "found"),
    [
        ("a.gguf", "MTP/mtp-a.gguf", True),
        ("Q4/a-00001-of-00001.gguf", "mtp-a.gguf", True),
        ("Q4/a-00001-of-00001.gguf", "mtp/mtp-a.gguf", True),
        ("snapshots/1/UD/a.gguf", "snapshots/1/MTP/mtp-a.gguf", True),
        ("mine/a.gguf", "mtp-a.gguf", False),  # it may be another model's
        ("a.gguf", "other/mtp-a.gguf", False),
    ],
)
def test_heads_are_found_in_a_folder_beside_and_above_a_splits(tmp_path: Path, target: str, heads: str, found: bool):
    for file in (tmp_path / target, tmp_path / heads):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_headed(tmp_path / target, heads=0)
    write_headed(tmp_path / heads, alone=True)
    assert heads_beside(str(tmp_path / target)) == (str(tmp_path / heads) if found else None)


@pytest.mark.parametrize(
    ("architecture", "named", "there", "usable"),
    [
        ("qwen35", 1, [*head(1)], 1),
        ("qwen35", 2, [*head(1), *head(2)], 0),  # its graph asserts that there is one
        ("step35", 2, [*head(1), *head(2)], 2),
        ("step35", 2, [*head(1)], 0),
        ("step35", 1, head(1)[:2], 0),
        ("step35", 0, [*head(1)], 0),
        ("glm4", 1, [*head(1)], 0),  # it has no graph for them
        ("glm5-next", 1, [*head(1)], 0),
    ],
)
def test_heads_are_used_where_llama_cpp_would_not_end_the_process(
    tmp_path: Path, architecture: str, named: int, there: list[str], usable: int
) -> None:
    keys = {"general.architecture": architecture, f"{architecture}.block_count": 3, **WORDS}
    keys |= {f"{architecture}.nextn_predict_layers": named} if named else {}
    path = file_of(tmp_path / "model.gguf", keys, ["blk.0.attn_norm.weight", *there])
    assert problem(path) == ""
    found = read_header(path)
    assert (found.heads, found.only_heads) == (usable, False)


def test_heads_in_the_last_part_of_a_split_model(tmp_path: Path) -> None:
    parts = split(tmp_path, parts=2, tensors=(2, 3))
    own = {"split.count": 2, "split.tensors.count": 5}
    keys = {"general.architecture": "qwen35", "qwen35.block_count": 2, "qwen35.nextn_predict_layers": 1, **WORDS}
    file_of(parts[0], keys | own | {"split.no": 0}, ["blk.0.attn_norm.weight", "token_embd.weight"])
    file_of(parts[1], {"general.architecture": "qwen35", **own, "split.no": 1}, head(1))
    found = read_header(parts[0])
    assert (found.problem, found.heads, found.only_heads) == ("", 1, False)
