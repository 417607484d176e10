"""Words as programs of Windows take them apart: a backslash is one, except before a quote."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_PART = re.compile(r'(\\*)"|([^"\s\\]+|\\+)|(\s+)')


def split(text: str) -> list[str]:
    """The words of a command line, by the rules of CommandLineToArgvW. Raises ValueError if quotes are not closed."""
    words: list[str] = []
    current: str | None = None
    quoted, position = False, 0
    while found := _PART.match(text, position):
        position = found.end()
        if found[3] is not None and not quoted:
            words += [current] if current is not None else []
            current = None
            continue
        if found[1] is None:
            current = (current or "") + found[0]
            continue
        current = (current or "") + "\\" * (len(found[1]) // 2)
        if len(found[1]) % 2:
            current += '"'
        else:
            quoted = not quoted
    if quoted:
        raise ValueError("quotes are not closed")
    return words if current is None else [*words, current]


def environment() -> Mapping[str, str]:
    """The variables where it is imported, by their names in capitals: Windows does not tell them apart."""
    return {name.upper(): value for name, value in os.environ.items()} if os.name == "nt" else {}
