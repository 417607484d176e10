"""Write a model of random weights and a given shape: its kernels do the work of a trained one, and it writes nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 64
"""Tokens of the tiny model."""


class Shape(NamedTuple):
    """What decides which matrices a model has. `head`: numbers of an attention head. `used`: experts for each token."""

    architecture: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    experts: int = 0
    used: int = 0


_TINY = Shape("llama", 1, 256, 256, 4, 4, 64, VOCABULARY)  # the quantisations work on blocks of 256 weights

QUANTS = {
    "Q4_0": ("Q4_0", "Q4_0", "Q6_K"), "Q4_1": ("Q4_1", "Q4_1", "Q6_K"), "Q4_K_M": ("Q4_K", "Q6_K", "Q6_K"),
    "Q5_K_M": ("Q5_K", "Q6_K", "Q6_K"), "Q6_K": ("Q6_K", "Q6_K", "Q6_K"), "Q8_0": ("Q8_0", "Q8_0", "Q8_0"),
    "F16": ("F16", "F16", "F16"), "F32": ("F32", "F32", "F32"), "pure Q4_0": ("Q4_0", "Q4_0", "Q4_0"),
}  # fmt: skip
"""Name -> types of most matrices, of `_MORE` in every second layer, and of the output, as llama.cpp's quantiser has them."""

_MORE = ("attn_v", "ffn_down", "ffn_down_exps")
_FALLBACK = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
"""What llama.cpp takes where a row is no multiple of 256 weights."""

_SCALES = {
    "Q4_0": (4.6, {0: 1.0}), "Q4_1": (4.6, {0: 1.0, 2: -7.5}), "Q5_0": (9.2, {0: 1.0}), "Q5_1": (9.2, {0: 1.0, 2: -15.5}),
    "Q8_0": (74.0, {0: 1.0}), "Q4_K": (260.0, {0: 1.0, 2: 7.5}), "Q5_K": (520.0, {0: 1.0, 2: 15.5}),
    "Q6_K": (1370.0, {208: 1.0}),
}  # fmt: skip
"""Type -> the deviation of weights of random bytes whose block has the scale 1, and at which bytes of a block half floats scale
it: by so much for a mean of 0. Large numbers would be slow: their exponentials are no normal floats."""


def tensors(shape: Shape, quant: str, layers: int) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(name, type, dimensions with the rows' length last) of a model of so many layers. Its output is its token embedding."""
    usual, more, output = QUANTS[quant]
    width, queries, keys = shape.width, shape.heads * shape.head, shape.kv_heads * shape.head
    experts, suffix = ((shape.experts,), "_exps") if shape.experts else ((), "")
    matrices: dict[str, tuple[int, ...]] = {
        "attn_q": (queries, width), "attn_k": (keys, width), "attn_v": (keys, width), "attn_output": (width, queries),
        f"ffn_gate{suffix}": (*experts, shape.feed_forward, width), f"ffn_up{suffix}": (*experts, shape.feed_forward, width),
        f"ffn_down{suffix}": (*experts, width, shape.feed_forward),
    }  # fmt: skip
    vectors = {"attn_norm.weight": width, "ffn_norm.weight": width}
    if shape.architecture.startswith("gemma"):
        vectors |= {"post_attention_norm.weight": width, "post_ffw_norm.weight": width}
    if shape.architecture in ("qwen3", "qwen3moe", "gemma3"):
        vectors |= {"attn_q_norm.weight": shape.head, "attn_k_norm.weight": shape.head}
    if shape.architecture == "qwen2":
        vectors |= {"attn_q.bias": queries, "attn_k.bias": keys, "attn_v.bias": keys}
    yield "token_embd.weight", _kind(output, width), (shape.vocabulary, width)
    yield "output_norm.weight", "F32", (width,)
    for layer in range(layers):
        for name, size in matrices.items():
            kind = more if name in _MORE and layer % 2 == 0 else usual
            yield f"blk.{layer}.{name}.weight", _kind(kind, size[-1]), size
        if experts:
            yield f"blk.{layer}.ffn_gate_inp.weight", "F32", (shape.experts, width)
        for name, length in vectors.items():
            yield f"blk.{layer}.{name}", "F32", (length,)


def bytes_of(shape: Shape, quant: str, layers: int) -> int:
    """Bytes of the weights of so many layers, with the output."""
    return sum(int(np.prod(size[:-1])) * _row(kind, size[-1]) for _, kind, size in tensors(shape, quant, layers))


def write_model(path: Path, shape: Shape, quant: str, layers: int, texts: bool = True) -> None:
    """Write the first layers of such a model. `texts`: its tokens are texts, and it has a chat template."""
    import gguf

    writer = gguf.GGUFWriter(path, shape.architecture)
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    if shape.architecture.startswith("gemma"):
        writer.add_sliding_window(512)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.used)
        writer.add_expert_feed_forward_length(shape.feed_forward)
    writer.add_tokenizer_model("gpt2" if texts else "no_vocab")
    if texts:
        writer.add_token_list([f"t{token}" for token in range(shape.vocabulary)])
        writer.add_token_types([1] * shape.vocabulary)
        writer.add_token_merges(["a b"])
        writer.add_chat_template("{% for message in messages %}{{ message.content }}{% endfor %}")
    numbers = cache(_weights)  # layers share what is in memory
    for name, kind, size in tensors(shape, quant, layers):
        vector = len(size) == 1
        raw = None if vector or kind == "F32" else gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, np.ones(size, np.float32) if vector else numbers(kind, size), raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_tiny_model(path: Path) -> None:
    """Write a llama of one layer, width 256 and 64 tokens without text, in F32, to `path`: 475,000 weights."""
    write_model(path, _TINY, "F32", 1, texts=False)


def _kind(kind: str, k: int) -> str:
    return _FALLBACK.get(kind, kind) if k % 256 else kind


def _row(kind: str, k: int) -> int:
    """Bytes of a row of k weights."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    weights, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return int(k // weights * size)


def _weights(kind: str, size: tuple[int, ...]) -> NDArray[Any]:
    """Random numbers of this type: of a quantised one a few thousand random blocks with small scales, over and over."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    numbers, deviation = np.random.default_rng(0), size[-1] ** -0.5
    if kind in ("F16", "F32"):
        some = deviation * numbers.standard_normal(1 << 20)
        return np.resize(some.astype(np.float32 if kind == "F32" else np.float16), size)
    blocks = numbers.integers(0, 256, (1 << 12, GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]), np.uint8)
    spread, places = _SCALES[kind]
    for at, share in places.items():
        blocks[:, at : at + 2] = np.frombuffer(np.float16(share * deviation / spread).tobytes(), np.uint8)
    return np.resize(blocks, (*size[:-1], _row(kind, size[-1])))
