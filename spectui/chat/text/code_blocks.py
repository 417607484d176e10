"""The code blocks of replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from spectui.text import printable
from spectui.thinking import divided

if TYPE_CHECKING:
    from spectui.chat.messages import ChatMessage


def code_blocks(text: str) -> list[str]:
    """The code blocks of a reply without their fences, but for those of its thinking."""
    said = "\n\n".join(part.strip("\n") for thinking, part in divided(text, opened=False) if not thinking)
    tokens = MarkdownIt().parse(said)
    return [token.content.rstrip("\n") for token in tokens if token.type in ("fence", "code_block")]


def last_code_blocks(messages: Sequence[ChatMessage]) -> list[str]:
    """The code blocks with text of the last reply among these messages that has some, safe to show."""
    for each in reversed(messages):
        blocks = code_blocks(printable(each.for_engine().content)) if each.role == "assistant" else []
        if blocks := [block for block in blocks if block.strip()]:
            return blocks
    return []
