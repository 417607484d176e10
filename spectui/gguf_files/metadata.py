"""Read the keys and the list of tensors of a GGUF file, within bounds.

Format: ggml's docs/gguf.md. Lengths and counts come from the file, so each is compared with the file's size first.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from spectui.gguf_files.vocabulary import WITHOUT_TEXT, VocabularyDigest, digests_of, kind_of, padding_of
from spectui.pin import LONGEST_TENSOR_NAME, MOST_DIMENSIONS, MOST_LAYERS
from spectui.text import safe

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")
LARGEST = 1 << 28
"""Most bytes that are read of the keys and the list of tensors: ten times what the largest real files have."""
READS_PER_PAUSE = 2000

_LONGEST_KEY = 65_535
_LONGEST_TEXT = 1 << 27  # a tokenizer in JSON takes 33 MB
_KEPT = 1000  # bytes of a text
_EMBEDDING = "token_embd.weight"
_OF_A_HEAD = ("eh_proj.weight", "enorm.weight", "hnorm.weight")
_ALIGNMENT = 32  # GGUF_DEFAULT_ALIGNMENT, and TENSOR_ALIGNMENT of ggml-backend.cpp

Value = int | float | bool | bytes

CUT_SHORT = "is damaged or cut short: download it again"


class Damaged(ValueError):
    """The file is no whole GGUF file. The text completes the sentence "The model ..." and says what to do."""

    def __init__(self, what: str = CUT_SHORT) -> None:
        super().__init__(what)


class Reader:
    """Reads numbers and texts of a file. Raises Damaged at its end, and after LARGEST bytes in all."""

    def __init__(self, file: BinaryIO, size: int, pause: Callable[[], None]) -> None:
        """`size`: bytes of the file. `pause` is called each READS_PER_PAUSE reads, and may raise what ends the reading."""
        self._file, self._pause = file, pause
        self._left, self._reads = min(size, LARGEST), 0

    def take(self, count: int) -> bytes:
        """So many of them."""
        self._left -= count
        self._reads += 1
        if self._reads % READS_PER_PAUSE == 0:
            self._pause()
        content = self._file.read(count) if self._left >= 0 else b""
        if len(content) < count:
            raise Damaged
        return content

    def number(self, form: str) -> int | float | bool:
        """A number of the type that `form` is for `struct`."""
        number: int | float | bool = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]
        return number

    def whole(self, form: str) -> int:
        """A whole number."""
        return int(self.number(form))

    def text(self, most: int = _LONGEST_TEXT) -> bytes:
        """A text of at most so many bytes."""
        length: int = _LENGTH.unpack(self.take(8))[0]
        if length > most:
            raise Damaged
        return self.take(length)


class Tensor(NamedTuple):
    """An entry of the list of tensors. `kind`: its ggml_type. `size`: in bytes, 0 of an unknown type."""

    name: str
    kind: int
    shape: tuple[int, ...]
    size: int

    @property
    def layer(self) -> str:
        """The number of its layer; "" if it is of none."""
        return self.name.split(".")[1] if self.name.startswith("blk.") else ""

    @property
    def matrices(self) -> tuple[int, int, int]:
        """Weights of a row, rows, and how many matrices of them a pass multiplies by."""
        return self.shape[0], self.shape[1], math.prod(self.shape[2:])


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
        return {tensor.name: tensor for tensor in self.entries if not tensor.layer}

    @cached_property
    def layers(self) -> frozenset[str]:
        """The numbers of the layers that have some."""
        return frozenset(tensor.layer for tensor in self.entries) - {""}

    @property
    def headed(self) -> frozenset[str]:
        """The numbers of the layers that are heads (multi-token prediction)."""
        return frozenset(tensor.layer for tensor in self.entries if ".nextn." in tensor.name)

    @property
    def heads(self) -> int:
        """How many heads are whole."""
        parts = Counter(tensor.name.partition(".nextn.")[2] for tensor in self.entries)
        return min(parts[part] for part in _OF_A_HEAD)

    @property
    def tied(self) -> int:
        """Bytes of the token embedding, if llama.cpp uses it for the output too, because there is no output matrix."""
        embedding = self.apart.get(_EMBEDDING)
        return embedding.size if embedding is not None and "output.weight" not in self.apart else 0

    @property
    def matrices(self) -> tuple[Tensor, ...]:
        """Those that passes multiply by."""
        return tuple(
            tensor
            for tensor in {tensor.name: tensor for tensor in self.entries}.values()
            if len(tensor.shape) > 1 and ("token_embd" not in tensor.name or (tensor.name == _EMBEDDING and self.tied))
        )

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
        name = self.values.get("general.architecture")
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else ""

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


def read_metadata(file: BinaryIO, read: Reader, size: int, tensors: int, keys: int) -> Metadata:
    """The metadata of a file that is opened after the fixed header and that `read` reads. Raises Damaged, OSError.

    `size` is the whole file's in bytes, `tensors` and `keys` are the counts in the fixed header.
    """
    values: dict[str, Value] = {}
    by_layer: dict[str, tuple[float, ...]] = {}
    n_tokens = padding = 0
    digests, twice, spells = "", False, False
    for _ in range(keys):
        name, kind = read.text(_LONGEST_KEY).decode("utf-8", "replace"), read.number("I")
        if kind == _STRING:
            values[name] = read.text()[:_KEPT]
        elif kind in _FORMATS:
            values[name] = read.number(_FORMATS[int(kind)])
        elif kind != _ARRAY:
            raise Damaged
        elif (inner := read.number("I")) == _STRING:
            count = read.whole("Q")
            texts = (read.text() for _ in range(count))
            if name == "tokenizer.ggml.tokens":
                n_tokens = count
                digests, twice, spells = digests_of(texts, count)
            for _ in texts:  # of other keys they are skipped
                pass
        elif inner in _FORMATS:
            form, count = _FORMATS[int(inner)], read.whole("Q")
            content = read.take(struct.calcsize(form) * count)
            if name == "tokenizer.ggml.token_type":
                padding = padding_of(struct.iter_unpack(f"<{form}", content))
            if count <= MOST_LAYERS:
                by_layer[name] = struct.unpack(f"<{count}{form}", content)
        else:
            raise Damaged
    sizes = _read_tensors(file, read, tensors, size, values)
    return Metadata(values, sizes, n_tokens, digests, padding, twice, spells, by_layer)


def whole_number(value: Value | None) -> int | None:
    """The value, if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_tensors(file: BinaryIO, read: Reader, count: int, size: int, values: Mapping[str, Value]) -> Tensors:
    """The file's tensors. Raises Damaged if one has too many dimensions or numbers, or begins behind the file's end."""
    entries, end = [], 0
    for _ in range(count):
        name = read.text(LONGEST_TENSOR_NAME).decode("utf-8", "replace")
        dimensions = read.whole("I")
        if dimensions > MOST_DIMENSIONS:
            raise Damaged
        shape = tuple(read.whole("Q") for _ in range(dimensions))
        numbers = math.prod(shape)
        kind = read.whole("I")  # llama.cpp checks itself whether it knows this type
        offset = read.whole("Q")
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
