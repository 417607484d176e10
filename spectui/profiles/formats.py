"""The formats in which other programs keep what spectui calls a profile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from spectui.profiles import llama_swap, preset_ini
from spectui.profiles.commands import llama_server, services
from spectui.profiles.commands.llama_server import has_windows_paths
from spectui.profiles.commands.reader import BATCH, POWERSHELL, SHELL, Script
from spectui.profiles.exported import Exported
from spectui.profiles.imported import ImportedFile


class Format(NamedTuple):
    """How a format is read, and written if it is. Both raise SpectuiError with one sentence."""

    read: Callable[[str, Path | None], ImportedFile]
    write: Callable[[Sequence[tuple[str, Exported]]], str] | None = None


FORMATS = {
    "llama-swap": Format(llama_swap.read, llama_swap.write),
    "llama-server": Format(lambda text, file: Script(SHELL, file).profile(text), llama_server.write),
    "preset": Format(preset_ini.read, preset_ini.write),
    "batch": Format(lambda text, file: Script(BATCH, file).profile(text)),
    "powershell": Format(lambda text, file: Script(POWERSHELL, file).profile(text)),
    "systemd": Format(services.read_systemd),
    "compose": Format(services.read_compose),
}
"""By the name that the command line has for them."""

WRITTEN = {name: form.write for name, form in FORMATS.items() if form.write is not None}
"""The formats that are written, too."""

_SUFFIXES = {
    ".yaml": "llama-swap", ".yml": "llama-swap", ".ini": "preset", ".sh": "llama-server", ".bash": "llama-server",
    ".zsh": "llama-server", ".bat": "batch", ".cmd": "batch", ".ps1": "powershell",
    ".service": "systemd",
}  # fmt: skip


def detect(text: str, file_name: str) -> str:
    """The format of a text, by its file's name or else by what it looks like."""
    if re.search(r"^services:[ \t]*(#.*)?$", text, re.MULTILINE):
        return "compose"
    suffix = PurePath(file_name).suffix.lower() or file_name
    if by_suffix := _SUFFIXES.get(suffix):
        return by_suffix
    if re.search(r"^models:[ \t]*(#.*)?$", text, re.MULTILINE):
        return "llama-swap"
    if re.search(r"^\[Service\][ \t]*$", text, re.MULTILINE):
        return "systemd"
    if re.search(r"^[ \t]*\[[^]\n]+\][ \t]*([;#].*)?$", text, re.MULTILINE):
        return "preset"
    return "batch" if has_windows_paths(text) else "llama-server"
