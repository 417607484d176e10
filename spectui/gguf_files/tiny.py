"""Write a model of random weights, to try llama.cpp's kernels on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 64
_WIDTH = 256  # the quantisations work on blocks of 256 weights
_DIFFERENT = 16

Quantise = Callable[[NDArray[np.float32]], NDArray[np.uint8]]
"""Weights [rows, k] -> their bytes [rows, bytes of a row]."""


def write_tiny_model(path: Path) -> None:
    """Write a llama of one layer, width 256 and 64 tokens without text, in F32, to `path`: 560,000 weights."""
    write_random_model(path, _WIDTH, _WIDTH, 1)


def write_random_model(
    path: Path, width: int, feed_forward: int, layers: int, kind: int = 0, quantise: Quantise | None = None
) -> None:
    """Write a llama of this shape, with 64 tokens without text. `kind`: the ggml_type of the layers' matrices that `quantise`
    makes; F32 without it. To quantise takes long, so such a matrix has few different rows."""
    import gguf

    numbers = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(width // 64)
    writer.add_head_count_kv(width // 64)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")

    def weights(rows: int, k: int) -> NDArray[np.float32]:
        of_them: NDArray[np.float32] = (numbers.standard_normal((rows, k)) / k**0.5).astype(np.float32)
        return of_them

    def matrix(rows: int, k: int) -> dict[str, Any]:
        if quantise is None:
            return {"tensor": weights(rows, k)}
        few = quantise(weights(_DIFFERENT, k))
        return {"tensor": np.tile(few, (rows // _DIFFERENT, 1)), "raw_dtype": gguf.GGMLQuantizationType(kind)}

    for name in ("token_embd", "output"):
        writer.add_tensor(f"{name}.weight", weights(VOCABULARY, width))
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    shapes = {f"attn_{name}": (width, width) for name in ("q", "k", "v", "output")}
    shapes |= {"ffn_gate": (feed_forward, width), "ffn_up": (feed_forward, width), "ffn_down": (width, feed_forward)}
    for layer in range(layers):
        for name, shape in shapes.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", **matrix(*shape))
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
