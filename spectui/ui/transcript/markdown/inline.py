"""Which characters of a paragraph, a heading or a cell are drawn, and how: markdown-it reads the marks.

markdown-it does not say where in the text its tokens are. Each is looked for where the one before ended; where one is not
there, all of the text is drawn as it is. Links and HTML stay as they are written: an address that is not seen cannot be judged.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from spectui.ui.transcript.blocks import KINDS, TEXT

SIGN, STRONG, EMPHASIS, STRESSED, STRUCK, CODE = (
    KINDS.index(kind) for kind in ("sign", "strong", "emphasis", "stressed", "struck", "code")
)

_ADDRESS = re.compile(
    r"://[^\s<>*`~|]*[^\s<>*`~|_.,:;!?'\")\]]|\]\([^\s()]*(?:\([^\s()]*\)[^\s()]*)*(?:\s+\"[^\"\n]*\")?\)"
)
"""The rest of an address, or a link's: what looks like a mark in it is none."""

_MARK = re.compile(r"[*_`~\\]")
_BREAK = re.compile(r"[ ]*(\\?)(\n[ \t]*)")


class Shown(NamedTuple):
    """Characters `at` to `end` of a text are drawn; they stand for those from `start` on, up to the next one's `start`."""

    start: int
    at: int
    end: int
    kind: int


class _ReadError(Exception):
    """A token is not where it should be."""


def _address(state: StateInline, silent: bool) -> bool:
    sign = state.src[state.pos]
    if sign not in ":]" or (sign == ":" and not state.src[max(0, state.pos - 1)].isalpha()):
        return False
    if (found := _ADDRESS.match(state.src, state.pos)) is None:
        return False
    if not silent:
        state.append_pending(found[0])
    state.pos = found.end()
    return True


_RULES = (
    *("table", "code", "fence", "blockquote", "hr", "list", "heading", "lheading"),
    *("newline", "escape", "backticks", "strikethrough", "emphasis"),
)
MARKDOWN = MarkdownIt("zero").enable(_RULES)
MARKDOWN.inline.ruler.before("newline", "address", _address)


def shown(text: str, kind: int = TEXT) -> list[Shown]:
    """What is drawn of a text. `kind`: where it has no marks."""
    if not _MARK.search(text):
        return [Shown(0, 0, len(text), kind)] if text else []
    tokens: list[Token] = []
    MARKDOWN.inline.parse(text, MARKDOWN, {}, tokens)
    try:
        return _Reader(text, kind).read(tokens)
    except _ReadError:
        return [Shown(0, 0, len(text), kind)]


class _Reader:
    def __init__(self, text: str, kind: int) -> None:
        self._text = text
        self._kind = kind
        self._open = {"strong": 0, "em": 0, "s": 0}
        self._pos = 0  # in the text
        self._edge = 0  # where the next one starts: behind the marks that belong to the last one
        self._shown: list[Shown] = []

    def read(self, tokens: list[Token]) -> list[Shown]:
        for token in tokens:
            if token.type == "text":
                self._show(token.content)
            elif token.type == "text_special":
                self._pass(token.markup.removesuffix(token.content))
                self._show(token.content)
            elif token.type in ("softbreak", "hardbreak"):
                if (found := _BREAK.match(self._text, self._pos)) is None:
                    raise _ReadError
                self._pos = self._edge = found.start(2)
                self._show(found[2])
            elif token.type == "code_inline":
                self._show_code(token.markup)
            elif token.nesting:
                self._pass(token.markup)
                self._open[token.tag] += token.nesting
                if token.nesting < 0:
                    self._edge = self._pos
            else:
                raise _ReadError
        if self._text[self._pos :].strip():
            raise _ReadError
        return self._shown

    def _show(self, text: str) -> None:
        start = self._pos
        self._pass(text)
        if text:
            self._shown.append(Shown(self._edge, start, self._pos, self._style))
            self._edge = self._pos

    def _show_code(self, marks: str) -> None:
        self._pass(marks)
        closing = re.compile(f"(?<!`){marks}(?!`)").search(self._text, self._pos)
        if closing is None:
            raise _ReadError
        start, end = self._pos, closing.start()
        code = self._text[start:end]
        if code.strip() and code[0] == code[-1] == " ":
            start, end = start + 1, end - 1
        self._shown.append(Shown(self._edge, start, end, CODE))
        self._pos = self._edge = closing.end()

    def _pass(self, text: str) -> None:
        if not self._text.startswith(text, self._pos):
            raise _ReadError
        self._pos += len(text)

    @property
    def _style(self) -> int:
        strong, em, struck = (self._open[tag] > 0 for tag in ("strong", "em", "s"))
        if struck or self._kind != TEXT:  # a heading is strong already
            return STRUCK if struck else self._kind
        return STRESSED if strong and em else STRONG if strong else EMPHASIS if em else self._kind
