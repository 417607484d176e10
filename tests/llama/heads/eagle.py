"""Write a Llama and its EAGLE-3 file, whose weights are made as those of `headed` are.

Each layer of the target adds the same vector to every token's row, in numbers of its own, so that the rows of different layers
differ. The head attends to the token that it reads alone, and adds `echo` times what follows the token of its hidden row.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.llama.ggufs import finished
from tests.llama.heads.headed import END, PLACES, TOKENS, add, add_layer, begun, chances

WIDTH, OWN_WIDTH = 288, 272
SAID = sorted({END, *PLACES})
"""All that the target writes."""
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
    writer = begun(path, architecture, layers, width, 32, rope=width // 4)
    random = np.random.default_rng(1)
    output = np.zeros((shown, width), np.float32)
    output[:, :shown] = (chances() if logits is None else logits)[:shown, :shown].T / np.sqrt(width)
    add(writer, token_embd=np.eye(shown, width), output=output, output_norm=np.ones(width))
    for block in range(layers):
        down = np.zeros((width, 32))
        down[shown + block] = 0.1 / 32 / width
        one = np.concatenate([np.ones((32, shown)), np.zeros((32, width - shown))], 1)  # each token has one: all are alike
        add_layer(
            writer, block,
            **dict.fromkeys(("attn_norm", "ffn_norm"), np.ones(width)),
            **{name: random.standard_normal((width, width)) / 16 for name in ("attn_q", "attn_k", "attn_v")},
            attn_output=np.zeros((width, width)), ffn_gate=one, ffn_up=one, ffn_down=down,
        )  # fmt: skip
    return finished(writer, path)


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
    writer = begun(path, "eagle3", 1, width, width // 2, rope=2)
    writer.add_array("eagle3.target_layers", list(layers))
    writer.add_uint32("eagle3.target_hidden_size", target_width)
    writer.add_bool("eagle3.norm_before_residual", True)
    # Tokens have the same numbers in all three rows, the layers' own ones are left out.
    part = np.eye(width, target_width)
    part[TOKENS:] = 0
    part[:, TOKENS:] = 0
    add(writer, fc=np.concatenate([part * share for share in (2, -2, 1)], axis=1), output_norm=np.ones(width))
    ids = list(range(TOKENS)) if mapped is None else list(mapped)
    if mapped is not None:
        writer.add_tensor("d2t", np.array(ids, np.int64))
    if own:
        output = np.zeros((len(ids), width), np.float32)
        output[:, :TOKENS] = chances().T[np.clip(ids, 0, TOKENS - 1)] / np.sqrt(width)
        add(writer, output=output, token_embd=np.eye(tokens, width))
    read, nothing = np.eye(width), np.zeros((width, width))
    alike = random.standard_normal((width, width))  # of two tokens the products are small
    add_layer(
        writer, 0,
        **{f"attn_{name}": np.concatenate([part, nothing], 1) for name, part in (("q", alike), ("k", alike), ("v", read))},
        **dict.fromkeys(("attn_norm", "ffn_norm"), np.ones(width)),
        attn_norm_2=np.full(width, echo), attn_output=read, ffn_down=np.zeros((width, width // 2)),
        **{name: random.standard_normal((width // 2, width)) for name in ("ffn_gate", "ffn_up")},
    )  # fmt: skip
    return finished(writer, path)
