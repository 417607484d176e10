"""Whether a file is a model that can chat, and if not, what it is: the list of models and loading ask here."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from spectui.gguf_files import metadata
from spectui.gguf_files.content import BEGINNING_BYTES, CUT_SHORT, FIXED_BYTES, Wrong, counts
from spectui.gguf_files.metadata import Damaged, Metadata, Tensors, Value
from spectui.gguf_files.parts import Part, part_of
from spectui.gguf_files.vocabulary import WITHOUT_TEXT, kind_of
from spectui.pin import MOST_EXPERTS, MOST_LAYERS, ONE_HEAD, SEVERAL_HEADS
from spectui.text import safe

EAGLE3, DFLASH = "eagle3", "dflash"
READ_LAYERS: Mapping[str, str] = {EAGLE3: "EAGLE-3", DFLASH: "DFlash"}
"""Architecture of a head that reads the rows of some of its target's layers, in a file of its own -> what people call it."""

BLOCK, MASK = f"{DFLASH}.block_size", "tokenizer.ggml.mask_token_id"
"""The keys of one that foresees a block of tokens in one pass: how many that pass is over, and at which token it foresees."""

USUAL_BLOCK = 16
"""Where the file does not say it."""

_ROPE_SCALINGS = (b"none", b"linear", b"yarn", b"longrope")
_I64 = 27  # ggml_type (ggml.h)
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

TARGETS: Mapping[str, str] = {"gemma4-assistant": "gemma4"}
"""Architecture of a file of heads that are a model of another architecture than their target -> that of the target."""

_TYPES: Mapping[str, str] = {
    "adapter": "is a LoRA adapter, which changes a model: choose the model itself",
    "mmproj": _SEES,
    "imatrix": "is an importance matrix, which only a quantiser reads: choose the model itself",
}
"""`general.type` -> the same."""


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
    return Judgement(problem or purpose(first.values, tensors, textless, heads) or _unfit(first), size, whole)


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
        tensors, keys = counts(opened.read(BEGINNING_BYTES), size)
        opened.seek(FIXED_BYTES)
        reader = slowed(metadata.reader(opened, min(size, most or metadata.LARGEST)))
        found = metadata.read_metadata(opened, reader, size, tensors, keys)
        opened.seek(metadata.aligned(found.tensors.end, found.values))
        behind = opened.read(4)
    if found.tensors.end > size:
        raise Wrong(CUT_SHORT)
    if behind == b"GGUF" and _number(found.values, "split.count") > 1:
        raise Wrong(_JOINED)
    return found


def _in_words(damage: Damaged) -> str:
    return str(damage) if isinstance(damage, Wrong) else CUT_SHORT


def _with_later_parts(
    file: Path, size: int, first: Metadata, read: Callable[[Path], Metadata]
) -> tuple[str, int, Tensors]:
    """(problem, bytes, tensors) of a whole model, given its first part or its only file.

    llama.cpp asks the keys of the first part whether there are more, and finds those by its name.
    """
    tensors, count, number = first.tensors, _number(first.values, "split.count"), _number(first.values, "split.no")
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
        if (_number(found.values, "split.no"), _number(found.values, "split.count")) != (part.number - 1, count):
            return f"has a part {part.number} of {part.parts} that is another: {_SAME_NAMES}", size, tensors
        tensors = tensors.with_those_of(found.tensors)
    whole = _number(first.values, "split.tensors.count")
    if split and whole and tensors.number != whole:
        return f"has parts of different models: {_SAME_NAMES}", size, tensors
    return "", size, tensors


def purpose(values: Mapping[str, Value], tensors: Tensors, textless: bool, heads: bool = False) -> str:
    """What a file with these keys is, if it is no chat model; "" if it may be one."""
    architecture = metadata.architecture_of(values)
    kind, pooling = text_of(values, "general.type"), _number(values, f"{architecture}.pooling_type")
    tokenizer = kind_of(text_of(values, "tokenizer.ggml.model"))
    if said := _TYPES.get(kind) or _PURPOSES.get(architecture):
        return said
    if kind not in ("", "model"):
        return f"is no model of its own ({kind}): choose a chat model"
    if tensors.number == 0:
        return "has no weights, only a vocabulary: choose the model itself"
    if are_heads(values, tensors) and not (heads and usable_heads(values, tensors)):
        if usable_heads(values, tensors):
            if architecture in READ_LAYERS:
                return _OF_LAYERS.format(READ_LAYERS[architecture])
            return _ASSISTANT if architecture in TARGETS else _HEADS
        if architecture == DFLASH:
            return _OTHER_BLOCKS.format(_kind_of_block(values, tensors))
        named, there = _number(values, f"{architecture}.nextn_predict_layers"), tensors.heads
        there = _number(values, f"{architecture}.block_count") if architecture in TARGETS else there
        return _OTHER_HEADS if named == there else _MISSING_HEADS.format(named, there)
    # llama.cpp takes the last layers for heads, and computes the others alone.
    named, layers = (_number(values, f"{architecture}.{name}") for name in ("nextn_predict_layers", "block_count"))
    own = len(tensors.layers - tensors.headed)
    if architecture in f"{ONE_HEAD} {SEVERAL_HEADS}".split() and 0 < layers - named < own:
        return _MISSING_HEADS.format(named, max(0, layers - own))
    if pooling == _RANK:
        return _RERANKING
    if pooling > 0 or (values.get(f"{architecture}.attention.causal") is False and architecture not in READ_LAYERS):
        return _EMBEDDING
    if not tokenizer or (tokenizer == WITHOUT_TEXT and not textless):
        return "has no vocabulary of text: choose a chat model"
    return ""


def are_heads(values: Mapping[str, Value], tensors: Tensors) -> bool:
    """Whether a file with these keys is a target's own heads, apart from that."""
    architecture = metadata.architecture_of(values)
    if architecture in READ_LAYERS:
        return tensors.number > 0
    predicted = _number(values, f"{architecture}.nextn_predict_layers")
    if architecture in TARGETS:
        return True
    alone = not tensors.first_layer or predicted >= _number(values, f"{architecture}.block_count") > 0
    return predicted > 0 and tensors.number > 0 and alone


def usable_heads(values: Mapping[str, Value], tensors: Tensors) -> int:
    """Number of a target's own heads with which llama.cpp can draft: all that the keys name, else none.

    It asserts that an architecture has a graph for them, how many there are, and that each has its tensors.
    """
    architecture = metadata.architecture_of(values)
    if architecture in READ_LAYERS:
        return int(architecture == EAGLE3 or _kind_of_block(values, tensors) == READ_LAYERS[DFLASH])
    named = _number(values, f"{architecture}.nextn_predict_layers")
    if architecture in TARGETS:  # all of its layers are one
        return int(named == _number(values, f"{architecture}.block_count") > 0)
    known = architecture in SEVERAL_HEADS.split() or (named == 1 and architecture in ONE_HEAD.split())
    return named if known and named == tensors.heads else 0


def _kind_of_block(values: Mapping[str, Value], tensors: Tensors) -> str:
    """What people call a head that foresees a block of tokens in one pass."""
    if "markov_w1.weight" in tensors.apart or _number(values, f"{DFLASH}.hyper_connection.count"):
        return "DSpark"
    return "DFlash 2" if "selector_hidden.weight" in tensors.apart else READ_LAYERS[DFLASH]


def layers_read(file: Metadata) -> tuple[int, ...]:
    """The target's layers whose rows a head in this file reads; () of another file."""
    found = file.by_layer.get(f"{file.architecture}.target_layers", ()) if file.architecture in READ_LAYERS else ()
    return tuple(map(int, found))


def borrows(file: Metadata) -> bool:
    """Whether a head that reads its target's layers uses the target's embeddings or output matrix, because it has none."""
    own = {"token_embd.weight"}  # which may be DFlash's output matrix too
    if file.architecture == EAGLE3:
        own.add("output.weight")
    return file.architecture in READ_LAYERS and not own <= set(file.tensors.apart)


def assists(target: Metadata, heads: Metadata) -> bool | None:
    """Whether heads that attend to their target's last two layers can attend to those of this one; None for other heads.

    llama.cpp does not ask: it would read numbers of others, or end the process.
    """
    if heads.architecture not in TARGETS:
        return None
    width = _number(heads.values, f"{heads.architecture}.embedding_length_out")
    if (target.architecture, _number(target.values, f"{target.architecture}.embedding_length")) != (
        TARGETS[heads.architecture],
        width,
    ):
        return False
    last = _number(target.values, f"{target.architecture}.block_count")
    looked_at = [_cells(target, layer) for layer in (last - 2, last - 1)]
    attend = [_cells(heads, layer) for layer in range(_number(heads.values, f"{heads.architecture}.block_count"))]
    return (
        [each and each[0] for each in looked_at] == [True, False]
        and set(attend) <= set(looked_at)
        and looked_at[0] in attend
    )


def _cells(file: Metadata, layer: int) -> tuple[Value | None, ...] | None:
    """What a layer's cells are: whether of a sliding window, how many heads, and the lengths of keys and values."""

    def key(name: str) -> Value | None:
        return file.values.get(f"{file.architecture}.attention.{name}")

    sliding = file.by_layer.get(f"{file.architecture}.attention.sliding_window_pattern", ())
    heads = file.by_layer.get(f"{file.architecture}.attention.head_count_kv", ())
    if not 0 <= layer < len(sliding):
        return None
    suffix = "_swa" if sliding[layer] else ""
    number = heads[layer] if layer < len(heads) else key("head_count_kv")
    return bool(sliding[layer]), number, key(f"key_length{suffix}"), key(f"value_length{suffix}")


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
        found = _unfit_head(file)
    return safe(f"{found}: choose another file of this model") if found else ""


def _unfit_head(file: Metadata) -> str:
    """The same of a head that reads rows of its target's layers."""
    apart, values, read = file.tensors.apart, file.values, len(layers_read(file))
    tokens, output, ids = (apart.get(name) for name in ("token_embd.weight", "output.weight", "d2t"))
    if file.architecture == EAGLE3:
        if (layers := _number(values, f"{EAGLE3}.block_count")) != 1:
            return f"claims to have {layers} layers, where such a head has one"
        if read != 3:
            return f"reads {read} layers of its target, where such a head reads three"
    else:
        block, mask = _number(values, BLOCK) if BLOCK in values else USUAL_BLOCK, values.get(MASK)
        keys, cells = (_number(values, f"{DFLASH}.attention.{name}_length") for name in ("key", "value"))
        if not read:
            return "reads no layer of its target"
        if block < 2:
            return f"foresees blocks of {block} tokens"
        if not isinstance(mask, int) or not 0 <= mask < file.n_tokens:
            return f"foresees at a token that its vocabulary of {file.n_tokens} does not have"
        if keys != cells:
            return f"attends with keys of {keys} numbers to values of {cells}"
    if tokens is not None and tokens.shape[1:] != (file.n_tokens,):
        return f"does not have an embedding of each of its {file.n_tokens} tokens"
    if ids is not None and (ids.kind != _I64 or output is None or ids.shape != output.shape[-1:]):
        return "says of other tokens which they are than it foresees"
    return ""


def text_of(values: Mapping[str, Value], name: str) -> str:
    """The text of a key, cut and safe to show; "" if there is none."""
    value = values.get(name, b"")
    return " ".join(safe(value[:40].decode("utf-8", "replace")).split()) if isinstance(value, bytes) else ""


def _number(values: Mapping[str, Value], name: str) -> int:
    """The number of a key; 0 if there is none."""
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))
