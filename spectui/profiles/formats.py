"""The formats in which other programs keep what spectui calls a profile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from spectui.profiles import llama_server, llama_swap, preset_ini
from spectui.profiles.exported import Exported
from spectui.profiles.imported import ImportedFile


class Format(NamedTuple):
    """How a format is read and written. Both raise UsageError with one sentence."""

    read: Callable[[str, Path | None], ImportedFile]
    write: Callable[[Sequence[tuple[str, Exported]]], str]


FORMATS = {
    "llama-swap": Format(llama_swap.read, llama_swap.write),
    "llama-server": Format(llama_server.read, llama_server.write),
    "preset": Format(preset_ini.read, preset_ini.write),
}
"""By the name that the command line has for them."""


def detect(text: str, file_name: str) -> str:
    """The format of a text, by its file's name or else by what it looks like."""
    by_suffix = {".yaml": "llama-swap", ".yml": "llama-swap", ".ini": "preset"}.get(PurePath(file_name).suffix.lower())
    if by_suffix:
        return by_suffix
    if re.search(r"^models:[ \t]*(#.*)?$", text, re.MULTILINE):
        return "llama-swap"
    if re.search(r"^[ \t]*\[[^]\n]+\][ \t]*([;#].*)?$", text, re.MULTILINE):
        return "preset"
    return "llama-server"
