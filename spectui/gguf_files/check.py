"""Check a GGUF file before llama.cpp reads it: a wrong file gets a sentence instead of an assert that ends the process."""

from __future__ import annotations

import os
import stat
import sys
from array import array
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, reduce
from pathlib import Path

from spectui.errors import SpectuiError
from spectui.gguf_files import judgement
from spectui.gguf_files.judgement import EAGLE3, READ_LAYERS, are_heads, judge, read_file, usable_heads
from spectui.gguf_files.metadata import Damaged, Matrices, Metadata, Tensors, Value
from spectui.gguf_files.parts import files_of
from spectui.gguf_files.vocabulary import PADDING
from spectui.paths import expanded

_COMPARED = 32
"""Pieces of two files that are compared, from their beginnings to their ends..."""

_PIECE = 1 << 16
"""... and their bytes. Two quantisations differ in each, and so do a model and what it was tuned to."""


class ModelFileError(SpectuiError):
    """A model file that cannot be used."""


def check_file(path: str, role: str, *, textless: bool = False) -> Path:
    """The path with the home directory put in, if the file can be a model. `role` is "target" or "draft", which may be heads.

    `textless`: as in `judge`. Raises ModelFileError with a sentence.
    """
    file = expanded(path)  # which leaves a home that is not known as it is
    name = repr(str(file))
    try:
        if file.is_dir():
            raise ModelFileError(f"The {role} model {name} is a directory: name the .gguf file in it.")
        if not stat.S_ISREG(file.stat().st_mode):  # to open a pipe would block
            raise ModelFileError(f"The {role} model {name} is not a file: name one that ends in .gguf.")
        problem = judge(file, _metadata, textless=textless, heads=role == "draft").problem or _wrong_ids(file)
    except FileNotFoundError:
        raise ModelFileError(f"There is no {role} model {name}: check the path.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelFileError(f"The {role} model {name} cannot be read: {reason}.") from None
    if problem:
        raise ModelFileError(f"The {role} model {name} {problem}.")
    return file


def layers_read(path: str) -> tuple[int, ...]:
    """The target's layers whose rows a head in this file reads (EAGLE-3, DFlash); () of another file."""
    with suppress(Damaged, OSError):
        return judgement.layers_read(_metadata(expanded(path)))
    return ()


def kind_of_heads(path: str) -> str:
    """What llama.cpp calls the heads in this file, behind draft-: mtp, eagle3 or dflash."""
    with suppress(Damaged, OSError):
        architecture = _metadata(expanded(path)).architecture
        return architecture if architecture in READ_LAYERS else "mtp"
    return "mtp"


def name_of_heads(path: str) -> str:
    """What people call them."""
    return READ_LAYERS.get(kind_of_heads(path), "MTP")


def _wrong_ids(file: Path) -> str:
    """What is wrong with the ids of the tokens that a head foresees, which llama.cpp asserts; "" if nothing is."""
    found = _metadata(file)
    ids = found.tensors.apart.get("d2t")
    if found.architecture not in READ_LAYERS or ids is None:
        return ""
    numbers = array("q", _bytes(file, ids.start, 8 * ids.shape[0]))
    if sys.byteorder == "big":
        numbers.byteswap()
    if all(0 <= number < found.n_tokens for number in numbers):
        return ""
    return f"foresees tokens that its vocabulary of {found.n_tokens} does not have: choose another file of this model"


def same_vocabulary(target: str, draft: str) -> Metadata | None:
    """The draft's metadata, if both files have the same tokens and the same BOS and EOS settings; else None.

    One may have up to PADDING more tokens at the end. None too if a file cannot be read.
    """
    files = [expanded(path) for path in (target, draft)]
    try:
        ours, theirs = (_metadata(file) for file in files)
        size = min(each.end - each.start for each in (ours, theirs))
        padding = abs(ours.n_tokens - theirs.n_tokens)
        if not size or padding > PADDING or ours.tokenizer != theirs.tokenizer:
            return None
        one, other = (_bytes(file, each.start, size) for file, each in zip(files, (ours, theirs), strict=True))
    except (Damaged, OSError):
        return None
    return theirs if one == other else None


def same_model(one: str, other: str) -> bool:
    """Whether both paths lead to one file, or to copies of one: their sizes and some of their parts are compared."""
    files = [expanded(path) for path in (one, other)]
    try:
        if os.path.samefile(*files):
            return True
        size, theirs = (file.stat().st_size for file in files)
        starts = range(0, size, max(1, size // _COMPARED))
        return size == theirs and all(_bytes(files[0], at, _PIECE) == _bytes(files[1], at, _PIECE) for at in starts)
    except OSError:
        return False


def vocabulary_of(path: str) -> Metadata | None:
    """A file's metadata, if it has tokens with texts; None too if it cannot be read."""
    try:
        found = _metadata(expanded(path))
    except (Damaged, OSError):
        return None
    return found if found.n_tokens else None


def tied_bytes(path: str) -> int:
    """Bytes of the token embedding, if llama.cpp uses it for the output too; 0 also if a file cannot be read.

    Of a split model each part has some of the tensors, the first perhaps none.
    """
    try:
        found = [_metadata(each) for each in files_of(path)]
        if found[0].architecture == EAGLE3:  # it uses the target's
            return 0
        return reduce(Tensors.with_those_of, (each.tensors for each in found)).tied
    except (Damaged, OSError):
        return 0


def heads_in(path: str) -> tuple[int, bool]:
    """(number of a model's own heads that can draft, whether it has nothing else); (0, False) if it cannot be read."""
    try:
        found = [_metadata(each) for each in files_of(path)]
    except (Damaged, OSError):
        return 0, False
    values, tensors = found[0].values, reduce(Tensors.with_those_of, (each.tensors for each in found))
    return usable_heads(values, tensors), are_heads(values, tensors)


def assists(heads: str, target: str) -> bool | None:
    """Whether these heads can attend to this target's own cells, if they have to; None if they need not, or cannot be read."""
    with suppress(Damaged, OSError):
        return judgement.assists(*(_metadata(expanded(each)) for each in (target, heads)))
    return None


def borrows(heads: str) -> bool:
    """Whether a head in this file uses its target's embeddings or output matrix; False if it cannot be read."""
    with suppress(Damaged, OSError):
        return judgement.borrows(_metadata(expanded(heads)))
    return False


def values_of(path: str) -> Mapping[str, Value]:
    """The keys of a file that have one value; {} if it cannot be read."""
    with suppress(Damaged, OSError):
        return _metadata(expanded(path)).values
    return {}


def matrices_of(path: str) -> tuple[Matrices, ...]:
    """The tensors of a model, in all its parts, that passes multiply by; those of a file that cannot be read are missing."""
    found: list[Matrices] = []
    for file in files_of(path):
        with suppress(Damaged, OSError):
            found += _metadata(file).tensors.matrices
    return tuple(found)


def _metadata(file: Path) -> Metadata:
    found = file.stat()
    return _read(file, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=8)  # loading reads a file's metadata more than once, and a large vocabulary takes 0.1 s
def _read(file: Path, size: int, changed_ns: int) -> Metadata:
    return read_file(file)


def _bytes(file: Path, start: int, size: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(start)
        return opened.read(size)
