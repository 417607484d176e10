"""Read the keys of a GGUF file within bounds, and find what would end the process: llama.cpp asserts some of it.

Format: ggml's docs/gguf.md. Lengths and counts come from the file, so each is compared with the file's size first.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
LARGEST = 1 << 28
"""Most bytes that are read of the keys and the list of tensors: ten times what the largest real files have."""

_LONGEST_KEY = 65_535
_LONGEST_TENSOR_NAME = 63  # GGML_MAX_NAME, GGML_MAX_DIMS
_MOST_DIMENSIONS = 4
_LONGEST_TEXT = 1 << 27  # a tokenizer in JSON takes 33 MB
_MOST_LAYERS = _MOST_EXPERTS = 512  # LLAMA_MAX_LAYERS, LLAMA_MAX_EXPERTS
_TOKENIZER = ("model", "pre", "bos_token_id", "eos_token_id", "add_bos_token", "add_eos_token")
_ROPE_SCALINGS = (b"none", b"linear", b"yarn", b"longrope")

Value = int | float | bool | bytes
Read = Callable[[int], bytes]


class Damaged(ValueError):
    """The keys are not those of a GGUF file, or end too early."""


def reader(file: BinaryIO, most: int) -> Read:
    """A function that reads n bytes. It raises Damaged at the file's end, and after `most` bytes in all."""
    left = most

    def read(count: int) -> bytes:
        nonlocal left
        left -= count
        if left < 0:
            raise Damaged(f"more than {most} bytes")
        content = file.read(count)
        if len(content) < count:
            raise Damaged("cut short")
        return content

    return read


def entries(read: Read, keys: int) -> Iterator[tuple[str, Value | Strings | Numbers]]:
    """(name, value) of each key, in the file's order. Raises Damaged, and what `read` raises.

    `read` continues after the fixed header, `keys` is the count in it. Strings that the caller does not read are skipped.
    """
    for _ in range(keys):
        name = _string(read, _LONGEST_KEY).decode("utf-8", "replace")
        kind = _number(read, "I")
        if kind == _ARRAY:
            inner, count = int(_number(read, "I")), int(_number(read, "Q"))
            if inner == _STRING:
                strings = Strings(read, count)
                yield name, strings
                for _ in strings:
                    pass
            elif inner in _FORMATS:
                yield name, Numbers(_FORMATS[inner], read(struct.calcsize(_FORMATS[inner]) * count))
            else:
                raise Damaged(f"an array of type {inner}")
        elif kind == _STRING:
            yield name, _string(read)
        elif kind in _FORMATS:
            yield name, _number(read, _FORMATS[int(kind)])
        else:
            raise Damaged(f"type {kind}")


class Strings:
    """An array of `count` strings, each read from the file during the iteration."""

    def __init__(self, read: Read, count: int) -> None:
        self.count = count
        self._left = count
        self._read = read

    def __iter__(self) -> Iterator[bytes]:
        while self._left:
            self._left -= 1
            yield _string(self._read)


class Numbers(NamedTuple):
    """An array of numbers: the sign of their type, as `struct` has it, and their bytes."""

    form: str
    content: bytes


class Metadata(NamedTuple):
    """A file's keys, as far as they matter before llama.cpp loads it.

    `problem`: why the model cannot be used, to complete the sentence "The model ..."; "" if it can. `start` and `end`: the
    bytes of the file that hold the texts of its `n_tokens` tokens. `tokenizer`: the other keys that decide how a text is
    tokenised.
    """

    problem: str
    architecture: str = ""
    n_tokens: int = 0
    start: int = 0
    end: int = 0
    tokenizer: tuple[Value | None, ...] = ()
    tied: int = 0
    """Bytes of the token embedding, if the file has no output matrix and llama.cpp uses the embedding for it."""


def read_metadata(file: BinaryIO, size: int, tensors: int, keys: int) -> Metadata:
    """The metadata of a file that is opened after the fixed header. Raises Damaged, OSError.

    `size` is the whole file's in bytes, `tensors` and `keys` are the counts in the fixed header.
    """
    values: dict[str, Value] = {}
    n_tokens = start = end = 0
    read = reader(file, min(size, LARGEST))
    for name, value in entries(read, keys):
        if not isinstance(value, Strings | Numbers):
            values[name] = value
        elif name == "tokenizer.ggml.tokens" and isinstance(value, Strings):
            n_tokens, start = value.count, file.tell()
            if twice := _first_duplicate(value):
                return Metadata(f"has the token {_shown(twice)} more than once in its vocabulary")
            end = file.tell()
    found = problem_of(values)
    tied = _check_tensors(read, tensors, size) if not found else 0
    tokenizer = tuple(values.get(f"tokenizer.ggml.{name}") for name in _TOKENIZER)
    return Metadata(found, _architecture(values), n_tokens, start, end, tokenizer, tied)


def problem_of(values: Mapping[str, Value]) -> str:
    """What in these keys would end the process, to complete the sentence "The model ..."; "" if nothing would."""
    prefix = _architecture(values)

    def value(name: str) -> Value | None:
        return values.get(f"{prefix}.{name}")

    layers, experts = value("block_count"), value("expert_count") or 0
    used = value("expert_used_count") or 0
    if isinstance(layers, int) and not 1 <= layers <= _MOST_LAYERS:
        return f"claims to have {layers} layers"
    if isinstance(experts, int) and isinstance(used, int) and not 0 <= used <= max(experts, 0) <= _MOST_EXPERTS:
        return f"claims to use {used} of {experts} experts"
    for name in ("layer_norm_rms_epsilon", "layer_norm_epsilon"):
        epsilon = value(f"attention.{name}")
        if isinstance(epsilon, float) and not (math.isfinite(epsilon) and epsilon >= 0):
            return f"claims an epsilon of {epsilon}"
    scaling = value("rope.scaling.type")
    if isinstance(scaling, bytes) and scaling not in _ROPE_SCALINGS:
        return f"scales its positions in a way that this llama.cpp does not know ({_shown(scaling)})"
    return ""


def _architecture(values: Mapping[str, Value]) -> str:
    name = values.get("general.architecture")
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else ""


def _check_tensors(read: Read, tensors: int, size: int) -> int:
    """`Metadata.tied`. Raise Damaged if a tensor has too many dimensions or numbers, or begins after the file's end."""
    embedding, has_output = 0, False
    for _ in range(tensors):
        name = _string(read, _LONGEST_TENSOR_NAME)
        dimensions = int(_number(read, "I"))
        if dimensions > _MOST_DIMENSIONS:
            raise Damaged(f"a tensor of {dimensions} dimensions")
        numbers = math.prod(int(_number(read, "Q")) for _ in range(dimensions))
        kind = int(_number(read, "I"))  # llama.cpp checks itself whether it knows this type
        offset = int(_number(read, "Q"))
        if offset > size or numbers > 8 * size:  # no type has less than a bit a number
            raise Damaged(f"a tensor of {numbers} numbers at {offset}")
        has_output |= name == b"output.weight"
        if name == b"token_embd.weight":
            embedding = _bytes_of(numbers, kind)
    return 0 if has_output else embedding


def _bytes_of(numbers: int, kind: int) -> int:
    """Bytes of a tensor of this type; 0 for an unknown one."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        per_block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (ValueError, KeyError):
        return 0
    return int(numbers // per_block * size)


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))


def _first_duplicate(tokens: Iterable[bytes]) -> bytes:
    """The first token that occurs twice, b"" if none does."""
    seen: set[bytes] = set()
    for text in tokens:
        if text in seen:
            return text
        if text:  # llama.cpp gives names to empty ones
            seen.add(text)
    return b""


def _string(read: Read, most: int = _LONGEST_TEXT) -> bytes:
    length = int(_number(read, "Q"))
    if length > most:
        raise Damaged(f"a text of {length} bytes")
    return read(length)


def _number(read: Read, form: str) -> int | float | bool:
    number: int | float | bool = struct.unpack(f"<{form}", read(struct.calcsize(f"<{form}")))[0]
    return number
