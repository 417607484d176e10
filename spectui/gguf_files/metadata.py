"""Read the keys and the list of tensors of a GGUF file, within bounds.

Format: ggml's docs/gguf.md. Lengths and counts come from the file, so each is compared with the file's size first.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from spectui.gguf_files.vocabulary import WITHOUT_TEXT, VocabularyDigest, digests_of, kind_of, padding_of
from spectui.pin import LONGEST_TENSOR_NAME, MOST_DIMENSIONS, MOST_LAYERS
from spectui.text import safe

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
LARGEST = 1 << 28
"""Most bytes that are read of the keys and the list of tensors: ten times what the largest real files have."""

_LONGEST_KEY = 65_535
_LONGEST_TEXT = 1 << 27  # a tokenizer in JSON takes 33 MB
_KEPT = 1000  # bytes of a text
_EMBEDDING = b"token_embd.weight"
_OF_A_HEAD = (b"eh_proj.weight", b"enorm.weight", b"hnorm.weight")
_ALIGNMENT = 32  # GGUF_DEFAULT_ALIGNMENT, and TENSOR_ALIGNMENT of ggml-backend.cpp

Value = int | float | bool | bytes
Read = Callable[[int], bytes]


CUT_SHORT = "is damaged or cut short: download it again"


class Damaged(ValueError):
    """The file is no whole GGUF file. The text completes the sentence "The model ..." and says what to do."""

    def __init__(self, what: str = CUT_SHORT) -> None:
        super().__init__(what)


def reader(file: BinaryIO, most: int) -> Read:
    """A function that reads n bytes. It raises Damaged at the file's end, and after `most` bytes in all."""
    left = most

    def read(count: int) -> bytes:
        nonlocal left
        left -= count
        if left < 0:
            raise Damaged
        content = file.read(count)
        if len(content) < count:
            raise Damaged
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
                raise Damaged
        elif kind == _STRING:
            yield name, _string(read)
        elif kind in _FORMATS:
            yield name, _number(read, _FORMATS[int(kind)])
        else:
            raise Damaged


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

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.content) // struct.calcsize(self.form)


class Matrices(NamedTuple):
    """A tensor that passes multiply by: `number` matrices of `rows` rows of `k` weights of this ggml_type, `bytes` in all."""

    kind: int
    k: int
    rows: int
    number: int
    bytes: int
    name: str
    layer: int | None
    """None: of no layer."""


class Tensor(NamedTuple):
    """An entry of the list of tensors. `kind`: its ggml_type. `size`: in bytes, 0 of an unknown type."""

    name: bytes
    kind: int
    shape: tuple[int, ...]
    size: int

    @property
    def layer(self) -> bytes:
        """The number of its layer; b"" if it is of none."""
        return self.name.split(b".")[1] if self.name.startswith(b"blk.") else b""


@dataclass(frozen=True)
class Tensors:
    """The tensors of a file or of several parts.

    `end`: the byte of the file after the last of their numbers, or after the keys without any. `mappable`: they lie where
    llama.cpp asserts it of a file that it maps into memory.
    """

    entries: tuple[Tensor, ...] = ()
    end: int = 0
    mappable: bool = True

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.entries)

    @cached_property
    def apart(self) -> Mapping[str, Tensor]:
        """Those of no layer, by name."""
        return {tensor.name.decode("utf-8", "replace"): tensor for tensor in self.entries if not tensor.layer}

    @cached_property
    def layers(self) -> frozenset[bytes]:
        """The numbers of the layers that have some."""
        return frozenset(tensor.layer for tensor in self.entries) - {b""}

    @property
    def headed(self) -> frozenset[bytes]:
        """The numbers of the layers that are heads (multi-token prediction)."""
        return frozenset(tensor.layer for tensor in self.entries if b".nextn." in tensor.name)

    @property
    def heads(self) -> int:
        """How many heads are whole."""
        parts = Counter(tensor.name.partition(b".nextn.")[2] for tensor in self.entries)
        return min(parts[part] for part in _OF_A_HEAD)

    @property
    def tied(self) -> int:
        """Bytes of the token embedding, if llama.cpp uses it for the output too, because there is no output matrix."""
        embedding = self.apart.get("token_embd.weight")
        return embedding.size if embedding is not None and "output.weight" not in self.apart else 0

    @property
    def matrices(self) -> tuple[Matrices, ...]:
        """Those that passes multiply by."""
        return tuple(
            Matrices(
                tensor.kind, tensor.shape[0], tensor.shape[1], math.prod(tensor.shape[2:]), tensor.size,
                tensor.name.decode("utf-8", "replace"), int(tensor.layer) if tensor.layer.isdigit() else None,
            )
            for tensor in {tensor.name: tensor for tensor in self.entries}.values()
            if len(tensor.shape) > 1 and (b"token_embd" not in tensor.name or (tensor.name == _EMBEDDING and self.tied))
        )  # fmt: skip

    def with_those_of(self, part: Tensors) -> Tensors:
        """Those of two parts of a model."""
        return Tensors(self.entries + part.entries, 0, self.mappable and part.mappable)


class Metadata(NamedTuple):
    """A file's keys and tensors, as far as they matter before llama.cpp loads it.

    `n_tokens`: those of its vocabulary. `digests` and `padding`: as in `VocabularyDigest`. `twice`: whether a token occurs
    twice. `spells`: whether each byte has its token. `by_layer`: the keys of no more numbers than a model can have layers.
    """

    values: Mapping[str, Value]
    tensors: Tensors
    n_tokens: int = 0
    digests: str = ""
    padding: int = 0
    twice: bool = False
    spells: bool = False
    by_layer: Mapping[str, tuple[float, ...]] = MappingProxyType({})

    @property
    def architecture(self) -> str:
        """Its name; "" is unknown."""
        return architecture_of(self.values)

    def number(self, name: str) -> int:
        """The number of a key of its architecture; 0 if there is none."""
        return whole_number(self.values.get(f"{self.architecture}.{name}")) or 0

    def text(self, name: str) -> str:
        """The text of a key, cut and safe to show; "" if there is none."""
        value = self.values.get(name)
        return " ".join(safe(value[:40].decode("utf-8", "replace")).split()) if isinstance(value, bytes) else ""

    @property
    def vocabulary(self) -> VocabularyDigest | None:
        """What decides whether it is another model's; None where its tokens have no texts."""
        kind = kind_of(self.text("tokenizer.ggml.model"))
        without = not self.n_tokens or kind in ("", WITHOUT_TEXT)
        return None if without else VocabularyDigest(kind, self.n_tokens, self.padding, self.digests)


def read_metadata(file: BinaryIO, read: Read, size: int, tensors: int, keys: int) -> Metadata:
    """The metadata of a file that is opened after the fixed header and that `read` reads. Raises Damaged, OSError.

    `size` is the whole file's in bytes, `tensors` and `keys` are the counts in the fixed header.
    """
    values: dict[str, Value] = {}
    by_layer: dict[str, tuple[float, ...]] = {}
    n_tokens = padding = 0
    digests, twice, spells = "", False, False
    for name, value in entries(read, keys):
        if isinstance(value, Numbers):
            padding = padding_of(value) if name == "tokenizer.ggml.token_type" else padding
            if value.number <= MOST_LAYERS:
                by_layer[name] = struct.unpack(f"<{value.number}{value.form}", value.content)
        elif not isinstance(value, Strings):
            values[name] = value[:_KEPT] if isinstance(value, bytes) else value
        elif name == "tokenizer.ggml.tokens":
            n_tokens = value.count
            digests, twice, spells = digests_of(value, n_tokens)
    sizes = _read_tensors(file, read, tensors, size, values)
    return Metadata(values, sizes, n_tokens, digests, padding, twice, spells, by_layer)


def whole_number(value: Value | None) -> int | None:
    """The value, if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def architecture_of(values: Mapping[str, Value]) -> str:
    """The architecture that these keys name; "" is unknown."""
    name = values.get("general.architecture")
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else ""


def _read_tensors(file: BinaryIO, read: Read, count: int, size: int, values: Mapping[str, Value]) -> Tensors:
    """The file's tensors. Raise Damaged if one has too many dimensions or numbers, or begins behind the file's end."""
    entries, end = [], 0
    for _ in range(count):
        name = _string(read, LONGEST_TENSOR_NAME)
        dimensions = int(_number(read, "I"))
        if dimensions > MOST_DIMENSIONS:
            raise Damaged
        shape = tuple(int(_number(read, "Q")) for _ in range(dimensions))
        numbers = math.prod(shape)
        kind = int(_number(read, "I"))  # llama.cpp checks itself whether it knows this type
        offset = int(_number(read, "Q"))
        if offset > size or numbers > 8 * size:  # no type has less than a bit a number
            raise Damaged
        entries.append(Tensor(name, kind, shape, _bytes_of(numbers, kind)))
        end = max(end, offset + entries[-1].size)
    wanted = values.get("general.alignment")
    alignment = wanted if isinstance(wanted, int) and wanted > 0 else _ALIGNMENT
    base = -(-file.tell() // alignment) * alignment if count else file.tell()
    return Tensors(tuple(entries), base + end, base % _ALIGNMENT == 0 or not count)


def _bytes_of(numbers: int, kind: int) -> int:
    """Bytes of a tensor of this type; 0 for an unknown one."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        per_block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (ValueError, KeyError):
        return 0
    return int(numbers // per_block * size)


def _string(read: Read, most: int = _LONGEST_TEXT) -> bytes:
    length = int(_number(read, "Q"))
    if length > most:
        raise Damaged
    return read(length)


def _number(read: Read, form: str) -> int | float | bool:
    number: int | float | bool = struct.unpack(f"<{form}", read(struct.calcsize(f"<{form}")))[0]
    return number
