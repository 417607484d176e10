"""Splits a reply's text into thinking and answer, and finds code blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from markdown_it import MarkdownIt

from spectui.text import printable
from spectui.thinking import divided

if TYPE_CHECKING:
    from spectui.chat.messages import ChatMessage


class Part(NamedTuple):
    """A stretch of a reply."""

    thinking: bool
    text: str


def parts(text: str) -> list[Part]:
    """The reply's parts in order, without the marks; an unclosed part lasts to the end."""
    return [Part(thinking, each.strip("\n")) for thinking, each in divided(text, opened=False) if each.strip()]


def said(text: str) -> str:
    """The reply without its thinking."""
    return "\n\n".join(part.text for part in parts(text) if not part.thinking)


def code_blocks(text: str) -> list[str]:
    """The code blocks of the answer, without their fences."""
    tokens = MarkdownIt().parse(said(text))
    return [token.content.rstrip("\n") for token in tokens if token.type in ("fence", "code_block")]


def last_code_blocks(messages: Sequence[ChatMessage]) -> list[str]:
    """The code blocks with text of the last reply among these messages that has some, safe to show."""
    for each in reversed(messages):
        blocks = code_blocks(printable(each.for_engine().content)) if each.role == "assistant" else []
        if blocks := [block for block in blocks if block.strip()]:
            return blocks
    return []
