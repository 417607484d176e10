"""Files of variables, as `.env` of docker compose and those of systemd's `EnvironmentFile=`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from spectui.text_file import read_text

LARGEST = 100_000
"""Bytes of such a file."""

_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=[ \t]*"""
    r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)"|([^\n]*?))[ \t]*(?:(?<=[\s'"=])\#[^\n]*)?$""",
    re.MULTILINE,
)
_SIGNS = {"n": "\n", "r": "\r", "t": "\t"}


def variables(text: str, expand: Callable[[str, dict[str, str]], str] = lambda value, _: value) -> dict[str, str]:
    """The variables of a text. A `#` behind a blank begins a comment, except in quotes.

    `expand` gets each value that is not in single quotes, and the variables above it; it writes these out in it.
    """
    found: dict[str, str] = {}
    for name, single, double, bare in _LINE.findall(text):
        value = re.sub(r"(?s)\\(.)", lambda sign: _SIGNS.get(sign[1], sign[1]), double) if double else bare
        found[name] = single or expand(value, found)
    return found


def in_file(file: Path, expand: Callable[[str, dict[str, str]], str] = lambda value, _: value) -> dict[str, str]:
    """The variables of a file; none if there is no such file. Raises UsageError if it cannot be read."""
    if not file.is_file():
        return {}
    return variables(read_text(file, str(file), LARGEST, "no file of variables is"), expand)
