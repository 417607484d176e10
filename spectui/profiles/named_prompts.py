"""Named system prompts: a directory of Markdown files, each a text with a head that may set knobs.

---
description: finds what is wrong with code
temperature: 0.2
---
You review code. Name faults alone, the worst first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spectui import paths
from spectui.config import convert, nearest
from spectui.errors import UsageError
from spectui.knobs import Knobs, specs, title
from spectui.text import one_line
from spectui.text_file import read_text

LARGEST = 256_000
"""Bytes of a file: more than most contexts hold."""


class NamedPrompt(NamedTuple):
    """`text` is the system prompt; "": the file turns knobs alone. `about`: what a list says of it."""

    text: str
    knobs: Mapping[str, Any]
    about: str


def names() -> list[str]:
    """The names of all, in order."""
    return sorted(file.stem for file in _directory().glob("*.md"))


def listed() -> dict[str, str]:
    """By name what a list says of each: what it is, or why it cannot be used."""
    said = {}
    for name in names():
        try:
            said[name] = read(name).about
        except UsageError as error:
            said[name] = one_line(str(error))
    return said


def read(name: str) -> NamedPrompt:
    """The prompt of this name. Raises UsageError."""
    from spectui.profiles.llama_swap import parsed  # it needs PyYAML

    if name not in names():
        raise UsageError(f"There is no {_directory() / name}.md{nearest(name, names())}")
    file = _directory() / f"{name}.md"
    text, head = read_text(file, str(file), LARGEST, "shorten it").strip(), None
    if text.startswith("---\n"):
        written, _, text = text[4:].partition("\n---")
        head, text = parsed(written), text.lstrip("-").strip()
    if not isinstance(head, dict | None):
        raise UsageError(f"{file}: its head has lines such as temperature: 0.2.")
    known, knobs, about = [key for key, *_ in specs(Knobs)], {}, ""
    for word, value in (head or {}).items():
        key = str(word).replace("-", "_")
        if key in ("description", "name"):
            about = str(value) if key == "description" else about
        elif key in known:
            knobs[key] = convert(key, value, str(file))
        else:
            raise UsageError(f"{file}: there is no knob {word!r}{nearest(str(word), map(title, known))}")
    return NamedPrompt(text, knobs, one_line(about or text.partition("\n")[0] or ", ".join(map(title, knobs))))


def _directory() -> Path:
    return paths.config_directory() / "prompts"
