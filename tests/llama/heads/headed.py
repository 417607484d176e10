"""Write a model with heads of its own (multi-token prediction), whose weights are made: all it says can be calculated.

The target is a Markov chain: its embeddings are unit vectors, attention and feed-forward add nothing, and the output matrix
holds the logarithms of the chances of what follows each token. A head does the same with the token that it reads, and adds
`echo` times what follows the token of its hidden row: it foresees the target often, not always, and a wrong hidden row shows.
More layers and tokens make the target dearer, and change nothing that it says.

    python -m tests.llama.heads.headed FILE

writes one of the shape of a 0.8B of Qwen3.5, 3.5 GB; `spectui draft make -m FILE --type q8_0 --no-compare` makes 0.9 GB of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.llama.ggufs import WORDS, byte_names

END = 2
LETTERS = "etaoin shrdlu"
UNLIKELY = -9.0
"""The logit of what does not follow a token."""


def chances(seed: int = 0) -> NDArray[np.float32]:
    """The logits of the token behind each token: float32 [tokens, tokens]."""
    words = [*WORDS, *byte_names()]
    spelt = byte_names()
    letters = [words.index(spelt[ord(letter)]) for letter in LETTERS]
    random = np.random.default_rng(seed)
    found = np.full((len(words), len(words)), UNLIKELY, np.float32)
    for token in range(len(words)):
        following = random.choice(letters, 4, replace=False)
        found[token, following] = np.log([0.6, 0.2, 0.15, 0.05])
        found[token, END] = np.log(0.003)
    return found


def write_headed(
    path: Path,
    *,
    heads: int = 1,
    layers: int = 1,
    width: int = 288,
    feed_forward: int = 32,
    echo: float = 0.1,
    alone: bool = False,
    without: bool = False,
    more: int = 0,
) -> Path:
    """Of the architecture step35, float32. `alone`: only the heads, as in a file beside the target. `without`: they are
    named, and not there. `more`: tokens that are never said. Returns the path."""
    words, logits = [*WORDS, *byte_names()], chances()
    writer = gguf.GGUFWriter(path, "step35")
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_block_count(layers + heads)
    if heads:
        writer.add_uint32("step35.nextn_predict_layers", heads)
    writer.add_feed_forward_length(feed_forward)
    writer.add_expert_feed_forward_length(feed_forward)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_sliding_window(4096)
    writer.add_array("step35.attention.sliding_window_pattern", [block % 2 == 0 for block in range(layers + heads)])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(width // 4)
    add_vocabulary(writer, more)
    random = np.random.default_rng(0)

    def add(name: str, tensor: NDArray[np.float32]) -> None:
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(tensor, np.float32))

    def some(*shape: int) -> NDArray[np.float32]:
        return (random.standard_normal(shape) / 16).astype(np.float32)

    unit = np.eye(len(words) + more, width, dtype=np.float32)
    output = np.zeros((len(words) + more, width), np.float32)
    output[:, : len(words)] = 2 * UNLIKELY / np.sqrt(width)  # norms make vectors of that length
    output[: len(words), : len(words)] = logits.T / np.sqrt(width)
    add("token_embd", unit)
    add("output_norm", np.ones(width))
    add("output", output)
    for block in range(layers if alone else 0, layers if without else layers + heads):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{block}.{name}", np.ones(width))
        for name in ("attn_q", "attn_k", "attn_v"):
            add(f"blk.{block}.{name}", some(width, width))
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{block}.{name}", some(feed_forward, width))
        add(f"blk.{block}.attn_output", np.zeros((width, width)))
        add(f"blk.{block}.ffn_down", np.zeros((width, feed_forward)))
        if block >= layers:
            same = np.eye(width, dtype=np.float32)
            add(f"blk.{block}.nextn.eh_proj", np.concatenate([same, echo * same], axis=1))
            for name in ("enorm", "hnorm"):
                add(f"blk.{block}.nextn.{name}", np.ones(width))
    finish(writer)
    return path


def foreseen(tokens: list[int], drafted: int, echo: float = 0.1) -> NDArray[np.float32]:
    """What a head says behind these tokens, of which the last `drafted` are drafted: logits, float32 [tokens].

    Hidden rows are sums of unit vectors. Those of the target are the token's own; a head's is what it has read.
    """
    logits, size = chances(), len(WORDS) + 256

    def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return vector / np.linalg.norm(vector)

    known = len(tokens) - drafted
    row = np.eye(size)[tokens[known - 2]] if known > 1 else np.zeros(size)
    for token in tokens[known - 1 :]:
        row = np.eye(size)[token] + echo * (unit(row) if row.any() else row)
    return (unit(row) @ logits).astype(np.float32)


def write_hybrid(path: Path, *, heads: int = 1) -> Path:
    """Of the architecture qwen35: two layers of linear attention, one of attention, and heads, with random weights.

    What its heads foresee is worth nothing. Returns the path.
    """
    words = [*WORDS, *byte_names()]
    width, state, groups, values = 32, 8, 2, 4
    keys_width, inner = state * groups, state * values
    writer = gguf.GGUFWriter(path, "qwen35")
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_block_count(3 + heads)
    if heads:
        writer.add_uint32("qwen35.nextn_predict_layers", heads)
    writer.add_feed_forward_length(width)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_key_length(16)
    writer.add_value_length(16)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(8)
    writer.add_array("qwen35.rope.dimension_sections", [2, 1, 1, 0])
    writer.add_uint32("qwen35.full_attention_interval", 3)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(values)
    writer.add_ssm_group_count(groups)
    add_vocabulary(writer)
    random = np.random.default_rng(0)

    def add(name: str, *shape: int, scale: float = 0.25) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) * scale).astype(np.float32))

    def ones(name: str, size: int) -> None:
        writer.add_tensor(name, np.ones(size, np.float32))

    add("token_embd.weight", len(words), width)
    add("output.weight", len(words), width)
    ones("output_norm.weight", width)
    for block in range(3 + heads):
        name = f"blk.{block}"
        ones(f"{name}.attn_norm.weight", width)
        ones(f"{name}.post_attention_norm.weight", width)
        for part in ("ffn_gate", "ffn_up", "ffn_down"):
            add(f"{name}.{part}.weight", width, width)
        if block < 2:
            add(f"{name}.attn_qkv.weight", 2 * keys_width + inner, width)
            add(f"{name}.attn_gate.weight", inner, width)
            add(f"{name}.ssm_conv1d.weight", 2 * keys_width + inner, 4)
            add(f"{name}.ssm_dt.bias", values)
            writer.add_tensor(f"{name}.ssm_a", -np.ones(values, np.float32))
            add(f"{name}.ssm_beta.weight", values, width)
            add(f"{name}.ssm_alpha.weight", values, width)
            ones(f"{name}.ssm_norm.weight", state)
            add(f"{name}.ssm_out.weight", width, inner)
            continue
        add(f"{name}.attn_q.weight", 64, width)
        for part in ("attn_k", "attn_v"):
            add(f"{name}.{part}.weight", 32, width)
        add(f"{name}.attn_output.weight", width, 32)
        ones(f"{name}.attn_q_norm.weight", 16)
        ones(f"{name}.attn_k_norm.weight", 16)
        if block >= 3:
            add(f"{name}.nextn.eh_proj.weight", width, 2 * width)
            ones(f"{name}.nextn.enorm.weight", width)
            ones(f"{name}.nextn.hnorm.weight", width)
    finish(writer)
    return path


def add_vocabulary(writer: gguf.GGUFWriter, more: int = 0) -> None:
    """The bytes, a few control tokens, and so many more."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*WORDS, *byte_names(), *(f"more {number}" for number in range(more))])
    writer.add_token_types([3] * len(WORDS) + [1] * (256 + more))
    writer.add_token_merges(["a b"])
    writer.add_uint32("tokenizer.ggml.bos_token_id", 1)
    writer.add_uint32("tokenizer.ggml.eos_token_id", END)
    writer.add_add_bos_token(False)


def finish(writer: gguf.GGUFWriter) -> None:
    """Write the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write_headed(Path(sys.argv[1]), layers=24, width=1024, feed_forward=3584, more=248_320 - 261)
