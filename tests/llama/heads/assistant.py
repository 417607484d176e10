"""Write a Gemma 4 and its assistant file, whose weights are made as those of `headed` are.

The assistant has a graph of its own: it reads a token, the target's hidden row and, by attention, the target's own cells of its
last two layers. Where `attends` is 0 attention adds nothing, and all that the assistant says can be calculated (`foreseen`).
"""

from pathlib import Path

import gguf
import numpy as np

from tests.llama.ggufs import finished
from tests.llama.heads.headed import TOKENS, add, add_layer, begun, chances

WINDOW = 64
WIDTH, OWN_WIDTH = 288, 272
HEADS, HEAD = 4, 32


def write_target(path: Path, *, layers: int = 2, attends: float = 0.0, width: int = WIDTH, more: int = 0) -> Path:
    """A gemma4 in float32, each second layer with a sliding window. `attends`: how much attention adds. `more`: tokens.

    Returns the path.
    """
    writer = _begun(path, "gemma4", layers, width, HEADS, more)
    random = np.random.default_rng(1)
    output = np.zeros((TOKENS + more, width), np.float32)
    output[:TOKENS, :TOKENS] = chances().T / np.sqrt(width)
    add(writer, token_embd=np.eye(len(output), width), output=output, output_norm=np.ones(width))
    for block in range(layers):
        _add_layer(writer, block, width, random, attends)
        add_layer(
            writer, block,
            **{name: random.standard_normal((HEADS * HEAD, width)) / 16 for name in ("attn_k", "attn_v")},
            attn_k_norm=np.ones(HEAD),
        )  # fmt: skip
    return finished(writer, path)


def write_assistant(
    path: Path, *, echo: float = 0.1, attends: float = 0.0, width: int = WIDTH, heads: int = HEADS,
    layers: int = 2, own_width: int = OWN_WIDTH
) -> Path:  # fmt: skip
    """The assistant of such a target. `echo`: as in `headed`. Returns the path."""
    writer = _begun(path, "gemma4-assistant", layers, own_width, heads)
    writer.add_uint32("gemma4-assistant.embedding_length_out", width)
    writer.add_uint32("gemma4-assistant.nextn_predict_layers", layers)
    random = np.random.default_rng(2)
    output = np.zeros((TOKENS, own_width), np.float32)
    output[:, :TOKENS] = chances().T / np.sqrt(own_width)
    same = np.eye(own_width, width)
    add(writer, token_embd=output, output_norm=np.ones(own_width))
    add(writer, **{"nextn.pre_projection": np.concatenate([same, echo * same], axis=1)})
    add(writer, **{"nextn.post_projection": same.T * np.sqrt(width / own_width)})
    for block in range(layers):
        _add_layer(writer, block, own_width, random, attends)
        add_layer(writer, block, layer_output_scale=np.ones(1))
    return finished(writer, path)


def _begun(path: Path, architecture: str, layers: int, width: int, heads: int, more: int = 0) -> gguf.GGUFWriter:
    writer = begun(path, architecture, layers, width, 32, attention=HEADS, cells=heads, more=more)
    writer.add_sliding_window(WINDOW)
    writer.add_sliding_window_pattern([block % 2 == 0 for block in range(layers)])
    for name in ("key_length", "value_length", "key_length_swa", "value_length_swa"):
        writer.add_uint32(f"{architecture}.attention.{name}", HEAD)
    for name in ("dimension_count", "dimension_count_swa"):
        writer.add_uint32(f"{architecture}.rope.{name}", HEAD)
    writer.add_uint32(f"{architecture}.embedding_length_per_layer_input", 0)
    add(writer, rope_freqs=np.ones(HEAD // 2))
    return writer


def _add_layer(writer: gguf.GGUFWriter, block: int, width: int, random: np.random.Generator, attends: float) -> None:
    add_layer(
        writer, block,
        **dict.fromkeys(("attn_norm", "ffn_norm", "post_ffw_norm"), np.ones(width)),
        post_attention_norm=np.full(width, attends), attn_q_norm=np.ones(HEAD),
        attn_q=random.standard_normal((HEADS * HEAD, width)) / 16,
        attn_output=random.standard_normal((width, HEADS * HEAD)) / 16,
        **{name: random.standard_normal((32, width)) / 16 for name in ("ffn_gate", "ffn_up")},
        ffn_down=np.zeros((width, 32)),
    )  # fmt: skip
