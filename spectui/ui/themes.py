"""Themes from TOML files: the fields of a Textual `Theme`, and in `[variables]` the colours of the tokens' origins.

A theme may come from anyone: a file with an error is left out, with one sentence that says why.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

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
    except (ValueError, RecursionError) as error:
        raise _ThemeError(f"it is not TOML ({error})") from error
    variables = table.pop("variables", {})
    if "name" not in table or "primary" not in table or not isinstance(variables, dict):
        raise _ThemeError("it needs a name and a primary colour, and [variables] is a table")
    wrong = [key for key, value in table.items() if not _is_field(key, value)]
    # Textual writes variables into its style sheets, where a wrong one is an error that ends the program.
    wrong += [key for key, value in variables.items() if not _NAME.fullmatch(key) or not _is_variable(key, value)]
    if wrong:
        raise _ThemeError(f"{wrong[0]!r} is no key of a theme, or does not have a value that it can have")
    return Theme(**table, variables=variables)


def _is_field(key: str, value: object) -> bool:
    if key == "dark":
        return isinstance(value, bool)
    return isinstance(value, str) and (bool(_NAME.fullmatch(value)) if key == "name" else key in _COLOURS and _is_colour(value))


def _is_variable(key: str, value: object) -> bool:
    """Whether this is a text style where the key says so, or else a colour, which a percentage may follow."""
    if not isinstance(value, str) or not key.endswith("-style"):
        return isinstance(value, str) and _is_colour(_SHARE.sub("", value))
    try:
        Styles().text_style = value  # Textual parses it here
    except (StyleValueError, StyleSyntaxError):
        return False
    return True


def _is_colour(value: str) -> bool:
    try:
        Color.parse(value)
    except ColorParseError:
        return False
    return not value.startswith(("auto", "ansi"))


def _shown(text: str) -> str:
    """A name or message from a file, on one line, without control characters, at most 200 characters long."""
    return one_line(text)[:200]
