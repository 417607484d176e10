"""Whether a file is a model that can chat, and if not, what it is: the list of models and loading ask here."""

from __future__ import annotations

import os
import re
import stat
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from spectui.gguf_files.heads import READ_LAYERS, TARGETS, are_heads, is_consistent, usable_heads
from spectui.gguf_files.metadata import CUT_SHORT, Damaged, Metadata, Reader, Tensors, read_metadata, whole_number
from spectui.gguf_files.parts import Part, part_of
from spectui.gguf_files.vocabulary import WITHOUT_TEXT, kind_of
from spectui.pin import GGUF_VERSION, MOST_EXPERTS, MOST_LAYERS, ONE_HEAD, SEVERAL_HEADS

FIXED_BYTES = 24
"""Bytes at the beginning of every GGUF file: magic, version, number of tensors, number of keys."""

BEGINNING_BYTES = 512
"""Bytes of the beginning that tell what a file is that is no GGUF file."""

_LARGE = 1 << 24
"""Bytes of weights from which on only some are looked at. In a smaller model whole matrices may be zeros."""

_LOOKED_AT = 4096
"""Bytes that are looked at in one place of a large one."""

_MOST_ENTRIES = 1_000_000  # far above the largest real file: 2,000 tensors, 100 keys

_OTHERS = (
    (rb"version https://git-lfs", "is a pointer of Git LFS instead of the model: download it again, as git lfs pull does"),
    (
        rb"(\xef\xbb\xbf)?\s*[<{\[]|[\t\n\r\x20-\x7e]{5,}\Z",
        "is a web page or another text instead of a model: download it again, from the link that ends in .gguf",
    ),
    (rb"(GG?U?)?\Z|\0{24}", CUT_SHORT),
    (rb"", "is not a GGUF file: unpack it, convert it with llama.cpp, or choose another"),
)
"""What a file that is no GGUF file begins with -> what it is and what to do, to complete the sentence "The model ..."."""

_ROPE_SCALINGS = (b"none", b"linear", b"yarn", b"longrope")

_NAMES = "and keep the names that the parts were downloaded with"
_MIXED = "has parts of different models: download them again, and keep their names"

_HEADS = "is the draft head ({}) of one target, no model of its own: load that target, and give this file as its draft"
_UNUSABLE = "is a draft head ({}) with which spectui cannot draft: use a small model of the target's family as the draft"
_MISSING_HEADS = "claims to have {} draft heads (MTP) and has {}: choose another file of this model"
_OTHER_HEADS: Mapping[str, str] = {
    **dict.fromkeys(("eagle", "eagle2"), "EAGLE"),
    "dspark": "DSpark",
    "medusa": "Medusa",
    "mtp": "MTP",
}
"""Architecture of a draft head that llama.cpp does not know -> what people call it."""

NO_CHAT = "is {}, which cannot chat: choose a chat model"
EMBEDDING = "an embedding, reranking or encoder model"
_PURPOSES: Mapping[str, str] = {
    **dict.fromkeys(("clip", "mmproj"), "the part of a model that sees or hears"),
    "adapter": "a LoRA adapter",
    "controlvector": "a control vector",
    "imatrix": "an importance matrix",
    **dict.fromkeys(
        ("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert",
         "gemma-embedding", "llama-embed", "t5", "t5encoder"),
        EMBEDDING,
    ),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), "a model that makes sounds"),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "a model that writes by diffusion"),
}  # fmt: skip
"""Architecture (llama.cpp's src/llama-arch.cpp) or `general.type` of a file that is no chat model -> what it is."""


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
        return Judgement(str(damage), size)
    problem, size, tensors = _with_later_parts(file, size, first, read)
    whole = first._replace(tensors=tensors)
    return Judgement(problem or purpose(whole, textless, heads) or _unfit(first), size, whole)


def read_file(file: Path, pause: Callable[[], None] = lambda: None) -> Metadata:
    """The metadata of a file that is whole. `pause`: as in `Reader`. Raises OSError, Damaged, and what `pause` raises."""
    status = os.stat(file)
    if not stat.S_ISREG(status.st_mode):  # to open a pipe would block
        raise OSError("not a file")
    size = status.st_size
    with file.open("rb") as opened:
        tensors, keys = _counts(opened.read(BEGINNING_BYTES), size)
        opened.seek(FIXED_BYTES)
        content = read_metadata(opened, Reader(opened, size, pause), size, tensors, keys)
        if content.tensors.end > size:
            raise Damaged
        if tensors and _ends_in_zeros(opened, opened.tell(), content.tensors.end):
            raise Damaged(CUT_SHORT)
    return content


def _ends_in_zeros(file: BinaryIO, start: int, end: int) -> bool:
    """Whether a download has only reserved the room of the last weights: they are zeros wherever they are looked at."""
    length = end - start
    if length < _LARGE:
        file.seek(start)
        half = length // 2
        return any(file.read(half)) and not any(file.read(length - half))
    for number in range(8):  # places in the last sixteenth, from the end on
        file.seek(end - _LOOKED_AT - number * length // 128)
        if any(file.read(_LOOKED_AT)):
            return False
    return True


def _counts(beginning: bytes, size: int) -> tuple[int, int]:
    """(number of tensors, number of keys) from the file's first BEGINNING_BYTES; `size` is the whole file's in bytes.

    Raises Damaged if this is not a whole GGUF file.
    """
    if beginning[:4] != b"GGUF":
        raise Damaged(next(what for pattern, what in _OTHERS if re.match(pattern, beginning, re.DOTALL)))
    if len(beginning) < FIXED_BYTES:
        raise Damaged
    version, tensors, keys = struct.unpack("<IQQ", beginning[4:FIXED_BYTES])
    if not 2 <= version <= GGUF_VERSION:  # numbers of millions are of machines with the other order of bytes
        raise Damaged(
            f"is of GGUF version {version}, and this llama.cpp reads the versions 2 to {GGUF_VERSION}: choose another file of "
            "this model, or take a newer spectui"
        )
    # The shortest tensor entry takes 32 bytes and the shortest key 13: larger counts cannot be true.
    if tensors > _MOST_ENTRIES or keys > _MOST_ENTRIES or FIXED_BYTES + 32 * tensors + 13 * keys > size:
        raise Damaged
    return int(tensors), int(keys)


def _with_later_parts(file: Path, size: int, first: Metadata, read: Callable[[Path], Metadata]) -> tuple[str, int, Tensors]:
    """(problem, bytes, tensors) of a whole model, given its first part or its only file.

    llama.cpp asks the keys of the first part whether there are more, and finds those by its name.
    """
    tensors, count, number, named = first.tensors, _split(first, "count"), _split(first, "no"), part_of(file)
    split = count > 1
    if split and (number > 0 or named != Part(1, count)):
        name = Part(1, count).of(file).name
        return (f"is part {number + 1} of {count} of a split model: choose the first, such as {name}, {_NAMES}", size, tensors)
    for part in (Part(number, named.parts) for number in range(2, named.parts + 1)) if named is not None else ():
        try:
            size += os.stat(part.of(file)).st_size
            if not split:  # a whole model with the name of a part, or parts that another program is to join
                continue
            later = read(part.of(file))
        except (OSError, Damaged):
            return f"lacks part {part.number} of {part.parts}, or that is damaged: download it", size, tensors
        if (_split(later, "no"), _split(later, "count")) != (part.number - 1, count):
            return _MIXED, size, tensors
        tensors = tensors.with_those_of(later.tensors)
    whole = _split(first, "tensors.count")
    return _MIXED if split and whole and tensors.number != whole else "", size, tensors


def purpose(file: Metadata, textless: bool, heads: bool = False) -> str:
    """What a file is, if it is no chat model; "" if it may be one."""
    architecture, tensors, kind = file.architecture, file.tensors, file.text("general.type")
    named, layers = file.number("nextn_predict_layers"), file.number("block_count")
    if what := _PURPOSES.get(kind) or _PURPOSES.get(architecture):
        return NO_CHAT.format(what)
    if kind not in ("", "model"):
        return NO_CHAT.format(f"no model of its own ({kind})")
    if tensors.number == 0:
        return "has no weights, only a vocabulary: choose the model itself"
    if architecture in _OTHER_HEADS:
        return _UNUSABLE.format(_OTHER_HEADS[architecture])
    if are_heads(file) and not (heads and usable_heads(file)):
        name = READ_LAYERS.get(architecture, "MTP")
        if usable_heads(file):
            return _HEADS.format(name)
        there = layers if architecture in TARGETS else tensors.heads
        return _UNUSABLE.format(name) if named == there else _MISSING_HEADS.format(named, there)
    # llama.cpp takes the last layers for heads, and computes the others alone.
    own = len(tensors.layers - tensors.headed)
    if architecture in f"{ONE_HEAD} {SEVERAL_HEADS}".split() and 0 < layers - named < own:
        return _MISSING_HEADS.format(named, max(0, layers - own))
    causal = architecture in READ_LAYERS or file.values.get(f"{architecture}.attention.causal") is not False
    if not causal or file.number("pooling_type") > 0:
        return NO_CHAT.format(EMBEDDING)
    tokenizer = kind_of(file.text("tokenizer.ggml.model"))
    if not tokenizer or (tokenizer == WITHOUT_TEXT and not textless):
        return "has no vocabulary of text: choose a chat model"
    return ""


def _unfit(file: Metadata) -> str:
    """What in this file would end the process: llama.cpp asserts some of it. "" if nothing would."""
    bounds = {
        "block_count": (1, MOST_LAYERS),
        "expert_count": (0, MOST_EXPERTS),
        "expert_used_count": (0, file.number("expert_count")),
        **dict.fromkeys(("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"), (0, sys.float_info.max)),
    }
    why = "the same token twice" if file.twice else ""
    # llama.cpp throws what nobody can catch at the first character that such a tokenizer lacks.
    if kind_of(file.text("tokenizer.ggml.model")) == "SPM" and not file.spells:
        why = "no tokens for some characters"
    for name, (least, most) in bounds.items():
        value = file.values.get(f"{file.architecture}.{name}", least)
        if not (isinstance(value, bytes) or least <= value <= most):
            why = f"{name} = {value}"
    if file.values.get(f"{file.architecture}.rope.scaling.type", b"none") not in _ROPE_SCALINGS:
        why = "a scaling of positions that llama.cpp does not know"
    if file.architecture in READ_LAYERS and not is_consistent(file):
        why = "layers or embeddings that no such head has"
    return f"has {why}, over which llama.cpp would end: choose another file of this model" if why else ""


def _split(file: Metadata, name: str) -> int:
    """A number about the parts of a split model; 0 if there is none."""
    return whole_number(file.values.get(f"split.{name}")) or 0
