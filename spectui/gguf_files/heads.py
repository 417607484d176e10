"""Heads that draft for a target, in its own file or in one beside it: which a file has, and whether llama.cpp can use them."""

from __future__ import annotations

from collections.abc import Mapping

from spectui.gguf_files.metadata import Metadata, Value
from spectui.pin import ONE_HEAD, SEVERAL_HEADS

EAGLE3, DFLASH = "eagle3", "dflash"
READ_LAYERS: Mapping[str, str] = {EAGLE3: "EAGLE-3", DFLASH: "DFlash"}
"""Architecture of a head that reads the rows of some of its target's layers, in a file of its own -> what people call it."""

TARGETS: Mapping[str, str] = {"gemma4-assistant": "gemma4"}
"""Architecture of a file of heads that are a model of another architecture than their target -> that of the target."""

BLOCK, MASK = f"{DFLASH}.block_size", "tokenizer.ggml.mask_token_id"
"""The keys of one that foresees a block of tokens in one pass: how many that pass is over, and at which token it foresees."""

USUAL_BLOCK = 16
"""Where the file does not say it."""


def are_heads(file: Metadata) -> bool:
    """Whether the file is a target's heads, apart from that target."""
    if file.architecture in READ_LAYERS:
        return file.tensors.number > 0
    if file.architecture in TARGETS:
        return True
    predicted = file.number("nextn_predict_layers")
    alone = "0" not in file.tensors.layers or predicted >= file.number("block_count") > 0
    return predicted > 0 and file.tensors.number > 0 and alone


def usable_heads(file: Metadata) -> int:
    """Number of a target's heads in the file with which llama.cpp can draft: all that the keys name, else none.

    It asserts that an architecture has a graph for them, how many there are, and that each has its tensors.
    """
    architecture, named = file.architecture, file.number("nextn_predict_layers")
    if architecture in READ_LAYERS:
        return int(architecture == EAGLE3 or not _chooses(file))
    if architecture in TARGETS:  # all of its layers are one
        return int(named == file.number("block_count") > 0)
    known = architecture in SEVERAL_HEADS.split() or (named == 1 and architecture in ONE_HEAD.split())
    return named if known and named == file.tensors.heads else 0


def _chooses(file: Metadata) -> bool:
    """Whether a head that foresees a block chooses among its tokens by a part of its own (DSpark, DFlash 2)."""
    parts = {"markov_w1.weight", "selector_hidden.weight"}
    return not parts.isdisjoint(file.tensors.apart) or file.number("hyper_connection.count") > 0


def layers_read(file: Metadata) -> tuple[int, ...]:
    """The target's layers whose rows a head in the file reads (EAGLE-3, DFlash); () of another file."""
    layers = file.by_layer.get(f"{file.architecture}.target_layers", ()) if file.architecture in READ_LAYERS else ()
    return tuple(map(int, layers))


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
    wanted = TARGETS[heads.architecture], heads.number("embedding_length_out")
    if (target.architecture, target.number("embedding_length")) != wanted:
        return False
    last = target.number("block_count")
    seen = [_cells(target, layer) for layer in (last - 2, last - 1)]
    attend = [_cells(heads, layer) for layer in range(heads.number("block_count"))]
    return [cells and cells[0] for cells in seen] == [True, False] and set(attend) <= set(seen) and seen[0] in attend


def _cells(file: Metadata, layer: int) -> tuple[Value | None, ...] | None:
    """What a layer's cells are: whether of a sliding window, how many heads, and the lengths of keys and values."""
    prefix = f"{file.architecture}.attention"
    sliding = file.by_layer.get(f"{prefix}.sliding_window_pattern", ())
    heads = file.by_layer.get(f"{prefix}.head_count_kv", ())
    if not 0 <= layer < len(sliding):
        return None
    suffix = "_swa" if sliding[layer] else ""
    number = heads[layer] if layer < len(heads) else file.values.get(f"{prefix}.head_count_kv")
    lengths = (file.values.get(f"{prefix}.{name}_length{suffix}") for name in ("key", "value"))
    return bool(sliding[layer]), number, *lengths


def is_consistent(file: Metadata) -> bool:
    """Whether llama.cpp can compute with the file of a head that reads layers; it would end the process over another."""
    read, embeddings = len(layers_read(file)), file.tensors.apart.get("token_embd.weight")
    layers = (read, file.number("block_count")) == (3, 1) if file.architecture == EAGLE3 else read > 0
    return layers and (embeddings is None or embeddings.shape[1:] == (file.n_tokens,))
