"""The code blocks of replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from spectui.text import printable

if TYPE_CHECKING:
    from spectui.chat.messages import ChatMessage


def last_code_blocks(messages: Sequence[ChatMessage]) -> list[str]:
    """The code blocks with text, without their fences, of the last reply whose answer has some, safe to show."""
    for message in reversed(messages):
        tokens = MarkdownIt().parse(printable(message.for_engine().content)) if message.role == "assistant" else []
        blocks = [token.content.rstrip("\n") for token in tokens if token.type in ("fence", "code_block")]
        if blocks := [block for block in blocks if block.strip()]:
            return blocks
    return []
