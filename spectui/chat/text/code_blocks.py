"""The code blocks of replies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from spectui.text import printable

if TYPE_CHECKING:
    from spectui.chat.messages import ChatMessage

FORMULAS = {"\\[": "\\]", "$$": "$$"}
"""Lines between which a formula is."""
QUOTE = re.compile(r" {0,3}(?:> ?)+")
_CONTAINERS = re.compile(r"(?:(?: {0,3}> ?)|(?: *(?:[-+*]|\d{1,9}[.)]) +(?=\S)))* *")
_FENCE = re.compile(r" *(?:(`{3,})([^`]*)|(~{3,})(.*))$")
_NESTS = frozenset(("markdown", "md"))
"""Languages whose code has code blocks itself, which models write with fences of the same length."""


class Fence(NamedTuple):
    """A block of code between fences, or up to the text's end."""

    info: str
    lines: list[str]
    """Those of the code, without the indentation of the fence."""
    first: int
    """The number of the code's first line."""
    end: int
    """The number of the line after the code."""
    next: int
    """The number of the line after the block."""

    @property
    def language(self) -> str:
        """The language; "" if it has none."""
        return self.info.split(maxsplit=1)[0] if self.info else ""

    @property
    def code(self) -> str:
        """The code."""
        return "\n".join(self.lines)


def fence_at(lines: Sequence[str], number: int, at: int = 0) -> Fence | None:
    """The block whose opening fence is at the `at`th character of a line; None if there is none."""
    if (opening := _FENCE.match(lines[number], at)) is None:
        return None
    run, info = opening[1] or opening[3], (opening[2] if opening[1] else opening[4]).strip()
    indent = opening.start(1 if opening[1] else 3)
    quoted = QUOTE.match(lines[number], 0, at)
    indent -= quoted.end() if quoted else 0
    nests, depth, code = info.lower() in _NESTS, 0, list[str]()
    for end in range(number + 1, len(lines)):
        line = lines[end]
        if quoted:
            if (quote := QUOTE.match(line)) is None:
                return Fence(info, code, number + 1, end, end)
            line = line[quote.end() :]
        fence = _FENCE.match(line)
        if fence and (fence[1] or fence[3]).startswith(run):
            inner = (fence[2] if fence[1] else fence[4]).strip()
            if not inner and not depth:
                return Fence(info, code, number + 1, end, end + 1)
            depth += 0 if not nests else 1 if inner else -1
        code.append(line[min(indent, len(line) - len(line.lstrip(" "))) :])
    return Fence(info, code, number + 1, len(lines), len(lines))


def fences(lines: Sequence[str]) -> Iterator[tuple[int, Fence | None]]:
    """The number of each line, and the block of code that begins there; lines of blocks are skipped."""
    number = 0
    while number < len(lines):
        containers = _CONTAINERS.match(lines[number])
        fence = fence_at(lines, number, containers.end() if containers else 0)
        yield number, fence
        number = fence.next if fence is not None else number + 1


def code_blocks(text: str) -> list[str]:
    """The code blocks of a text, without their fences."""
    return [fence.code.rstrip("\n") for _, fence in fences(text.split("\n")) if fence is not None]


def finished(text: str) -> int:
    """The length of the beginning of a text that grows which has its looks for good: paragraphs, lists, closed blocks of code,
    behind which another block has begun at the edge."""
    lines, ended, formula = text.split("\n"), 0, ""
    places = [*accumulate((len(line) + 1 for line in lines), initial=0)]
    above = True  # another block can begin here
    for number, fence in fences(lines):
        line = lines[number].strip()
        if formula:
            formula = "" if line == formula else formula
            continue
        if above and lines[number][:1].strip():
            ended = places[number]
        formula = FORMULAS.get(line, "")
        above = not line or (fence is not None and fence.end < fence.next)
    return ended


def code_at(text: str, start: int) -> str:
    """The code of the block whose opening fence is in the line that begins at `start`; "" if there is none."""
    lines = text[start:].split("\n")
    containers = _CONTAINERS.match(lines[0])
    fence = fence_at(lines, 0, containers.end() if containers else 0)
    return fence.code.rstrip("\n") if fence is not None else ""


def last_code_blocks(messages: Sequence[ChatMessage]) -> list[str]:
    """The code blocks with text, without their fences, of the last reply whose answer has some, safe to show."""
    for message in reversed(messages):
        blocks = code_blocks(printable(message.for_engine().content)) if message.role == "assistant" else []
        if blocks := [block for block in blocks if block.strip()]:
            return blocks
    return []
