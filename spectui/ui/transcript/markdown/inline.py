"""Which characters of a paragraph, a heading or a cell are drawn, and how.

Only marks beside words are taken, so that formulas, paths and patterns stay as they are written: what stands before an opening
mark, and after a closing one, is a space, a bracket, a quote or the like. A backslash is a letter as any other. Links and HTML
stay too: an address that is not seen cannot be judged.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from spectui.ui.transcript.source import KINDS, TEXT
from spectui.ui.transcript.wrap import Piece

STRONG, EMPHASIS, STRESSED, STRUCK, CODE = map(KINDS.index, ("strong", "emphasis", "stressed", "struck", "code"))
_STYLES = {"*": EMPHASIS, "_": EMPHASIS, "**": STRONG, "__": STRONG, "***": STRESSED, "___": STRESSED, "~~": STRUCK}

_WIDE = "\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uffef\U00020000-\U0003fffe"
"""Letters without spaces between their words."""
_TOKEN = re.compile(
    r"\\(?:[^\w\s`]|_)|(?<!\w)__[a-z]\w*__(?!\w)"  # stay as they are, as the next two: an address, and that of a link
    r"|[A-Za-z]://[^\s<>*`~|]*[^\s<>*`~|_.,:;!?'\")\]]|\]\([^\s()]*(?:\([^\s()]*\)[^\s()]*)*(?:\s+\"[^\"\n]*\")?\)"
    r"|(?P<ticks>`+)|(?P<mark>\*+|_+|~+)"
)
_OPENS = re.compile(rf"(?:^|(?<=[\s(\[{{\"'“‘«„¿¡:;,|>*_~—–-])|(?<=[{_WIDE}]))(?:\*+|_+|~+)(?!\s|$)")
_AFTER_CLOSING = re.compile(rf"$|[\s'’—–{_WIDE}]|[.,:;!?…)\]}}\"'”’»|*_~`-]+(?:[\s—–{_WIDE}]|$)")


def pieces_of(text: str, base: int, kind: int = TEXT) -> Iterator[Piece]:
    """The pieces that draw a text, which begins at `base` of the source. `kind`: where it has no marks."""
    edge = at = 0  # where the next piece's part of the source begins, and where its text does
    styles: list[int] = []
    for start, end, style in _marks(text):
        if at < start:
            yield Piece(text[at:start], _looks(kind, styles), base + edge, base + at)
            edge = start
        at = end
        if style == CODE:
            ticks = end - start - len(text[start:end].lstrip("`"))
            first, last = start + ticks, end - ticks
            if text[first] == text[last - 1] == " " and text[first:last].strip():
                first, last = first + 1, last - 1
            yield Piece(text[first:last], CODE, base + edge, base + first)
            edge = end
        elif style in styles:
            styles.remove(style)
            edge = end
        else:
            styles.append(style)
    if at < len(text):
        yield Piece(text[at:], _looks(kind, styles), base + edge, base + at)


def _looks(kind: int, styles: list[int]) -> int:
    if STRUCK in styles or kind != TEXT or not styles:  # a heading is strong already
        return STRUCK if STRUCK in styles else kind
    return styles[0] if len(styles) == 1 else STRESSED


def _marks(text: str) -> list[tuple[int, int, int]]:
    """Start and end of the marks that come in pairs, and of code with its ticks, in order, each with its style."""
    tokens = [*_TOKEN.finditer(text)] if any(sign in text for sign in "*_`~") else []
    ticks = defaultdict[str, list[int]](list)
    for number, token in enumerate(tokens):
        if token["ticks"]:
            ticks[token["ticks"]].append(number)
    marks: list[tuple[int, int, int]] = []
    opened: dict[str, re.Match[str]] = {}  # the last one of each
    done = -1
    for number, token in enumerate(tokens):
        mark = token["mark"]
        if number <= done:
            continue
        if token["ticks"]:
            same = ticks[token["ticks"]]
            closing = bisect_right(same, number)
            if closing < len(same):
                done = same[closing]
                marks.append((token.start(), tokens[done].end(), CODE))
        elif mark in opened and not text[token.start() - 1].isspace() and _AFTER_CLOSING.match(text, token.end()):
            marks += [(*opened[mark].span(), _STYLES[mark]), (*token.span(), _STYLES[mark])]
            while mark in opened:
                opened.popitem()
        elif mark in _STYLES and _OPENS.match(text, token.start()):
            opened.pop(mark, None)
            opened[mark] = token
    return sorted(marks)
