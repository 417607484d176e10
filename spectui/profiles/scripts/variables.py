"""Files of variables, as `.env` of docker compose and those of systemd's `EnvironmentFile=`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from spectui.profiles.scripts.started import ScriptError, cut_off, unknown
from spectui.text_file import read_text

LARGEST = 100_000
"""Bytes of such a file."""

_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=[ \t]*"""
    r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)"|([^\n]*?))[ \t]*(?:(?<=[\s'"=])\#[^\n]*)?$""",
    re.MULTILINE,
)
_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?:(:?[-+?])((?:[^{}]|\{[^{}]*\})*))?\}|\$(\w+)")
_SIGNS = {"n": "\n", "r": "\r", "t": "\t"}


def variables(text: str, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a text. A `#` behind a blank begins a comment, except in quotes.

    Values that are not in single quotes have the variables in them replaced by `known` ones and those above; without `known`,
    they stay as they are. Raises ScriptError if quotes are not closed.
    """
    found: dict[str, str] = {}
    for each in _LINE.finditer(text):
        name, single, double, bare = each.groups(default="")
        if bare.startswith(("'", '"')):
            raise cut_off(text.count("\n", 0, each.start()) + 1)
        value = re.sub(r"(?s)\\(.)", lambda sign: _SIGNS.get(sign[1], sign[1]), double) if double else bare
        found[name] = single or (value if known is None else expanded(value, {**found, **known}))
    return found


def in_file(file: Path, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a file; none if there is no such file. Raises UsageError if it cannot be read."""
    if not file.is_file():
        return {}
    try:
        return variables(read_text(file, str(file), LARGEST, "no file of variables is"), known)
    except ScriptError as error:
        raise ScriptError(f"{file}: {error}") from None


def expanded(value: str, known: Mapping[str, str]) -> str:
    """A text with its variables replaced, as docker compose does that. Those that are not known stay unknown."""
    return _VARIABLE.sub(lambda found: _value(found, known), value)


def _value(found: re.Match[str], known: Mapping[str, str]) -> str:
    name, sign, other = found[1] or found[4], found[2] or "", found[3] or ""
    if name is None:
        return "$"
    missing = not known.get(name) if sign.startswith(":") else name not in known
    if sign.endswith("-") and missing:
        return expanded(other, known)
    if sign.endswith("+"):
        return "" if missing else other
    return unknown(found[0]) if missing else known[name]
