"""Code blocks that repeat most of what stood in the conversation before: what they change of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from spectui.chat.text.code_blocks import fence_at

LEAST, MOST = 8, 3000
"""Lines of a block, and of what it is compared with."""
REPEATED = 0.6
"""Share of a block's lines from which on it is an edit."""


class Edit(NamedTuple):
    """A block with its fences, from `start` to `end` of the text. `lines`: the changed ones behind + and -, and one before
    each change; of these `changed` differ."""

    start: int
    end: int
    changed: int
    lines: tuple[str, ...]


def edits(text: str, earlier: Sequence[str]) -> Iterator[Edit]:
    """The blocks of the text that are edits of earlier texts, or of code blocks in these."""
    lines, number, at = text.split("\n"), 0, 0
    known = [each.split("\n") for each in earlier]
    while number < len(lines):
        fence = fence_at(lines, number) if lines[number].startswith(("```", "~~~")) else None
        end = fence.next if fence is not None else number + 1
        length = sum(len(line) + 1 for line in lines[number:end])
        if fence is not None and LEAST <= len(fence.lines) <= MOST and fence.end < fence.next:
            old = max(known, key=lambda old: _repeated(old, fence.lines), default=[])
            if len(old) <= MOST and _repeated(old, fence.lines) >= REPEATED * len(fence.lines):
                changed, shown = _difference(old, fence.lines)
                if len(shown) <= len(fence.lines) // 2:
                    yield Edit(at, min(len(text), at + length - 1), changed, shown)
        number, at = end, at + length


def _repeated(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines both have."""
    return (Counter(old) & Counter(new)).total()


def _difference(old: Sequence[str], new: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """How many lines are changed, and these. What stands around the old code, such as a question, is no part of it."""
    changed, shown = 0, list[str]()
    for tag, i, i_end, j, j_end in SequenceMatcher(None, old, new).get_opcodes():
        if tag == "equal":
            continue
        if not j:
            i = max(i, i_end - j_end)
        if j_end == len(new):
            i_end = min(i_end, i + j_end - j)
        if i == i_end and j == j_end:
            continue
        changed += max(i_end - i, j_end - j)
        shown += [f"  {new[j - 1]}"] if j else []
        shown += [f"- {line}" for line in old[i:i_end]] + [f"+ {line}" for line in new[j:j_end]]
    return changed, tuple(shown)
