"""Write a model with heads of its own (multi-token prediction), whose weights are made: all it says can be calculated.

The target is a Markov chain: its embeddings are unit vectors, attention and feed-forward add nothing, and the output matrix
holds the logarithms of the chances of what follows each token. A head does the same with the token that it reads, and adds
`echo` times what follows the token of its hidden row: it foresees the target often, not always, and a wrong hidden row shows.
More layers and tokens make the target dearer, and change nothing that it says.

    python -m tests.llama.heads.headed FILE

writes one of the shape of a 0.8B of Qwen3.5, 3.5 GB; `spectui draft make -m FILE --type q8_0` makes 0.9 GB of it.
"""

import sys
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.llama.ggufs import WORDS, add_vocabulary, finished, sized

END = 2
LETTERS = "etaoin shrdlu"
TOKENS = len(WORDS) + 256
PLACES = [len(WORDS) + ord(letter) for letter in LETTERS]
"""The tokens of the letters."""
UNLIKELY = -9.0
"""The logit of what does not follow a token."""


def chances(seed: int = 0) -> NDArray[np.float32]:
    """The logits of the token behind each token: float32 [tokens, tokens]."""
    random = np.random.default_rng(seed)
    found = np.full((TOKENS, TOKENS), UNLIKELY, np.float32)
    for token in range(TOKENS):
        following = random.choice(PLACES, 4, replace=False)
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
    writer = begun(path, "step35", layers + heads, width, feed_forward, rope=width // 4, more=more)
    if heads:
        writer.add_uint32("step35.nextn_predict_layers", heads)
    writer.add_expert_feed_forward_length(feed_forward)
    writer.add_sliding_window(4096)
    writer.add_array("step35.attention.sliding_window_pattern", [block % 2 == 0 for block in range(layers + heads)])
    random = np.random.default_rng(0)

    def some(*shape: int) -> NDArray[np.float32]:
        return (random.standard_normal(shape) / 16).astype(np.float32)

    output = np.zeros((TOKENS + more, width), np.float32)
    output[:, :TOKENS] = 2 * UNLIKELY / np.sqrt(width)  # norms make vectors of that length
    output[:TOKENS, :TOKENS] = chances().T / np.sqrt(width)
    add(writer, token_embd=np.eye(TOKENS + more, width), output_norm=np.ones(width), output=output)
    for block in range(layers if alone else 0, layers if without else layers + heads):
        add_layer(
            writer, block,
            **dict.fromkeys(("attn_norm", "ffn_norm"), np.ones(width)),
            **{name: some(width, width) for name in ("attn_q", "attn_k", "attn_v")},
            **{name: some(feed_forward, width) for name in ("ffn_gate", "ffn_up")},
            attn_output=np.zeros((width, width)), ffn_down=np.zeros((width, feed_forward)),
        )  # fmt: skip
        if block >= layers:
            same = np.eye(width, dtype=np.float32)
            add(writer, **{f"blk.{block}.nextn.{name}": np.ones(width) for name in ("enorm", "hnorm")})
            add(writer, **{f"blk.{block}.nextn.eh_proj": np.concatenate([same, echo * same], axis=1)})
    return finished(writer, path)


def foreseen(tokens: list[int], drafted: int, echo: float = 0.1) -> NDArray[np.float32]:
    """What a head says behind these tokens, of which the last `drafted` are drafted: logits, float32 [tokens].

    Hidden rows are sums of unit vectors. Those of the target are the token's own; a head's is what it has read.
    """
    logits, size = chances(), TOKENS

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
    width, state, groups, values = 32, 8, 2, 4
    keys_width, inner = state * groups, state * values
    writer = begun(path, "qwen35", 3 + heads, width, width, attention=2, rope=8)
    if heads:
        writer.add_uint32("qwen35.nextn_predict_layers", heads)
    writer.add_key_length(16)
    writer.add_value_length(16)
    writer.add_array("qwen35.rope.dimension_sections", [2, 1, 1, 0])
    writer.add_uint32("qwen35.full_attention_interval", 3)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(values)
    writer.add_ssm_group_count(groups)
    random = np.random.default_rng(0)

    def some(*shape: int) -> NDArray[np.float64]:
        return random.standard_normal(shape) / 4

    add(writer, token_embd=some(TOKENS, width), output=some(TOKENS, width), output_norm=np.ones(width))
    for block in range(3 + heads):
        add_layer(
            writer, block,
            **dict.fromkeys(("attn_norm", "post_attention_norm"), np.ones(width)),
            **{part: some(width, width) for part in ("ffn_gate", "ffn_up", "ffn_down")},
        )  # fmt: skip
        if block < 2:
            add_layer(
                writer, block,
                attn_qkv=some(2 * keys_width + inner, width), attn_gate=some(inner, width),
                ssm_conv1d=some(2 * keys_width + inner, 4), ssm_beta=some(values, width), ssm_alpha=some(values, width),
                ssm_norm=np.ones(state), ssm_out=some(width, inner),
            )  # fmt: skip
            writer.add_tensor(f"blk.{block}.ssm_dt.bias", some(values).astype(np.float32))
            writer.add_tensor(f"blk.{block}.ssm_a", -np.ones(values, np.float32))
            continue
        add_layer(
            writer, block,
            attn_q=some(64, width), attn_k=some(32, width), attn_v=some(32, width), attn_output=some(width, 32),
            **dict.fromkeys(("attn_q_norm", "attn_k_norm"), np.ones(16)),
        )  # fmt: skip
        if block >= 3:
            heads_own = {"eh_proj": some(width, 2 * width), "enorm": np.ones(width), "hnorm": np.ones(width)}
            add(writer, **{f"blk.{block}.nextn.{name}": tensor for name, tensor in heads_own.items()})
    return finished(writer, path)


def begun(
    path: Path, architecture: str, layers: int, width: int, feed_forward: int, *, attention: int = 4, cells: int = 0,
    rope: int = 0, more: int = 0,
) -> gguf.GGUFWriter:  # fmt: skip
    """A writer with the keys of these sizes and the vocabulary: the bytes, a few control tokens, and so many `more`.

    `attention`: heads of a layer. `cells`: those of its keys, if they are fewer. `rope`: numbers that positions turn."""
    writer = sized(path, architecture, layers, width, feed_forward, 4096)
    writer.add_head_count(attention)
    writer.add_head_count_kv(cells or attention)
    writer.add_layer_norm_rms_eps(1e-6)
    if rope:
        writer.add_rope_dimension_count(rope)
    add_vocabulary(writer, more)
    return writer


def add(writer: gguf.GGUFWriter, **tensors: NDArray[np.floating]) -> None:
    """Add these tensors in float32."""
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(tensor, np.float32))


def add_layer(writer: gguf.GGUFWriter, block: int, **tensors: NDArray[np.floating]) -> None:
    """Add these tensors of a layer."""
    add(writer, **{f"blk.{block}.{name}": tensor for name, tensor in tensors.items()})


if __name__ == "__main__":
    write_headed(Path(sys.argv[1]), layers=24, width=1024, feed_forward=3584, more=248_320 - 261)
