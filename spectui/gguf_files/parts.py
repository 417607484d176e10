"""Split models: several files. llama.cpp finds the later ones by the first one's name (llama_split_path)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from spectui.paths import expanded

_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class Part(NamedTuple):
    """What a name says: a part's number, from 1 on, and of how many."""

    number: int
    parts: int

    def of(self, file: Path) -> Path:
        """Where this part is, beside any other part or a file of the model's name."""
        return file.with_name(f"{model_name(file)}-{self.number:05}-of-{self.parts:05}.gguf")


def part_of(file: Path | str) -> Part | None:
    """What the name says of the part; None where it is no part's."""
    match = _PART.search(os.fspath(file))
    return Part(int(match[1]), int(match[2])) if match else None


def is_later_part(name: str) -> bool:
    """Is this the name of a part of a split model, but not of its first one?"""
    part = part_of(name)
    return part is not None and part.number != 1


def model_name(file: Path) -> str:
    """The file's name without ending and number of the part."""
    return _PART.sub("", file.name).removesuffix(".gguf")


def files_of(path: str) -> list[Path]:
    """The file, or all parts of a split model whose first part this is."""
    first = expanded(path)
    part = part_of(first)
    return [first] if part is None else [Part(number, part.parts).of(first) for number in range(1, part.parts + 1)]
