"""Reads a text file that a person named: of bounded size, in UTF-8."""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO

from spectui.errors import SpectuiError, UsageError

LARGEST_GRAMMAR = 1_000_000
"""Bytes of a file with a grammar or a JSON schema."""


def read_text(source: Path | BinaryIO, name: str, largest: int, advice: str, error: type[SpectuiError] = UsageError) -> str:
    """The text of a file or a stream without its byte order mark, with newlines for Windows' line ends. Raises `error`.

    `name`: what its sentence calls the file. `largest`: bytes; a larger file is not read to its end, and `advice` says what to
    do.
    """
    try:
        if isinstance(source, Path):
            with source.open("rb") as file:
                content = file.read(largest + 1)
        else:
            content = source.read(largest + 1)
    except OSError as problem:
        raise error(f"{name} cannot be read: {problem.strerror or problem}.") from problem
    if len(content) > largest:
        size = f"{largest // 1_000_000} MB" if largest >= 1_000_000 else f"{largest // 1000} kB"
        raise error(f"{name} is larger than {size}: {advice}.")
    try:
        text = content.decode("utf-8-sig")
        end = text.find("\0")  # UTF-16 and binary files have such, text in UTF-8 none
    except UnicodeDecodeError as problem:
        text, end = content[: problem.start].decode("utf-8-sig"), problem.start
    if end >= 0:
        raise error(f"{name} is not text in UTF-8 (line {text.count(chr(10), 0, end) + 1}): convert it first.")
    return text.replace("\r\n", "\n")


def read_schema(path: Path) -> str:
    """The text of a file with a JSON schema. Raises UsageError."""
    text = read_text(path, f"The JSON schema {path}", LARGEST_GRAMMAR, "simplify it")
    try:
        if not isinstance(json.loads(text), dict):
            raise ValueError("it is no object")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The JSON schema {path} cannot be read: {error}.") from error
    return text
