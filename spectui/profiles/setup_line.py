"""A set-up as a line of flags, and lines of flags that change it while a chat goes on."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from spectui.config import convert, settings
from spectui.errors import UsageError
from spectui.knobs import Setup
from spectui.profiles.command_line import Shape, read

_ROWS = {row.key: row for row in settings() if row.owner is Setup and row.key not in ("model", "draft", "system")}
"""How models are loaded. Which ones, and what they are told, is chosen elsewhere."""

_FLAGS = {flag: row for row in _ROWS.values() for flag in row.spec.flags}


def flags_of(setup: Setup, before: Setup | None = None) -> str:
    """The flags that load models so; "" if all settings have their defaults, or those of the set-up `before`."""
    return shlex.join(
        word
        for key, row in _ROWS.items()
        if getattr(setup, key) != (row.default if before is None else getattr(before, key))
        for word in (row.spec.flags[0], str(getattr(setup, key)))
    )


def with_flags(setup: Setup, line: str) -> Setup:
    """The set-up with what the flags of a line say; its other settings stay. Raises UsageError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{line!r} is no line of flags: {error}.") from None
    shapes = {flag: Shape(row.key, bool(row.spec.bare)) for flag, row in _FLAGS.items()}
    read_line = read(words, shapes, "the loaded models", settings=False)
    if read_line.strays:
        raise UsageError(f"Models are placed with flags such as -ngl 20 -ctk q8_0, not {read_line.strays[0]!r}.")
    changes: dict[str, Any] = {}
    for flag, given in read_line.given:
        row = _FLAGS[flag]
        value = row.spec.bare or None if given is None else given
        if value is None:
            raise UsageError(f"The flag {flag} needs a value.")
        # An empty text is llama.cpp's choice, as `-ts ''`.
        if row.spec.adds and row.key in changes:
            value = f"{changes[row.key]},{value}"
        changes[row.key] = convert(row.key, value, f"flag {flag}") if value or row.kind is not str else ""
    return replace(setup, **changes).checked()
