"""Write the DFlash file of a Llama whose letters follow each other in a circle, with weights that are made.

The target is that of `eagle`. One of the head's attention heads looks at the token so many places before: what it finds, moved
on along the circle, is the token before the one to foresee, and the output matrix knows what follows that. The last attention
head looks at everything alike, so that it counts the masks among its cells.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.llama.ggufs import WORDS, finished
from tests.llama.heads.eagle import LAYERS, WIDTH
from tests.llama.heads.eagle import write_target as write_llama
from tests.llama.heads.headed import END, PLACES, TOKENS, UNLIKELY, add, add_layer, begun, chances

BLOCK, MASK = 5, len(WORDS)
"""Tokens of a pass, and the token that stands for one to foresee: a byte that no text has."""

_SIZE, _BASE, _SHARP, _LOUD = 64, 4.0, 8.0, 20.0
"""Numbers of a key, the base of its angles, and how much more the place that it looks for counts, and the tokens found."""

_COUNTER = TOKENS + 20
"""The number of a row that counts masks."""


def circle() -> NDArray[np.float32]:
    """The logits of the token behind each token: float32 [tokens, tokens]. Behind one letter the circle is mostly left."""
    found, places = chances(), PLACES
    for at, token in enumerate(places):
        found[token] = UNLIKELY
        for further, chance in ((3 if at == 9 else 1, 0.9), (2, 0.06), (5, 0.04)):
            found[token, places[(at + further) % len(places)]] = np.log(chance)
        found[token, END] = np.log(0.003)
    return found


def moved(places: int) -> NDArray[np.float64]:
    """The matrix that moves each letter's number on along the circle. [tokens, letters]"""
    order = PLACES
    found = np.zeros((TOKENS, len(order)))
    for at in range(len(order)):
        found[order[(at + places) % len(order)], at] = 1.0
    return found


def write_target(path: Path, **settings: int | str) -> Path:
    """As `eagle.write_target`."""
    return write_llama(path, logits=circle(), **settings)  # type: ignore[arg-type]


def write_dflash(
    path: Path,
    *,
    layers: Sequence[int] = LAYERS,
    width: int = WIDTH,
    block: int | None = BLOCK,
    tokens: int = TOKENS,
    more: int = 0,
    mapped: Sequence[int] | None = None,
    own: bool = True,
    causal: bool | None = None,
    window: int = 0,
    sections: bool = False,
    extra: Sequence[str] = (),
) -> Path:
    """The head, in float32; of another width than its target's it foresees anything. `more`: tokens of its vocabulary that the
    target does not have. `mapped`: the ids of the tokens that it can foresee; None for all. `own`: it has the output matrix
    and the embeddings of its target, else it uses those.
    `window`: of its attention, in tokens; 0 for none. `sections`: its positions have four numbers. `extra`: tensors that it
    has besides. Returns the path."""
    places = range(1, BLOCK + 1)
    writer = begun(path, "dflash", 1, width, 32, attention=len(places) + 1, cells=1, rope=_SIZE, more=more)
    writer.add_key_length(_SIZE)
    writer.add_value_length(_SIZE)
    writer.add_rope_freq_base(_BASE)
    if layers:
        writer.add_array("dflash.target_layers", list(layers))
    if block is not None:
        writer.add_uint32("dflash.block_size", block)
    if causal is not None:
        writer.add_causal_attention(causal)
    if window:
        writer.add_sliding_window(window)
        writer.add_array("dflash.attention.sliding_window_pattern", [True])
    if sections:
        writer.add_rope_dimension_sections([_SIZE // 2, 0, 0, 0])
    writer.add_mask_token_id(MASK)
    most = max(width, WIDTH)  # from which it is cut
    part = np.eye(most)
    part[TOKENS:] = 0
    part = part[:width, :width]
    add(writer, fc=np.concatenate([part * share for share in (2, -2, 1)[: len(layers) or 1]], axis=1))
    ids = list(range(TOKENS)) if mapped is None else list(mapped)
    if mapped is not None:
        writer.add_tensor("d2t", np.array(ids, np.int64))
    if own:
        output = np.zeros((len(ids), most))
        output[:, :TOKENS] = circle().T[np.clip(ids, 0, TOKENS - 1)] / np.sqrt(width)
        add(writer, output=output[:, :width], token_embd=np.eye(tokens, width))
    names = "output_norm", "enc.output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"
    add(writer, **dict.fromkeys(names, np.ones(width)))
    of_tokens = np.where(np.arange(width) < TOKENS, 1.0, 0.0)  # each token has one of these numbers
    looks = [_key(-place) for place in places] + [np.zeros(_SIZE)]
    found = moved(0)
    values = np.zeros((_SIZE, most))
    values[: found.shape[1], :TOKENS] = found.T / np.sqrt(width)
    values[found.shape[1], MASK] = 1 / np.sqrt(width)
    read = np.zeros((most, _SIZE * len(looks)))
    for index, place in enumerate(places):
        read[:TOKENS, index * _SIZE : index * _SIZE + found.shape[1]] = moved(place - 1) * _LOUD / 2**place
    read[_COUNTER, (len(looks) - 1) * _SIZE + found.shape[1]] = _LOUD
    add_layer(
        writer, 0,
        attn_q=np.concatenate([np.outer(look, of_tokens) for look in looks]), attn_k=np.outer(_key(0), of_tokens),
        attn_v=values[:, :width], attn_q_norm=np.full(_SIZE, _SHARP), attn_k_norm=np.ones(_SIZE), attn_output=read[:width],
        ffn_gate=np.ones((32, width)), ffn_up=np.ones((32, width)), ffn_down=np.zeros((width, 32)),
    )  # fmt: skip
    add(writer, **dict.fromkeys(extra, np.ones((32, TOKENS))))
    return finished(writer, path)


def _key(places: int) -> NDArray[np.float64]:
    """A key at this many places from its own. A pair of numbers is turned by its angle for each place."""
    angles = places * _BASE ** (-2 * np.arange(_SIZE // 2) / _SIZE)
    return np.concatenate([np.cos(angles), np.sin(angles)])


def foreseen(tokens: list[int], drafted: int = 0, masks: int = BLOCK - 1) -> NDArray[np.float32]:
    """What the head says behind these tokens and so many drafted ones: logits, float32 [tokens]. At least BLOCK tokens."""
    row = np.eye(TOKENS + 1)[MASK]
    for place in range(1, BLOCK + 1):
        if (at := len(tokens) + drafted - place) < len(tokens):
            known = moved(0).T @ np.eye(TOKENS)[tokens[at]]
            row[:TOKENS] += _LOUD / 2**place * (moved(place - 1) @ known)
    row[-1] = _LOUD * masks / (len(tokens) + masks)
    return ((row / np.linalg.norm(row))[:TOKENS] @ circle()).astype(np.float32)
