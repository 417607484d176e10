"""Write a model of 130,000 random weights, to try llama.cpp's kernels on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

VOCABULARY = 64
_WIDTH = 256  # the quantisations work on blocks of 256 weights


def write_tiny_model(path: Path) -> None:
    """Write a llama of one layer, width 256 and 64 tokens without text, in F32, to `path`."""
    import gguf

    numbers = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_WIDTH)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, (numbers.standard_normal(shape) / 16).astype(np.float32))

    add("token_embd.weight", VOCABULARY, _WIDTH)
    add("output.weight", VOCABULARY, _WIDTH)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        add(f"blk.0.{name}.weight", _WIDTH, _WIDTH)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(_WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
