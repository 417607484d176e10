"""Write small GGUF files: a model of a few thousand weights, with the vocabulary and the keys that a test needs."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from spectui.llama.model import Model

WIDTH = 32
SPM = ("llama", "default")
WORDS = ("<unk>", "<|im_start|>", "<|im_end|>", "<s>", "</s>")


def byte_names() -> list[str]:
    """The 256 bytes as byte-level BPE spells them (GPT-2)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(256)]


def sized(path: Path, architecture: str, layers: int, width: int, feed_forward: int, n_ctx: int = 512) -> gguf.GGUFWriter:
    """A writer with the keys of these sizes; those of attention and of the vocabulary are to be added."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(feed_forward)
    return writer


def add_vocabulary(writer: gguf.GGUFWriter, more: int = 0) -> None:
    """The five words, the 256 bytes and so many `more`, for models that are written otherwise."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*WORDS, *byte_names(), *(f"more {number}" for number in range(more))])
    writer.add_token_types([3] * len(WORDS) + [1] * (256 + more))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)


def write_model(
    path: Path,
    *,
    architecture: str = "llama",
    tokens: Sequence[str] | None = None,
    types: Sequence[int] | None = None,
    merges: Sequence[str] = ("a b",),
    strings: Mapping[str, str] | None = None,
    keys: Callable[[gguf.GGUFWriter], None] = lambda _: None,
    template: str | None = None,
    numbers: Mapping[str, int] | None = None,
    add_bos: bool = False,
    tokenizer: tuple[str, str] = ("gpt2", "smollm"),
) -> Path:
    """A llama of one layer. `numbers`: keys of type uint32. `tokenizer`: byte-level BPE and how it cuts texts before, or
    another; the tokens of `SPM` are the likelier the earlier they come. Returns the path."""
    words = list(tokens) if tokens is not None else [*WORDS, *byte_names()]
    kinds = list(types) if types is not None else [3] * len(WORDS) + [1] * (len(words) - len(WORDS))
    writer = sized(path, architecture, 1, WIDTH, WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(tokenizer[0])
    writer.add_tokenizer_pre(tokenizer[1])
    if tokenizer == SPM:
        writer.add_token_scores([-float(number) for number in range(len(words))])
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(list(merges))
    given = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, **(numbers or {})}
    for key, number in given.items():
        writer.add_uint32(key, number)
    writer.add_add_bos_token(add_bos)
    if template is not None:
        writer.add_chat_template(template)
    for key, text in (strings or {}).items():
        writer.add_string(key, text)
    keys(writer)
    random = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) / 4).astype(np.float32))

    add("token_embd.weight", len(words), WIDTH)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        add(f"blk.0.{name}.weight", WIDTH, WIDTH)
    norms = ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"]
    if architecture == "gemma3":
        norms += ["blk.0.post_attention_norm", "blk.0.post_ffw_norm"]
        for name in ("blk.0.attn_q_norm", "blk.0.attn_k_norm"):
            writer.add_tensor(f"{name}.weight", np.ones(WIDTH // 2, np.float32))
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    return finished(writer, path)


def finished(writer: gguf.GGUFWriter, path: Path) -> Path:
    """Write the file. Returns its path."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_gemma(path: Path, template: str | None = None) -> Path:
    """A gemma3, whose attention looks back at 16 tokens only. Returns the path."""

    def window(writer: gguf.GGUFWriter) -> None:
        writer.add_sliding_window(16)
        writer.add_key_length(16)
        writer.add_value_length(16)

    return write_model(path, architecture="gemma3", keys=window, template=template)


@cache
def vocabulary_of(path: str) -> Mapping[str, Any]:
    """The vocabulary of a GGUF file, as arguments for `write_model`."""
    fields = gguf.GGUFReader(path).fields
    name = "tokenizer.ggml."
    return {
        "tokens": fields[f"{name}tokens"].contents(),
        "types": fields[f"{name}token_type"].contents(),
        "merges": fields[f"{name}merges"].contents(),
    }


def spelled(model: Model, tokens: Sequence[int]) -> str:
    """The text of the tokens, names included."""
    return b"".join(model.piece(token) or model.token_text(token).encode() for token in tokens).decode()
