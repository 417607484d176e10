"""Write a Llama and its EAGLE-3 file, whose weights are made as those of `headed` are.

Each layer of the target adds the same vector to every token's row, in numbers of its own, so that the rows of different layers
differ. The head attends to the token that it reads alone, and adds `echo` times what follows the token of its hidden row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.llama.ggufs import WORDS, byte_names
from tests.llama.heads.headed import END, LETTERS, add_vocabulary, chances, finish

WIDTH, OWN_WIDTH, HEADS = 288, 272, 4
TOKENS = len(WORDS) + 256
LAYERS = (1, 2, 3)
"""The target's layers whose rows the head reads."""


def write_target(
    path: Path,
    *,
    architecture: str = "llama",
    layers: int = 4,
    width: int = WIDTH,
    shown: int = TOKENS,
    logits: NDArray[np.float32] | None = None,
) -> Path:
    """A target in float32. `shown`: tokens of its vocabulary. `logits`: of the token behind each token; None for `chances`.
    Returns the path."""
    writer = _begun(path, architecture, layers, width, 32, shown)
    random = np.random.default_rng(1)
    output = np.zeros((shown, width), np.float32)
    output[:, :shown] = (chances() if logits is None else logits)[:shown, :shown].T / np.sqrt(width)
    _add(writer, "token_embd", np.eye(shown, width))
    _add(writer, "output", output)
    _add(writer, "output_norm", np.ones(width))
    for block in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            _add(writer, f"blk.{block}.{name}", np.ones(width))
        for name in ("attn_q", "attn_k", "attn_v"):
            _add(writer, f"blk.{block}.{name}", random.standard_normal((width, width)) / 16)
        _add(writer, f"blk.{block}.attn_output", np.zeros((width, width)))
        for name in ("ffn_gate", "ffn_up"):  # each token has one number, so it is the same for all
            _add(
                writer, f"blk.{block}.{name}", np.concatenate([np.ones((32, shown)), np.zeros((32, width - shown))], 1)
            )
        down = np.zeros((width, 32))
        down[shown + block] = 0.1 / 32 / width
        _add(writer, f"blk.{block}.ffn_down", down)
    finish(writer)
    return path


def layer_row(token: int, layer: int, width: int = WIDTH) -> NDArray[np.float64]:
    """The row that goes into this layer for a token."""
    row = np.eye(TOKENS, width)[token]
    for block in range(layer):
        one = np.sqrt(width) / np.linalg.norm(row)
        row[TOKENS + block] += 0.1 * one**2 / (1 + np.exp(-one)) / width
    return row


def write_eagle(
    path: Path,
    *,
    echo: float = 0.1,
    layers: Sequence[int] = LAYERS,
    target_width: int = WIDTH,
    width: int = OWN_WIDTH,
    tokens: int = TOKENS,
    mapped: Sequence[int] | None = None,
    own: bool = True,
) -> Path:
    """The head, in float32. `mapped`: the ids of the tokens that it can foresee; None for all. `own`: it has embeddings of its
    own, else it is as wide as the target. Returns the path."""
    random = np.random.default_rng(2)
    writer = _begun(path, "eagle3", 1, width, width // 2, tokens)
    writer.add_array("eagle3.target_layers", list(layers))
    writer.add_uint32("eagle3.target_hidden_size", target_width)
    writer.add_bool("eagle3.norm_before_residual", True)
    # Tokens have the same numbers in all three rows, the layers' own ones are left out.
    part = np.eye(width, target_width)
    part[TOKENS:] = 0
    part[:, TOKENS:] = 0
    _add(writer, "fc", np.concatenate([part * share for share in (2, -2, 1)], axis=1))
    ids = list(range(TOKENS)) if mapped is None else list(mapped)
    if mapped is not None:
        writer.add_tensor("d2t", np.array(ids, np.int64))
    if own:
        output = np.zeros((len(ids), width), np.float32)
        output[:, :TOKENS] = chances().T[np.clip(ids, 0, TOKENS - 1)] / np.sqrt(width)
        _add(writer, "output", output)
        _add(writer, "token_embd", np.eye(tokens, width))
    _add(writer, "output_norm", np.ones(width))
    _add(writer, "blk.0.attn_norm", np.ones(width))
    _add(writer, "blk.0.attn_norm_2", np.full(width, echo))
    _add(writer, "blk.0.ffn_norm", np.ones(width))
    read, nothing = np.eye(width), np.zeros((width, width))
    alike = random.standard_normal((width, width))  # of two tokens the products are small
    for name, weights in (("attn_q", alike), ("attn_k", alike), ("attn_v", read)):
        _add(writer, f"blk.0.{name}", np.concatenate([weights, nothing], axis=1))
    _add(writer, "blk.0.attn_output", read)
    for name in ("ffn_gate", "ffn_up"):
        _add(writer, f"blk.0.{name}", random.standard_normal((width // 2, width)))
    _add(writer, "blk.0.ffn_down", np.zeros((width, width // 2)))
    finish(writer)
    return path


def letters() -> list[int]:
    """The ids of all that the target writes."""
    words, spelt = [*WORDS, *byte_names()], byte_names()
    return sorted({END, *(words.index(spelt[ord(letter)]) for letter in LETTERS)})


def _begun(path: Path, architecture: str, layers: int, width: int, feed_forward: int, tokens: int) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(2 if architecture == "eagle3" else width // HEADS)
    add_vocabulary(writer)
    return writer


def _add(writer: gguf.GGUFWriter, name: str, tensor: NDArray[np.float64] | NDArray[np.float32]) -> None:
    writer.add_tensor(f"{name}.weight", np.ascontiguousarray(tensor, np.float32))
