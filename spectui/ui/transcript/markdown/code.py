"""What a block of code consists of, as Pygments reads it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from spectui.ui.transcript.blocks import KINDS, TEXT

_KINDS = tuple(
    (each, KINDS.index(kind))
    for kind, types in {
        "comment": (Comment,),
        "keyword": (Keyword, Name.Tag),
        "string": (String,),
        "number": (Number,),
        "name": (Name.Function, Name.Class, Name.Decorator, Name.Attribute),
    }.items()
    for each in types
)

LONGEST = 200_000
LONGEST_LINE = 2_000
"""Characters: what is longer is drawn without colours, because a lexer's patterns can take very long for it."""


@lru_cache(64)
def _lexer(language: str) -> Any:
    """Pygments' lexer; None if it has none. To look for one that it lacks takes long."""
    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None


def highlighted(code: str, language: str) -> list[tuple[int, int, int]]:
    """The parts of a code with a kind of their own: start, end, kind. None where the language is unknown."""
    lexer = _lexer(language)
    if lexer is None or len(code) > LONGEST or max(map(len, code.split("\n"))) > LONGEST_LINE:
        return []
    try:
        tokens = [*lexer.get_tokens_unprocessed(code)]
    except Exception:  # it is one of five hundred, and code without colours is code too
        return []
    return [*_parts(code, tokens)]


def _parts(code: str, tokens: list[tuple[int, _TokenType, str]]) -> Iterator[tuple[int, int, int]]:
    known: dict[_TokenType, int] = {}
    done = 0
    for start, of, text in tokens:
        if start < done or not code.startswith(text, start):
            continue  # a lexer in a lexer need not keep the order
        done = start + len(text)
        if of not in known:
            known[of] = next((kind for each, kind in _KINDS if of in each), TEXT)
        if known[of] != TEXT:
            yield start, done, known[of]
