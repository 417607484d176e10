"""Write a model of random weights, to try llama.cpp's kernels on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 64
_WIDTH = 256  # the quantisations work on blocks of 256 weights


def write_tiny_model(path: Path) -> None:
    """Write a llama of one layer, width 256 and 64 tokens without text, in F32, to `path`: 560,000 weights."""
    import gguf

    numbers = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_WIDTH)
    writer.add_head_count(_WIDTH // 64)
    writer.add_head_count_kv(_WIDTH // 64)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")

    def weights(rows: int, k: int) -> NDArray[np.float32]:
        of_them: NDArray[np.float32] = (numbers.standard_normal((rows, k)) / k**0.5).astype(np.float32)
        return of_them

    for name in ("token_embd", "output"):
        writer.add_tensor(f"{name}.weight", weights(VOCABULARY, _WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(_WIDTH, np.float32))
    for name in (*(f"attn_{part}" for part in ("q", "k", "v", "output")), "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", weights(_WIDTH, _WIDTH))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(_WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
