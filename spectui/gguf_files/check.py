"""What can be said of a GGUF file before llama.cpp reads it, so that a wrong one gets a sentence instead of an assert."""

from __future__ import annotations

import stat
import struct
from functools import lru_cache
from pathlib import Path

from spectui.errors import SpectuiError
from spectui.gguf_files import metadata
from spectui.text import safe

HEADER = 24
"""Bytes of a GGUF file's header."""

PADDING = 128
"""Two vocabularies that differ by so many tokens at the end may still be one: Qwen2.5's are padded differently."""

_MOST_ENTRIES = 1_000_000  # far above the largest real file: 2,000 tensors, 100 keys


class ModelFileError(SpectuiError):
    """A model file that cannot be used."""


def check_file(path: str, role: str) -> Path:
    """The path, if it looks like a GGUF file; `role` is "target" or "draft". Raises ModelFileError with the sentence."""
    file = Path(path).expanduser()
    name = repr(str(file))
    try:
        if file.is_dir():
            raise ModelFileError(f"The {role} model {name} is a directory: name the .gguf file in it.")
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
            raise ModelFileError(f"The {role} model {name} is not a file: name one that ends in .gguf.")
        size = found.st_size
        with file.open("rb") as opened:
            head = opened.read(HEADER)
    except FileNotFoundError:
        raise ModelFileError(f"There is no {role} model {name}: check the path.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelFileError(f"The {role} model {name} cannot be read: {reason}.") from None
    try:
        tensors, keys = counts(head, size)
    except metadata.Damaged as damage:
        raise ModelFileError(f"The {role} model {name} {damage}.") from None
    try:
        problem = _examined(file, size, found.st_mtime_ns, tensors, keys).problem
    except (metadata.Damaged, OSError):
        raise ModelFileError(f"The {role} model {name} is damaged or cut short: download it again.") from None
    if problem:
        raise ModelFileError(f"The {role} model {name} {safe(problem)}: choose another file of this model.")
    return file


def counts(head: bytes, size: int) -> tuple[int, int]:
    """How many tensors and keys follow the header, the file's first 24 bytes; `size` is the whole file's.

    Raises metadata.Damaged with the end of "The model ..." for what is no whole GGUF file.
    """
    if size == 0:
        raise metadata.Damaged("is empty: download it again")
    if head[:4] != b"GGUF":
        raise metadata.Damaged("is not a GGUF file: convert it with llama.cpp, or choose another")
    if len(head) < HEADER:
        raise metadata.Damaged("is cut short: download it again")
    version, tensors, keys = struct.unpack("<IQQ", head[4:])
    if not 2 <= version <= 3:
        raise metadata.Damaged(f"has GGUF version {version}, and versions 2 and 3 are known here")
    # The shortest tensor entry takes 32 bytes and the shortest key 13: counts beyond the file are absurd.
    if tensors > _MOST_ENTRIES or keys > _MOST_ENTRIES or HEADER + 32 * tensors + 13 * keys > size:
        raise metadata.Damaged("is damaged or cut short: download it again")
    return int(tensors), int(keys)


def alike(target: str, draft: str) -> metadata.Examined | None:
    """What is in the draft's file, if both spell their tokens alike, and begin and end a text alike; None if not, or if one
    of them cannot be read. One may have some tokens more at the end, as padding."""
    files = [Path(path).expanduser() for path in (target, draft)]
    try:
        ours, theirs = (_look_into(file) for file in files)
        size = min(each.end - each.start for each in (ours, theirs))
        padding = abs(ours.n_tokens - theirs.n_tokens)
        if not size or padding > PADDING or ours.tokenizer != theirs.tokenizer:
            return None
        one, other = (_bytes(file, each.start, size) for file, each in zip(files, (ours, theirs), strict=True))
    except (metadata.Damaged, OSError):
        return None
    return theirs if one == other else None


def _look_into(file: Path) -> metadata.Examined:
    found = file.stat()
    return _examined(file, found.st_size, found.st_mtime_ns, *counts(_bytes(file, 0, HEADER), found.st_size))


def _bytes(file: Path, start: int, size: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(start)
        return opened.read(size)


@lru_cache(maxsize=8)  # each file is looked at more than once, and a large vocabulary takes a while
def _examined(file: Path, size: int, changed: int, tensors: int, keys: int) -> metadata.Examined:
    with file.open("rb") as opened:
        opened.seek(HEADER)
        return metadata.examine(opened, size, tensors, keys)
