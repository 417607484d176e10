"""Themes from TOML files: the fields of a Textual `Theme`, and in `[variables]` the colours of the tokens' origins.

A theme may come from anyone: a file with an error is left out, with one sentence that says why.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli
from rich.errors import StyleSyntaxError
from textual.color import Color, ColorParseError
from textual.css.errors import StyleValueError
from textual.css.styles import Styles
from textual.theme import Theme

from spectui.errors import SpectuiError
from spectui.text import one_line
from spectui.text_file import read_text

DEFAULT_THEME = "spectui-dark"

ORIGIN_DEFAULTS: dict[str, str] = {
    "origin-accepted": "#56B4E9",
    "origin-correction": "#E69F00",
    "origin-bonus": "#2FC79A",
    "origin-plain": "#C6CCD6",
    "origin-rejected": "#7F8894",
}
"""Colours for themes that do not set them; without a value the CSS does not parse."""

MAX_BYTES = 64 * 1024
_COLOURS = (
    "primary", "secondary", "warning", "error", "success", "accent", "foreground", "background", "surface", "panel",
    "boost",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SHARE = re.compile(r" (100|\d{1,2})%$")


_File = tuple[int, Path]
"""The directory's number and the file's path. The last of one name counts."""
_Stamp = tuple[int, int, int]


class _ThemeError(SpectuiError):
    """An error in a theme, as the end of a sentence."""


class ThemeFiles:
    """The `*.toml` files of some directories, which need not exist. Of two themes with one name the later directory's counts. A
    theme stays as it was if its file is damaged or removed later."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._seen: dict[_File, _Stamp] | None = None  # the state at the last call
        self._read: dict[_File, _Stamp] = {}
        self._good: dict[_File, Theme] = {}
        self._given: dict[str, Theme] = {}
        self._reported: set[str] = set()

    def news(self) -> tuple[list[Theme], list[str]]:
        """The themes that are new or changed since the last call, and a sentence for each file with a new error."""
        errors: list[str] = []
        before, self._seen = self._seen, self._stamps(errors)
        for file, stamp in sorted(self._seen.items()):
            # An editor may still be writing: a file is read when it has stopped changing.
            if stamp == self._read.get(file) or (before is not None and stamp != before.get(file)):
                continue
            self._read[file] = stamp
            try:
                self._good[file] = _read(file[1])
            except _ThemeError as error:
                fate = "stays as it was" if file in self._good else "is left out"
                errors.append(f"The theme {_shown(file[1].name)} {fate}: {_shown(str(error)).rstrip('.')}.")
        themes = {self._good[file].name: self._good[file] for file in sorted(self._good)}
        news = [theme for name, theme in themes.items() if theme != self._given.get(name)]
        self._given = themes
        return news, errors

    def _stamps(self, errors: list[str]) -> dict[_File, _Stamp]:
        stamps = {}
        for number, directory in enumerate(self._directories):
            try:
                paths = [path for path in directory.iterdir() if path.suffix == ".toml"]
            except FileNotFoundError:
                continue
            except OSError as error:
                sentence = f"Themes in {_shown(str(directory))} are left out: {error.strerror}."
                errors += [sentence] if sentence not in self._reported else []
                self._reported.add(sentence)
                continue
            for path in paths:
                try:
                    stat = path.stat()
                except OSError:  # reading it says why
                    stamps[number, path] = (0, 0, 0)
                else:
                    stamps[number, path] = stat.st_mtime_ns, stat.st_size, stat.st_ino
        return stamps


def _read(path: Path) -> Theme:
    if not os.path.isfile(path):  # a pipe could block, a device never end
        raise _ThemeError("it is not a file")
    text = read_text(path, "it", MAX_BYTES, "themes are small", _ThemeError)
    try:
        table = tomli.loads(text)
    except (tomli.TOMLDecodeError, RecursionError) as error:
        raise _ThemeError(f"it is not TOML ({error})") from error
    except ValueError as error:
        raise _ThemeError("a number in it has thousands of digits") from error
    return _theme(table)


def _theme(table: dict[str, Any]) -> Theme:
    variables = table.pop("variables", {})
    unknown = sorted(set(table) - {"name", "dark", *_COLOURS})
    if unknown:
        raise _ThemeError(f"there is no key {unknown[0]!r}")
    for key in ("name", "primary"):
        if key not in table:
            raise _ThemeError(f"{key!r} is missing")
    if not isinstance(table["name"], str) or not _NAME.fullmatch(table["name"]):
        raise _ThemeError("its name is not made of letters, digits, - and _")
    if not isinstance(table.get("dark", True), bool):
        raise _ThemeError("'dark' is not true or false")
    for key in set(table) & set(_COLOURS):
        _check(key, table[key])
    if not isinstance(variables, dict):
        raise _ThemeError("'variables' is not a table")
    for key, value in variables.items():
        if not _NAME.fullmatch(key):
            raise _ThemeError(f"{key!r} cannot be a variable's name")
        # Textual writes the value into its style sheets, where a wrong one is an error that ends the program.
        _check(key, value, with_share=True)
    return Theme(**table, variables=variables)


def _check(key: str, value: object, *, with_share: bool = False) -> None:
    """Raise for what is no colour, or no text style where the key says so. `with_share`: a percentage may follow a colour."""
    style = key.endswith("-style")
    wrong = f"{key!r} is not a {'text style such as bold, italic or not underline' if style else 'colour'}"
    if not isinstance(value, str) or (not style and value.startswith(("auto", "ansi"))):
        raise _ThemeError(wrong)
    try:
        if style:
            Styles().text_style = value  # Textual parses it here
        else:
            Color.parse(_SHARE.sub("", value) if with_share else value)
    except (ColorParseError, StyleValueError, StyleSyntaxError) as error:
        raise _ThemeError(wrong) from error


def _shown(text: str) -> str:
    """A name or message from a file, on one line, without control characters, at most 200 characters long."""
    return one_line(text)[:200]
