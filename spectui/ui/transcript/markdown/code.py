"""What a block of code consists of, as Pygments reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from spectui.ui.transcript.source import KINDS, TEXT

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


def highlighted(code: str, language: str) -> Iterator[tuple[int, int, int]]:
    """The parts of a code: start, end, kind. One part where the language is unknown."""
    lexer = _lexer(language)
    tokens: list[tuple[int, _TokenType, str]] = []
    if lexer is not None and len(code) <= LONGEST and max(map(len, code.split("\n"))) <= LONGEST_LINE:
        with suppress(Exception):  # it is one of five hundred, and code without colours is code too
            tokens = [*lexer.get_tokens_unprocessed(code)]
    kinds: dict[_TokenType, int] = {}
    done = 0
    for start, of, text in tokens:
        if start < done or not code.startswith(text, start):
            continue  # a lexer in a lexer need not keep the order
        if of not in kinds:
            kinds[of] = next((kind for each, kind in _KINDS if of in each), TEXT)
        if kinds[of] != TEXT:
            yield done, start, TEXT
            done = start + len(text)
            yield start, done, kinds[of]
    yield done, len(code), TEXT
