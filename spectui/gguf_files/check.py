"""Check a GGUF file before llama.cpp reads it: a wrong file gets a sentence instead of an assert that ends the process."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

from spectui import config
from spectui.errors import SpectuiError, UsageError
from spectui.gguf_files.judgement import judge, read_file
from spectui.gguf_files.metadata import Damaged, Metadata, Tensors
from spectui.gguf_files.parts import files_of
from spectui.gguf_files.vocabulary import difference, lacking
from spectui.paths import expanded


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
        problem = judge(file, _metadata, textless=textless, heads=role == "draft").problem
    except FileNotFoundError:
        raise ModelFileError(f"There is no {role} model {name}: check the path.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelFileError(f"The {role} model {name} cannot be read: {reason}.") from None
    if problem:
        raise ModelFileError(f"The {role} model {name} {problem}.")
    return file


def same_vocabulary(target: str, draft: str) -> Metadata | None:
    """The draft's metadata, if both files have the same tokens; else None, also if a file cannot be read.

    The draft may have up to PADDING more tokens at the end, and lack those that no text has.
    """
    file = metadata_of(draft)
    ours, theirs = metadata_of(target).vocabulary, file.vocabulary
    same = ours is not None and theirs is not None and not (difference(ours, theirs) or lacking(ours, theirs))
    return file if same else None


def same_file(one: str, other: str) -> bool:
    """Whether both paths lead to one file."""
    with suppress(OSError):
        return os.path.samefile(expanded(one), expanded(other))
    return False


def metadata_of(path: str) -> Metadata:
    """The keys of a file, and the tensors of all its parts; of a file that cannot be read there are none."""
    with suppress(Damaged, OSError):
        first, *others = (_metadata(part) for part in files_of(path))
        return first._replace(tensors=reduce(Tensors.with_those_of, (part.tensors for part in others), first.tensors))
    return Metadata({}, Tensors())


SAMPLING = {"temp": "temperature", "penalty_repeat": "repeat_penalty", **{key: key for key in ("top_k", "top_p", "min_p")}}
"""The end of a key of a file that recommends sampling -> the knob."""


def recommended_sampling(path: str) -> tuple[dict[str, Any], list[str]]:
    """(values of knobs that a file recommends, its other keys of sampling that would change a text) of `general.sampling.*`."""
    recommended: dict[str, Any] = {}
    others: list[str] = []
    for name, value in metadata_of(path).values.items():
        prefix, _, name = name.rpartition(".")
        if prefix != "general.sampling" or not isinstance(value, int | float):
            continue
        if name not in SAMPLING:
            others += [name] if value else []
            continue
        with suppress(UsageError):  # the file has floats of 32 bits
            recommended[SAMPLING[name]] = config.convert(SAMPLING[name], f"{value:.6g}", path)
    return recommended, others


def _metadata(file: Path) -> Metadata:
    status = file.stat()
    return _read(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)  # loading reads a file's metadata more than once, and a large vocabulary takes 0.1 s
def _read(file: Path, size: int, changed_ns: int) -> Metadata:
    return read_file(file)
