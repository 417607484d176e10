"""The keys of a GGUF file, read within bounds, and what in them would end the process: llama.cpp asserts some of it.

Format: ggml's docs/gguf.md. Lengths and counts come from the file, so each is held against the file's size first.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import BinaryIO

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST_KEY = 65_535
_MOST_LAYERS = _MOST_EXPERTS = 512  # LLAMA_MAX_LAYERS, LLAMA_MAX_EXPERTS
_ROPE_SCALINGS = (b"none", b"linear", b"yarn", b"longrope")

Value = int | float | bool | bytes
Read = Callable[[int], bytes]


class Damaged(ValueError):
    """Not the keys of a GGUF file, or not all of them."""


def problem(file: BinaryIO, size: int, keys: int) -> str:
    """What makes the model unusable, as the end of "The model ..."; "" if nothing does. Raises Damaged, OSError.

    `file` stands behind the header, `size` is the whole file's in bytes, `keys` the count in the header.
    """
    values: dict[str, Value] = {}

    def read(count: int) -> bytes:
        if count > size:
            raise Damaged(f"{count} bytes in a file of {size}")
        content = file.read(count)
        if len(content) < count:
            raise Damaged("cut short")
        return content

    for _ in range(keys):
        name = _string(read, _LONGEST_KEY).decode("utf-8", "replace")
        kind = _number(read, "I")
        if kind == _ARRAY:
            inner, count = _number(read, "I"), _number(read, "Q")
            if inner == _STRING:
                twice = _strings(read, size, int(count), name == "tokenizer.ggml.tokens")
                if twice:
                    return f"has the token {_shown(twice)} more than once in its vocabulary"
            elif inner in _FORMATS:
                read(struct.calcsize(_FORMATS[int(inner)]) * int(count))
            else:
                raise Damaged(f"an array of type {inner}")
        elif kind == _STRING:
            values[name] = _string(read, size)
        elif kind in _FORMATS:
            values[name] = _number(read, _FORMATS[int(kind)])
        else:
            raise Damaged(f"type {kind}")
    return _problem(values)


def _problem(values: dict[str, Value]) -> str:
    architecture = values.get("general.architecture", b"")
    prefix = architecture.decode("utf-8", "replace") if isinstance(architecture, bytes) else ""

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


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))


def _strings(read: Read, size: int, count: int, are_tokens: bool) -> bytes:
    """Read so many strings. If they are tokens: the first that stands there twice, b"" if none does."""
    if 8 * count > size:
        raise Damaged(f"{count} strings in a file of {size} bytes")
    seen: set[bytes] = set()
    for _ in range(count):
        text = _string(read, size)
        if are_tokens and text:  # llama.cpp gives empty ones names of their own
            if text in seen:
                return text
            seen.add(text)
    return b""


def _string(read: Read, most: int) -> bytes:
    length = int(_number(read, "Q"))
    if length > most:
        raise Damaged(f"a text of {length} bytes")
    return read(length)


def _number(read: Read, form: str) -> int | float | bool:
    number: int | float | bool = struct.unpack(f"<{form}", read(struct.calcsize(f"<{form}")))[0]
    return number
