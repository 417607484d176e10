"""The formats in which other programs keep what spectui calls a profile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import NamedTuple

from spectui.errors import UsageError
from spectui.profiles import llama_server, llama_swap, makefile, preset_ini
from spectui.profiles.exported import Exported
from spectui.profiles.imported import ImportedFile
from spectui.profiles.scripts import batch, compose, powershell, units
from spectui.profiles.scripts.started import has_windows_paths


class Format(NamedTuple):
    """How a format is read, and written if it is. Both raise SpectuiError with one sentence."""

    read: Callable[[str, Path | None], ImportedFile]
    write: Callable[[Sequence[tuple[str, Exported]]], str] | None = None


FORMATS = {
    "llama-swap": Format(llama_swap.read, llama_swap.write),
    "llama-server": Format(llama_server.read, llama_server.write),
    "preset": Format(preset_ini.read, preset_ini.write),
    "batch": Format(partial(llama_server.profile_of, reader=batch.read)),
    "powershell": Format(partial(llama_server.profile_of, reader=powershell.read)),
    "systemd": Format(units.read_systemd),
    "launchd": Format(units.read_launchd),
    "compose": Format(compose.read),
    "make": Format(makefile.read),
    "env": Format(llama_server.read_variables),
}
"""By the name that the command line has for them."""

WRITTEN = {name: each.write for name, each in FORMATS.items() if each.write is not None}
"""The formats that are written, too."""

_SUFFIXES = {
    ".yaml": "llama-swap", ".yml": "llama-swap", ".ini": "preset", ".sh": "llama-server", ".bash": "llama-server",
    ".zsh": "llama-server", ".bat": "batch", ".cmd": "batch", ".ps1": "powershell",
    ".service": "systemd", ".container": "systemd", ".plist": "launchd",
}  # fmt: skip

_NOT_READ = {
    r"(.*/)?(docker|container)file(\.[^/]*)?|.*\.dockerfile": "It makes an image, whose paths are those of a container",
    r".*\.nix": "It is a file for Nix",
    r".*\.(py|js|ts|go|rs|lua|rb|pl)": "It is a program's source",
    r".*\.(json|toml|html?)": "It is no script",
}
"""What is said of files that are not read, by their names."""

_BATCH = re.compile(
    r"^[ \t]*@?(echo (on|off)|rem |set \"?\w+=|start \"|setlocal|cmd(\.exe)? /)|\^[ \t]*$|%~?\w+%",
    re.MULTILINE | re.IGNORECASE,
)
_POWERSHELL = re.compile(
    r"`[ \t]*$|^[ \t]*(\$[\w:]+[ \t]*=|&[ \t]|param[ \t]*\(|start-process )|\$env:\w", re.MULTILINE | re.IGNORECASE
)


def commands_of(text: str, file_name: str) -> str:
    """The blocks of commands in a page of documentation; a script, which may print such blocks, as it is."""
    is_script = text.startswith("#!") or PurePath(file_name).suffix.lower() in _SUFFIXES
    if is_script and not text.lstrip().startswith("```"):
        return text
    blocks = re.findall(r"^[ \t]*```[ \t]*\w*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", text, re.MULTILINE | re.DOTALL)
    return "\n".join(blocks) or text


def detect(text: str, file_name: str) -> str:
    """The format of a text, by its file's name or else by what it looks like. Raises UsageError for what is not read."""
    for pattern, what in _NOT_READ.items():
        if re.fullmatch(pattern, file_name, re.IGNORECASE):
            raise UsageError(f"{what}: give the command that starts llama-server, alone or in a script.")
    if re.search(r"^apiVersion:", text, re.MULTILINE) and re.search(r"^kind:", text, re.MULTILINE):
        raise UsageError("It is for Kubernetes, whose paths are those of a container: give the command of that.")
    if re.search(r"^- (hosts|name):", text, re.MULTILINE) and file_name.endswith((".yml", ".yaml")):
        raise UsageError("It is a playbook of Ansible: give the command that it starts.")
    if file_name.endswith(".env"):
        return "env"
    if re.search(r"^services:[ \t]*(#.*)?$", text, re.MULTILINE):
        return "compose"
    if by_suffix := _SUFFIXES.get(PurePath(file_name).suffix.lower()):
        return by_suffix
    if makefile.is_makefile(text, file_name):
        return "make"
    if re.search(r"^models:[ \t]*(#.*)?$", text, re.MULTILINE):
        return "llama-swap"
    if "<plist" in text:
        return "launchd"
    if re.search(r"^\[(Service|Container)\][ \t]*$", text, re.MULTILINE):
        return "systemd"
    if re.search(r"^[ \t]*\[[^]\n]+\][ \t]*([;#].*)?$", text, re.MULTILINE):
        return "preset"
    if text.startswith("#!"):
        return "llama-server"
    if _POWERSHELL.search(text):
        return "powershell"
    if re.search(r"\bllama-server\b.*[ \t]\\$", text, re.MULTILINE):
        return "llama-server"
    is_shell = re.search(r"\\[ \t]*$|\$\w", text, re.MULTILINE)
    if _BATCH.search(text) or has_windows_paths(text) or (".exe" in text and not is_shell):
        return "batch"
    return "llama-server"
