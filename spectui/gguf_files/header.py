"""The GGUF header of a model file: enough to choose a model, without loading it and without llama.cpp."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spectui.gguf_files import metadata
from spectui.gguf_files.check import FIXED_BYTES, counts
from spectui.gguf_files.vocabulary import (
    WITHOUT_TEXT,
    VocabularyDigest,
    digests_of,
    kind_of,
    padding_of,
    read_vocabulary,
)
from spectui.text import safe

LARGEST_HEADER = 1 << 26
"""Bytes. The largest real ones, with a tokenizer of 262,144 tokens, take 15 MB."""

_READS_PER_PAUSE = 2000
_PAUSE_S = 0.0005
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


@dataclass(frozen=True)
class GgufHeader:
    """What a model file says of itself; "" or None is unknown.

    `size` is in bytes, of all its parts. `n_ctx_train`: tokens of the context that it was trained with. `problem`: why it
    cannot be loaded, to complete the sentence "The model ..."; "" if it can. `recurrent`: its context cannot be truncated, so
    it cannot draft.
    """

    path: str
    size: int
    architecture: str = ""
    quantisation: str = ""
    parameters: str = ""
    n_ctx_train: int | None = None
    recurrent: bool = False
    vocabulary: VocabularyDigest | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """The file's name without ending and number of the part."""
        return _PART.sub("", Path(self.path).name).removesuffix(".gguf")


def read_header(path: Path, cancelled: Callable[[], bool] = lambda: False) -> GgufHeader:
    """The header of a file with any content. Raises OSError if it cannot be read, Cancelled when `cancelled` returns true."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return GgufHeader(str(path), 0, problem="is not a file")  # to open a pipe would block
    size, missing = _whole_size(path, found.st_size)
    try:
        with path.open("rb") as file:
            tensors, keys = counts(file.read(FIXED_BYTES), found.st_size)
            if tensors == 0:
                return GgufHeader(str(path), size, problem="has no weights, only a vocabulary")
            read = metadata.reader(file, min(found.st_size, LARGEST_HEADER))
            return _header(path, size, missing, metadata.entries(_with_pauses(read, cancelled), keys))
    except metadata.Damaged as damage:
        sentence = str(damage) if ":" in str(damage) else "is damaged or cut short: download it again"
        return GgufHeader(str(path), size, problem=sentence)


class Cancelled(Exception):
    """The caller cancelled the reading."""


def is_part(name: str) -> bool:
    """Is this the name of a part of a split model?"""
    return _PART.search(name) is not None


def is_later_part(name: str) -> bool:
    """Is this the name of a part of a split model, but not of its first one?"""
    part = _PART.search(name)
    return part is not None and int(part[1]) != 1


def _whole_size(path: Path, size: int) -> tuple[int, str]:
    """(bytes of all parts, the problem if one is missing). The parts are found by their names."""
    part = _PART.search(path.name)
    if part is None:
        return size, ""
    for number in range(2, int(part[2]) + 1):
        try:
            size += os.stat(path.with_name(f"{path.name[: part.start()]}-{number:05}-of-{part[2]}.gguf")).st_size
        except OSError:
            return size, f"lacks part {number} of {int(part[2])}: download it"
    return size, ""


def _with_pauses(read: metadata.Read, cancelled: Callable[[], bool]) -> metadata.Read:
    """`read` with short pauses, in which other threads of the process get the interpreter: a reply may be decoding."""
    # A thread that never waits keeps the interpreter for 5 ms each time that the worker returns from llama.cpp. Measured on
    # 2 cores with rounds of 0.4 ms: 900 a second with these pauses, 50 without, and 0.3 s for a header instead of 0.15 s.
    reads = 0

    def pausing(count: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads % _READS_PER_PAUSE == 0:
            time.sleep(_PAUSE_S)
            if cancelled():
                raise Cancelled
        return read(count)

    return pausing


def _header(
    path: Path,
    size: int,
    problem: str,
    entries: Iterable[tuple[str, metadata.Value | metadata.Strings | metadata.Numbers]],
) -> GgufHeader:
    values: dict[str, metadata.Value] = {}
    count, digests, padding = 0, "", 0
    for name, value in entries:
        if isinstance(value, metadata.Numbers):
            padding = padding_of(value) if name == "tokenizer.ggml.token_type" else padding
        elif not isinstance(value, metadata.Strings):
            values[name] = value
        elif name == "tokenizer.ggml.tokens":
            count, digests = value.count, digests_of(value, value.count)
    architecture = _text(values, "general.architecture")
    return GgufHeader(
        str(path),
        size,
        architecture=architecture,
        quantisation=_quantisation(values.get("general.file_type")),
        parameters=_text(values, "general.size_label"),
        n_ctx_train=_whole_number(values.get(f"{architecture}.context_length")),
        recurrent=any(key.startswith((f"{architecture}.ssm.", f"{architecture}.wkv.")) for key in values)
        or f"{architecture}.shortconv.l_cache" in values,
        vocabulary=read_vocabulary(values, count, digests, padding),
        problem=problem or _problem(architecture, values),
    )


def _problem(architecture: str, values: Mapping[str, metadata.Value]) -> str:
    kind = _text(values, "general.type")
    if kind_of(_text(values, "tokenizer.ggml.model")) == WITHOUT_TEXT:
        return "has no vocabulary of text"
    if architecture == "clip" or kind == "mmproj":
        return "is the part of a model that sees, not one that writes"
    if kind not in ("", "model"):
        return f"is no model of its own ({kind})"
    if values.get(f"{architecture}.attention.causal") is False:
        return "writes no text (it is an embedding or encoder model)"
    return safe(metadata.problem_of(values))


def _quantisation(number: metadata.Value | None) -> str:
    from gguf import LlamaFileType

    try:
        name: str = LlamaFileType(number).name
        return name.removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        return ""


def _whole_number(value: metadata.Value | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(values: Mapping[str, metadata.Value], name: str) -> str:
    value = values.get(name, b"")
    return " ".join(safe(value[:40].decode("utf-8", "replace")).split()) if isinstance(value, bytes) else ""
