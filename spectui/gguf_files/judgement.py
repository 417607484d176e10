"""Whether a file is a model that can chat, and if not, what it is: the list of models and loading ask here."""

from __future__ import annotations

import math
import os
import re
import stat
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from spectui.gguf_files import metadata
from spectui.gguf_files.heads import DFLASH, READ_LAYERS, TARGETS, are_heads, kind_of_block, unfit, usable_heads
from spectui.gguf_files.metadata import Damaged, Metadata, Tensors, Value
from spectui.gguf_files.parts import Part, part_of
from spectui.gguf_files.vocabulary import WITHOUT_TEXT, kind_of
from spectui.pin import GGUF_VERSION, MOST_EXPERTS, MOST_LAYERS, ONE_HEAD, SEVERAL_HEADS
from spectui.text import safe

FIXED_BYTES = 24
"""Bytes at the beginning of every GGUF file: magic, version, number of tensors, number of keys."""

BEGINNING_BYTES = 512
"""Bytes of the beginning that tell what a file is that is no GGUF file."""

CUT_SHORT = "is damaged or cut short: download it again"

_MOST_ENTRIES = 1_000_000  # far above the largest real file: 2,000 tensors, 100 keys

_OTHERS = (
    (
        rb"version https://git-lfs",
        "is a pointer of Git LFS instead of the model: download it again, as git lfs pull does",
    ),
    (rb"(\xef\xbb\xbf)?\s*<", "is a web page instead of a model: download it again, from the link that ends in .gguf"),
    (rb"(\xef\xbb\xbf)?\s*[{\[]", "is a server's answer instead of a model: download it again"),
    (rb"(lmgg|fmgg|tjgg|algg)", "is of the format before GGUF, which llama.cpp reads no more: choose a GGUF file"),
    # A zip archive whose first file is in a directory is a model of PyTorch.
    (
        rb"(\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf|Rar!|.{257}ustar|PK\x03\x04.{26}(?![\w.-]*/))",
        "is packed: unpack it",
    ),
    (rb"GG?U?\Z", "is cut short: download it again"),
    (rb"\0{24}", "begins with zeros, as a download does that was stopped: download it again"),
    (rb".{8}\{\"", "is a safetensors file: convert it with llama.cpp, or choose a GGUF file"),
    (rb"[\t\n\r\x20-\x7e]{5,}\Z", "is a text instead of a model: download it again"),
)
"""What a file begins with -> what it is and what to do, to complete the sentence "The model ..."."""

_ROPE_SCALINGS = (b"none", b"linear", b"yarn", b"longrope")
_RANK = 4  # LLAMA_POOLING_TYPE_RANK; those above 0 are of models that make one vector of a text

_SAME_NAMES = "give the parts the names that they were downloaded with, or download them again"
_JOINED = f"is several parts of a split model joined to one file: {_SAME_NAMES}"
_HEADS = (
    "is the draft heads (MTP) of one target, no model of its own: load that target, and give this file as its draft"
)
_OF_LAYERS = (
    "is the draft head ({}) of one target, no model of its own: load that target, and give this file as its draft"
)
_ASSISTANT = (
    "is the assistant (MTP) of a Gemma 4, no model of its own: load that model, and give this file as its draft"
)
_OTHER_HEADS = (
    "is draft heads (MTP) with which this llama.cpp cannot draft: use a small model of the target's family as the draft"
)
_MISSING_HEADS = "claims to have {} draft heads (MTP) and has {}: choose another file of this model"
_HEAD = "is a draft head ({}), a part that drafts for one target only, with which spectui cannot draft: choose a whole model"
_OTHER_BLOCKS = (
    "is a draft head ({}) that chooses among the tokens that it foresees by a part with which spectui cannot draft: use the "
    "target's DFlash or EAGLE-3 head, or a small model of its family, as the draft"
)
_EMBEDDING = "writes no text (it is an embedding or encoder model): choose a chat model"
_RERANKING = "writes no text (it is a reranking model): choose a chat model"
_SEES = "is the part of a model that sees or hears, not one that writes: choose the model itself"
_SOUND = "makes sounds instead of text: choose a chat model"
_DIFFUSION = "writes by diffusion, not one token after the other: choose another chat model"

_PURPOSES: Mapping[str, str] = {
    **dict.fromkeys(("eagle", "eagle2"), _HEAD.format("EAGLE")),
    "dspark": _OTHER_BLOCKS.format("DSpark"),
    "mtp": _HEAD.format("MTP"),
    "medusa": _HEAD.format("Medusa"),
    **dict.fromkeys(("clip", "mmproj"), _SEES),
    "controlvector": "is a control vector, which changes a model: choose the model itself",
    **dict.fromkeys(
        ("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert",
         "gemma-embedding", "llama-embed", "t5", "t5encoder"),
        _EMBEDDING,
    ),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), _SOUND),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), _DIFFUSION),
}  # fmt: skip
"""Architecture (llama.cpp's src/llama-arch.cpp) -> what such a file is, if it is no chat model."""

_TYPES: Mapping[str, str] = {
    "adapter": "is a LoRA adapter, which changes a model: choose the model itself",
    "mmproj": _SEES,
    "imatrix": "is an importance matrix, which only a quantiser reads: choose the model itself",
}
"""`general.type` -> the same."""


class Wrong(Damaged):
    """The file is no model. The text completes the sentence "The model ..." and says what to do."""


class Judgement(NamedTuple):
    """`problem`: why the file cannot be used, and what to do, to complete the sentence "The model ..."; "" if it can be.

    `size`: bytes of all its parts. `metadata`: the keys of its first part, all tensors; None if it has none that could be read.
    """

    problem: str
    size: int
    metadata: Metadata | None = None


def judge(file: Path, read: Callable[[Path], Metadata], *, textless: bool = False, heads: bool = False) -> Judgement:
    """What this file of any content is. `read`: `read_file`, or what does the same. Raises OSError if it cannot be read.

    `textless`: a model whose tokens have no texts is one too. `heads`: so are the heads of a target.
    """
    size = os.stat(file).st_size
    try:
        first = read(file)
    except Damaged as damage:
        return Judgement(_in_words(damage), size)
    problem, size, tensors = _with_later_parts(file, size, first, read)
    whole = first._replace(tensors=tensors)
    return Judgement(problem or purpose(whole, textless, heads) or _unfit(first), size, whole)


def read_file(
    file: Path,
    most: int | None = None,
    slowed: Callable[[metadata.Read], metadata.Read] = lambda read: read,
) -> Metadata:
    """The metadata of a file that is whole. Raises OSError, Damaged, and what `slowed` raises.

    `most`: bytes of keys and tensors that are read. `slowed`: given the function that reads the file, returns the one to use.
    """
    status = os.stat(file)
    if not stat.S_ISREG(status.st_mode):  # to open a pipe would block
        raise OSError("not a file")
    size = status.st_size
    with file.open("rb") as opened:
        tensors, keys = _counts(opened.read(BEGINNING_BYTES), size)
        opened.seek(FIXED_BYTES)
        reader = slowed(metadata.reader(opened, min(size, most or metadata.LARGEST)))
        found = metadata.read_metadata(opened, reader, size, tensors, keys)
        opened.seek(metadata.aligned(found.tensors.end, found.values))
        behind = opened.read(4)
    if found.tensors.end > size:
        raise Wrong(CUT_SHORT)
    if behind == b"GGUF" and _split(found, "count") > 1:
        raise Wrong(_JOINED)
    return found


def _counts(beginning: bytes, size: int) -> tuple[int, int]:
    """(number of tensors, number of keys) from the file's first BEGINNING_BYTES; `size` is the whole file's in bytes.

    Raises Wrong if this is not a whole GGUF file.
    """
    if size == 0:
        raise Wrong("is empty: download it again")
    if beginning[:4] != b"GGUF":
        known = (what for pattern, what in _OTHERS if re.match(pattern, beginning, re.DOTALL))
        raise Wrong(next(known, "is not a GGUF file: convert it with llama.cpp, or choose another"))
    if len(beginning) < FIXED_BYTES:
        raise Wrong("is cut short: download it again")
    version, tensors, keys = struct.unpack("<IQQ", beginning[4:FIXED_BYTES])
    if version and version & 0xFFFF == 0:  # as llama.cpp tells it
        raise Wrong("is of a machine with the other order of bytes (big-endian): choose another file of this model")
    if version < 2:
        raise Wrong(f"is of GGUF version {version}, which llama.cpp reads no more: choose a newer file of this model")
    if version > GGUF_VERSION:
        raise Wrong(
            f"is of GGUF version {version}, and this llama.cpp reads up to version {GGUF_VERSION}: take a newer spectui, or "
            "another file of this model"
        )
    # The shortest tensor entry takes 32 bytes and the shortest key 13: larger counts cannot be true.
    if tensors > _MOST_ENTRIES or keys > _MOST_ENTRIES or FIXED_BYTES + 32 * tensors + 13 * keys > size:
        raise Wrong(CUT_SHORT)
    return int(tensors), int(keys)


def _in_words(damage: Damaged) -> str:
    return str(damage) if isinstance(damage, Wrong) else CUT_SHORT


def _with_later_parts(
    file: Path, size: int, first: Metadata, read: Callable[[Path], Metadata]
) -> tuple[str, int, Tensors]:
    """(problem, bytes, tensors) of a whole model, given its first part or its only file.

    llama.cpp asks the keys of the first part whether there are more, and finds those by its name.
    """
    tensors, count, number = first.tensors, _split(first, "count"), _split(first, "no")
    named = part_of(file)
    split = count > 1
    if split and number > 0:
        name = Part(1, count).of(file).name
        return f"is part {number + 1} of {count} of a split model: choose its first part, such as {name}", size, tensors
    if split and named != Part(1, count):
        name = Part(1, count).of(file).name
        wanted = f"give all of them the names that they had, this one {name}"
        return f"is part 1 of {count} of a split model, whose others are found by their names: {wanted}", size, tensors
    for part in (Part(each, named.parts) for each in range(2, named.parts + 1)) if named is not None else ():
        other = part.of(file)
        try:
            size += os.stat(other).st_size
            if not split:  # a whole model with the name of a part, or parts that another program is to join
                continue
            found = read(other)
        except OSError:
            return f"lacks part {part.number} of {part.parts}: download it", size, tensors
        except Damaged as damage:
            return f"has a part {part.number} of {part.parts} that {_in_words(damage)}", size, tensors
        if (_split(found, "no"), _split(found, "count")) != (part.number - 1, count):
            return f"has a part {part.number} of {part.parts} that is another: {_SAME_NAMES}", size, tensors
        tensors = tensors.with_those_of(found.tensors)
    whole = _split(first, "tensors.count")
    if split and whole and tensors.number != whole:
        return f"has parts of different models: {_SAME_NAMES}", size, tensors
    return "", size, tensors


def purpose(file: Metadata, textless: bool, heads: bool = False) -> str:
    """What a file is, if it is no chat model; "" if it may be one."""
    architecture, tensors = file.architecture, file.tensors
    kind, pooling = file.text("general.type"), file.number("pooling_type")
    tokenizer = kind_of(file.text("tokenizer.ggml.model"))
    if said := _TYPES.get(kind) or _PURPOSES.get(architecture):
        return said
    if kind not in ("", "model"):
        return f"is no model of its own ({kind}): choose a chat model"
    if tensors.number == 0:
        return "has no weights, only a vocabulary: choose the model itself"
    if are_heads(file) and not (heads and usable_heads(file)):
        if usable_heads(file):
            if architecture in READ_LAYERS:
                return _OF_LAYERS.format(READ_LAYERS[architecture])
            return _ASSISTANT if architecture in TARGETS else _HEADS
        if architecture == DFLASH:
            return _OTHER_BLOCKS.format(kind_of_block(file))
        named, there = file.number("nextn_predict_layers"), tensors.heads
        there = file.number("block_count") if architecture in TARGETS else there
        return _OTHER_HEADS if named == there else _MISSING_HEADS.format(named, there)
    # llama.cpp takes the last layers for heads, and computes the others alone.
    named, layers = file.number("nextn_predict_layers"), file.number("block_count")
    own = len(tensors.layers - tensors.headed)
    if architecture in f"{ONE_HEAD} {SEVERAL_HEADS}".split() and 0 < layers - named < own:
        return _MISSING_HEADS.format(named, max(0, layers - own))
    if pooling == _RANK:
        return _RERANKING
    causal = file.values.get(f"{architecture}.attention.causal")
    if pooling > 0 or (causal is False and architecture not in READ_LAYERS):
        return _EMBEDDING
    if not tokenizer or (tokenizer == WITHOUT_TEXT and not textless):
        return "has no vocabulary of text: choose a chat model"
    return ""


def _unfit(file: Metadata) -> str:
    """What in this file would end the process: llama.cpp asserts some of it. "" if nothing would."""
    prefix = file.architecture

    def value(name: str) -> Value | None:
        return file.values.get(f"{prefix}.{name}")

    found = ""
    layers, experts = value("block_count"), value("expert_count") or 0
    used = value("expert_used_count") or 0
    epsilons = [value(f"attention.{name}") for name in ("layer_norm_rms_epsilon", "layer_norm_epsilon")]
    scaling = value("rope.scaling.type")
    if file.twice:
        found = f"has the token {_shown(file.twice)} more than once in its vocabulary"
    elif isinstance(layers, int) and not 1 <= layers <= MOST_LAYERS:
        found = f"claims to have {layers} layers"
    elif isinstance(experts, int) and isinstance(used, int) and not 0 <= used <= max(experts, 0) <= MOST_EXPERTS:
        found = f"claims to use {used} of {experts} experts"
    elif odd := [each for each in epsilons if isinstance(each, float) and not (math.isfinite(each) and each >= 0)]:
        found = f"claims an epsilon of {odd[0]}"
    elif isinstance(scaling, bytes) and scaling not in _ROPE_SCALINGS:
        found = f"scales its positions in a way that this llama.cpp does not know ({_shown(scaling)})"
    elif prefix in READ_LAYERS:
        found = unfit(file)
    return safe(f"{found}: choose another file of this model") if found else ""


def _split(file: Metadata, name: str) -> int:
    """A number about the parts of a split model; 0 if there is none."""
    return metadata.whole_number(file.values.get(f"split.{name}")) or 0


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))
