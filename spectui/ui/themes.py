"""Themes from TOML files: a Textual `Theme`'s fields, and in `[variables]` the colours of the tokens' origins.

A theme may come from anyone, so a file can do no more than be left out with one line that says why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli
from textual.color import Color, ColorParseError
from textual.theme import Theme

DEFAULT_THEME = "spectui-dark"

ORIGIN_DEFAULTS: dict[str, str] = {
    "origin-accepted": "#56B4E9",
    "origin-correction": "#E69F00",
    "origin-bonus": "#2FC79A",
    "origin-plain": "#C6CCD6",
    "origin-rejected": "#7F8894",
}
"""For `App.get_theme_variable_defaults`: without them CSS would not parse under a theme that does not name them."""

MAX_BYTES = 64 * 1024
_COLOURS = (
    "primary", "secondary", "warning", "error", "success", "accent", "foreground", "background", "surface", "panel",
    "boost",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SHARE = re.compile(r" (100|\d{1,2})%$")
_STYLE_WORDS = frozenset(("bold", "dim", "italic", "none", "not", "reverse", "strike", "underline"))


class _ThemeError(ValueError):
    """What is wrong with a theme, as the end of a sentence."""


def load_themes(directories: Sequence[Path]) -> tuple[list[Theme], list[str]]:
    """The themes in the directories' `*.toml` files, and one line for each file left out. Of two themes with one name
    the one from the later directory counts; a directory that does not exist has none."""
    themes: dict[str, Theme] = {}
    errors = []
    for directory in directories:
        try:
            paths = sorted(path for path in directory.iterdir() if path.suffix == ".toml")
        except FileNotFoundError:
            continue
        except OSError as error:
            errors.append(f"Themes in {_shown(str(directory))} are left out: {error.strerror}.")
            continue
        for path in paths:
            try:
                theme = _read(path)
            except _ThemeError as error:
                errors.append(f"The theme {_shown(path.name)} is left out: {_shown(str(error))}.")
            else:
                themes[theme.name] = theme
    return list(themes.values()), errors


def _read(path: Path) -> Theme:
    try:
        # Anything but a plain file could block (a pipe) or never end (a device).
        if not path.is_file():
            raise _ThemeError("it is not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _ThemeError(error.strerror or "it cannot be read") from error
    if len(data) > MAX_BYTES:
        raise _ThemeError(f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        table = tomli.loads(data.decode())
    except UnicodeDecodeError as error:
        raise _ThemeError("it is not UTF-8") from error
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
        _check_colour(key, table[key])
    if not isinstance(variables, dict):
        raise _ThemeError("'variables' is not a table")
    for key, value in variables.items():
        if not _NAME.fullmatch(key):
            raise _ThemeError(f"{key!r} cannot be a variable's name")
        # Textual writes the value into its style sheets, where one of the wrong sort is an error that ends the program.
        if not key.endswith("-style"):
            _check_colour(key, _SHARE.sub("", value) if isinstance(value, str) else value)
        elif not isinstance(value, str) or not value or set(value.split(" ")) - _STYLE_WORDS:
            raise _ThemeError(f"{key!r} is not made of {', '.join(sorted(_STYLE_WORDS))}")
    return Theme(**table, variables=variables)


def _check_colour(key: str, value: object) -> None:
    if not isinstance(value, str) or value.startswith(("auto", "ansi")):
        raise _ThemeError(f"{key!r} is not a colour")
    try:
        Color.parse(value)
    except ColorParseError as error:
        raise _ThemeError(f"{key!r} is not a colour") from error


def _shown(text: str) -> str:
    """A name or message out of a file, on one line and without control characters."""
    return "".join(character if character.isprintable() else "?" for character in text)[:200]
