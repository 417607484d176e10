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


class _ThemeError(SpectuiError):
    """An error in a theme, as the end of a sentence."""


def read_themes(directories: Sequence[Path]) -> tuple[list[Theme], list[str]]:
    """The themes in the `*.toml` files of some directories, which need not exist, and a sentence for each that has an error. Of
    two themes with one name the later directory's counts."""
    themes: dict[str, Theme] = {}
    problems: list[str] = []
    for directory in directories:
        try:
            paths = sorted(path for path in directory.iterdir() if path.suffix == ".toml")
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"Themes in {_shown(str(directory))} are left out: {error.strerror}.")
            continue
        for path in paths:
            try:
                theme = _read(path)
            except _ThemeError as error:
                problems.append(f"The theme {_shown(path.name)} is left out: {_shown(str(error)).rstrip('.')}.")
            else:
                themes[theme.name] = theme
    return [*themes.values()], problems


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
