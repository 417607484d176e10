"""Check a GGUF file before llama.cpp reads it: a wrong file gets a sentence instead of an assert that ends the process."""

from __future__ import annotations

import stat
import struct
from functools import lru_cache
from pathlib import Path

from spectui.errors import SpectuiError
from spectui.gguf_files import metadata
from spectui.gguf_files.vocabulary import PADDING
from spectui.text import safe

FIXED_BYTES = 24
"""Bytes at the beginning of every GGUF file: magic, version, number of tensors, number of keys."""

_MOST_ENTRIES = 1_000_000  # far above the largest real file: 2,000 tensors, 100 keys


class ModelFileError(SpectuiError):
    """A model file that cannot be used."""


def check_file(path: str, role: str) -> Path:
    """The path with the home directory put in, if the file can be a model. `role` is "target" or "draft".

    Raises ModelFileError with a sentence.
    """
    file = Path(path).expanduser()
    name = repr(str(file))
    try:
        if file.is_dir():
            raise ModelFileError(f"The {role} model {name} is a directory: name the .gguf file in it.")
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):  # to open a pipe would block
            raise ModelFileError(f"The {role} model {name} is not a file: name one that ends in .gguf.")
        size = found.st_size
        with file.open("rb") as opened:
            beginning = opened.read(FIXED_BYTES)
    except FileNotFoundError:
        raise ModelFileError(f"There is no {role} model {name}: check the path.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelFileError(f"The {role} model {name} cannot be read: {reason}.") from None
    try:
        tensors, keys = counts(beginning, size)
    except metadata.Damaged as damage:
        raise ModelFileError(f"The {role} model {name} {damage}.") from None
    try:
        problem = _metadata(file, size, found.st_mtime_ns, tensors, keys).problem
    except (metadata.Damaged, OSError):
        raise ModelFileError(f"The {role} model {name} is damaged or cut short: download it again.") from None
    if problem:
        raise ModelFileError(f"The {role} model {name} {safe(problem)}: choose another file of this model.")
    return file


def counts(beginning: bytes, size: int) -> tuple[int, int]:
    """(number of tensors, number of keys) from the file's first FIXED_BYTES; `size` is the whole file's in bytes.

    Raises metadata.Damaged, whose text completes the sentence "The model ...", if this is not a whole GGUF file.
    """
    if size == 0:
        raise metadata.Damaged("is empty: download it again")
    if beginning[:4] != b"GGUF":
        raise metadata.Damaged("is not a GGUF file: convert it with llama.cpp, or choose another")
    if len(beginning) < FIXED_BYTES:
        raise metadata.Damaged("is cut short: download it again")
    version, tensors, keys = struct.unpack("<IQQ", beginning[4:])
    if not 2 <= version <= 3:
        raise metadata.Damaged(f"has GGUF version {version}, and versions 2 and 3 are known here")
    # The shortest tensor entry takes 32 bytes and the shortest key 13: larger counts cannot be true.
    if tensors > _MOST_ENTRIES or keys > _MOST_ENTRIES or FIXED_BYTES + 32 * tensors + 13 * keys > size:
        raise metadata.Damaged("is damaged or cut short: download it again")
    return int(tensors), int(keys)


def same_vocabulary(target: str, draft: str) -> metadata.Metadata | None:
    """The draft's metadata, if both files have the same tokens and the same BOS and EOS settings; else None.

    One may have up to PADDING more tokens at the end. None too if a file cannot be read.
    """
    files = [Path(path).expanduser() for path in (target, draft)]
    try:
        ours, theirs = (_read_metadata(file) for file in files)
        size = min(each.end - each.start for each in (ours, theirs))
        padding = abs(ours.n_tokens - theirs.n_tokens)
        if not size or padding > PADDING or ours.tokenizer != theirs.tokenizer:
            return None
        one, other = (_bytes(file, each.start, size) for file, each in zip(files, (ours, theirs), strict=True))
    except (metadata.Damaged, OSError):
        return None
    return theirs if one == other else None


def vocabulary_of(path: str) -> metadata.Metadata | None:
    """A file's metadata, if it has tokens with texts; None too if it cannot be read."""
    try:
        found = _read_metadata(Path(path).expanduser())
    except (metadata.Damaged, OSError):
        return None
    return found if found.n_tokens else None


def tied_bytes(path: str) -> int:
    """Bytes of the token embedding, if llama.cpp uses it for the output too; 0 also if the file cannot be read."""
    try:
        return _read_metadata(Path(path).expanduser()).tied
    except (metadata.Damaged, OSError):
        return 0


def _read_metadata(file: Path) -> metadata.Metadata:
    found = file.stat()
    return _metadata(file, found.st_size, found.st_mtime_ns, *counts(_bytes(file, 0, FIXED_BYTES), found.st_size))


def _bytes(file: Path, start: int, size: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(start)
        return opened.read(size)


@lru_cache(maxsize=8)  # loading reads a file's metadata more than once, and a large vocabulary takes 0.1 s
def _metadata(file: Path, size: int, changed_ns: int, tensors: int, keys: int) -> metadata.Metadata:
    with file.open("rb") as opened:
        opened.seek(FIXED_BYTES)
        return metadata.read_metadata(opened, size, tensors, keys)
