"""llama.cpp's preset files (`llama-server --models-preset FILE`): read, and written from profiles.

The grammar is that of llama.cpp's common/preset.cpp: `#` and `;` begin a comment anywhere, there are no quotes, and the
section `[*]` holds what all the others share. A key is a flag without its dashes, or an environment variable, and is there
once: stop texts, which may be several, are kept in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from spectui.errors import UsageError
from spectui.profiles.command_line import unused_values
from spectui.profiles.exported import FLAGS, Exported, toml
from spectui.profiles.imported import (
    SHAPES,
    ImportedFile,
    ImportedProfile,
    LeftOut,
    Started,
    flag_of_variable,
    flag_words,
    imported,
    imported_each,
)
from spectui.text import unescaped

SHARED = "*"
PRESET_ONLY = ("load-on-startup", "stop-timeout", "dedup-cache-models")
"""Keys for the server that keeps several models, which are no flags."""

OF_PRESETS = "These keys of the preset are for llama-server's list of models"

_HEADER = re.compile(r"\[[ \t]*([^]]+?)[ \t]*\][ \t]*(?:[;#].*)?")
_KEY = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*=[ \t]*(.*?)[ \t]*(?:[;#].*)?")
_COMMENT = re.compile(r"[ \t]*(?:[;#].*)?")
_UNWRITABLE = re.compile(r"[#;\r\n]")


class _Section(NamedTuple):
    values: dict[str, str]
    comments: list[str]


def read(text: str, file: Path | None = None) -> ImportedFile:
    """A profile for each section. Raises UsageError if there are none, or a line is neither section, key nor comment."""
    sections = _sections(text)
    shared = sections.pop(SHARED, _Section({}, []))
    if not sections and shared.values:
        raise UsageError("It has no section but [*], which names no model: give the command that starts llama-server.")
    if not sections:
        raise UsageError("There is no section in it: a preset begins with a line such as [NAME].")
    return imported_each(sections, lambda name, section: _profile(name, section, shared.values), "section")


def write(profiles: Sequence[tuple[str, Exported]]) -> str:
    """A section for each profile. Raises UsageError where a name or a value cannot be written in this format."""
    blocks = ["version = 1\n"]
    for name, exported in profiles:
        if name == SHARED or re.search(r"[]\r\n]", name) or name != name.strip():
            raise UsageError(f"A preset cannot be named {name!r}: give the profile another name.")
        lines = [f"[{name}]", *(f"; {line}" for line in exported.comments())]
        if stops := [unescaped(text) for flag, *values in exported.arguments for text in values if flag == FLAGS["stop"]]:
            lines.append(f"; spectui: stop = {toml(stops)}")
        for flag, *values in exported.arguments:
            if flag == FLAGS["stop"]:
                continue
            value = values[0] if values else "true"
            if _UNWRITABLE.search(value) or value != value.strip():
                raise UsageError(
                    f"A preset cannot hold {flag} {value!r}: # and ; begin comments there, and blanks at its ends are lost. "
                    "Change the setting, or rename the file that it names."
                )
            lines.append(f"{flag.lstrip('-')} = {value}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _sections(text: str) -> dict[str, _Section]:
    sections: dict[str, _Section] = {}
    current = _Section({}, [])  # llama.cpp takes keys before the first section for a preset, too
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            current = sections[header[1]] = _Section({}, [])
        elif key := _KEY.fullmatch(line.strip()):
            current.values[key[1]] = key[2]
            if current.values.keys() - {"version"} and not sections:
                sections["default"] = current
        elif _COMMENT.fullmatch(line):
            current.comments.append(line)
        else:
            raise UsageError(f"Line {number} is no section, no key = value and no comment: {line.strip()[:60]!r}.")
    return sections


def _profile(name: str, section: _Section, shared: Mapping[str, str]) -> ImportedProfile:
    left_out, words = [], []
    for key, value in {**shared, **section.values}.items():
        if key in PRESET_ONLY:
            left_out.append(LeftOut(OF_PRESETS, f"{key} = {value}"))
        elif key != "version":
            words += flag_words(_flag(key), value)
    profile = imported(Started(words), name=name, comments="\n".join(section.comments))
    if "model" not in profile.settings and not any(re.search("-hf|--hf-repo", lost.what) for lost in profile.left_out):
        left_out.append(LeftOut("", f"{name} names no model: give one with -m, or fetch it with -hf."))
    return profile._replace(left_out=(*profile.left_out, *left_out))


def _flag(key: str) -> str:
    if flag := flag_of_variable(key):
        return flag
    known = (flag for flag in (f"--{key}", f"-{key}") if flag in SHAPES or unused_values(flag) is not None)
    return next(known, f"--{key}")
