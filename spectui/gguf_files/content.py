"""What a file that should be a model begins with: the fixed header of a GGUF file, or something else."""

from __future__ import annotations

import re
import struct

from spectui.gguf_files.metadata import Damaged
from spectui.pin import GGUF_VERSION

FIXED_BYTES = 24
"""Bytes at the beginning of every GGUF file: magic, version, number of tensors, number of keys."""

BEGINNING_BYTES = 512
"""Bytes of the beginning that tell what a file is that is no GGUF file."""

CUT_SHORT = "is damaged or cut short: download it again"

_MOST_ENTRIES = 1_000_000  # far above the largest real file: 2,000 tensors, 100 keys

_OTHERS = (
    (
        rb"version https://git-lfs",
        "is a pointer of Git LFS instead of the model: download it again, as git lfs pull does",
    ),
    (rb"(\xef\xbb\xbf)?\s*<", "is a web page instead of a model: download it again, from the link that ends in .gguf"),
    (rb"(\xef\xbb\xbf)?\s*[{\[]", "is a server's answer instead of a model: download it again"),
    (rb"(lmgg|fmgg|tjgg|algg)", "is of the format before GGUF, which llama.cpp reads no more: choose a GGUF file"),
    # A zip archive whose first file is in a directory is a model of PyTorch.
    (
        rb"(\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf|Rar!|.{257}ustar|PK\x03\x04.{26}(?![\w.-]*/))",
        "is packed: unpack it",
    ),
    (rb"GG?U?\Z", "is cut short: download it again"),
    (rb"\0{24}", "begins with zeros, as a download does that was stopped: download it again"),
    (rb".{8}\{\"", "is a safetensors file: convert it with llama.cpp, or choose a GGUF file"),
    (rb"[\t\n\r\x20-\x7e]{5,}\Z", "is a text instead of a model: download it again"),
)
"""What a file begins with -> what it is and what to do, to complete the sentence "The model ..."."""


class Wrong(Damaged):
    """The file is no model. The text completes the sentence "The model ..." and says what to do."""


def counts(beginning: bytes, size: int) -> tuple[int, int]:
    """(number of tensors, number of keys) from the file's first BEGINNING_BYTES; `size` is the whole file's in bytes.

    Raises Wrong if this is not a whole GGUF file.
    """
    if size == 0:
        raise Wrong("is empty: download it again")
    if beginning[:4] != b"GGUF":
        known = (what for pattern, what in _OTHERS if re.match(pattern, beginning, re.DOTALL))
        raise Wrong(next(known, "is not a GGUF file: convert it with llama.cpp, or choose another"))
    if len(beginning) < FIXED_BYTES:
        raise Wrong("is cut short: download it again")
    version, tensors, keys = struct.unpack("<IQQ", beginning[4:FIXED_BYTES])
    if version and version & 0xFFFF == 0:  # as llama.cpp tells it
        raise Wrong("is of a machine with the other order of bytes (big-endian): choose another file of this model")
    if version < 2:
        raise Wrong(f"is of GGUF version {version}, which llama.cpp reads no more: choose a newer file of this model")
    if version > GGUF_VERSION:
        raise Wrong(
            f"is of GGUF version {version}, and this llama.cpp reads up to version {GGUF_VERSION}: take a newer spectui, or "
            "another file of this model"
        )
    # The shortest tensor entry takes 32 bytes and the shortest key 13: larger counts cannot be true.
    if tensors > _MOST_ENTRIES or keys > _MOST_ENTRIES or FIXED_BYTES + 32 * tensors + 13 * keys > size:
        raise Wrong(CUT_SHORT)
    return int(tensors), int(keys)
