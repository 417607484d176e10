"""A reply's text taken apart: what the model thought, what it said, and the code in that."""

from __future__ import annotations

import re
from typing import NamedTuple

from markdown_it import MarkdownIt

_MARK = re.compile(r"<(/?)think(?:ing)?>")


class Part(NamedTuple):
    """A stretch of a reply."""

    thinking: bool
    text: str


def parts(text: str) -> list[Part]:
    """The reply in order. A section that is not closed lasts to the end; one that is only closed began before the reply,
    as in templates that open it for the model."""
    marks = list(_MARK.finditer(text))
    found: list[Part] = []
    thinking = bool(marks) and marks[0][1] == "/"
    at = 0
    for mark in marks:
        if (mark[1] == "/") == thinking:
            found.append(Part(thinking, text[at : mark.start()]))
            thinking, at = not thinking, mark.end()
    found.append(Part(thinking, text[at:]))
    return [Part(part.thinking, part.text.strip("\n")) for part in found if part.text.strip()]


def said(text: str) -> str:
    """The reply without what was thought."""
    return "\n\n".join(part.text for part in parts(text) if not part.thinking)


def code_blocks(text: str) -> list[str]:
    """The code blocks of what was said, without their fences."""
    tokens = MarkdownIt().parse(said(text))
    return [token.content.rstrip("\n") for token in tokens if token.type in ("fence", "code_block")]
