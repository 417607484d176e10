"""What a person writes, and what a model wrote, is text: only the chat template's own marks become control tokens.

llama.cpp first cuts a text at the names of special tokens (`<|im_end|>`, `<s>`), wherever they come from, and then reads the
text between them. So a name in a message becomes the token that ends the turn. Here names in messages get a stand-in for
their first character before the template is rendered: the template sees texts of the same length that begin, end and split
as before. Afterwards the prompt has its own characters again, and llama.cpp reads it in parts: the first character of each
name that had a stand-in is one, which is read as text. The marks of thinking that a template names get stand-ins too, because
many templates cut a reply at them: else one that is about them would lose its beginning. In what a person writes, every sign
that names begin with gets one: a template may make a name of two parts.

A text without such names is read by llama.cpp in one piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.llama.tokens.reply_text import marks_in

# llama_token_attr (llama.h)
_CONTROL = 1 << 0 | 1 << 3  # with the unknown token: with `special`, llama.cpp reads their names as them
_USER_DEFINED = 1 << 4  # their names are always read as them

_STAND_INS = (*range(0xFDD0, 0xFDF0), *range(0xF0000, 0xFFFFE))
"""Characters that mean nothing in Unicode, or nothing outside of a program."""


class _Names:
    """Finds these names in a text."""

    def __init__(self, names: Iterable[str], *, in_parts: bool = False) -> None:
        """`in_parts`: find the sign that a name begins with also where another one follows: a template may take that out."""
        self._names = frozenset(names)
        self._lengths: dict[str, set[int]] = {}
        for name in self._names:
            self._lengths.setdefault(name[0], set()).add(len(name))
        self._first = re.compile("|".join(map(re.escape, self._lengths)) or "(?!)")
        self._alone = {first for first in self._lengths if in_parts and not first.isalnum() and not first.isspace()}

    def starts(self, text: str) -> Iterator[int]:
        """Where one begins, or may begin."""
        for match in self._first.finditer(text):
            if match[0] in self._alone or self.begins(text, match.start()):
                yield match.start()

    def begins(self, text: str, at: int) -> bool:
        """Whether one begins here."""
        return any(text[at : at + length] in self._names for length in self._lengths.get(text[at], ()))


class SpecialTokens:
    """The special tokens of a model's vocabulary. The model must exist longer than it."""

    def __init__(self, model: Model, template: str) -> None:
        """`template`: user-defined tokens that it names are its marks too, as in files of older converters."""
        self._model = model
        control, defined = set[str](), set[str]()
        for token in range(model.n_vocab):
            if attributes := llama.llama_vocab_get_attr(model.vocab, token) & (_CONTROL | _USER_DEFINED):
                (control if attributes & _CONTROL else defined).add(model.token_text(token))
        control.discard("")
        marks = {name for name in defined - control if _is_mark(name) and name in template}
        thoughts = marks_in(template)  # many templates cut a reply at them, to leave out what it thought
        self._control = _Names(control)
        self._in_replies = _Names(control | thoughts)
        self._in_prompts = _Names(control | thoughts | marks, in_parts=True)
        self._marks = _Names(control | marks)
        self._characters = set(template).union(*control, *defined)

    def hidden(
        self, messages: Sequence[tuple[Any, ...]], in_replies: bool = False
    ) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
        """The messages, each a role and texts or what holds texts, with stand-ins in the names of special tokens; and what each
        stands for.

        In replies, user-defined tokens but for the marks of thinking stay what the model wrote, unless `in_replies`. In one
        that is continued, the last message, those stay too.
        """
        finds = [self._in_prompts if in_replies or role != "assistant" else self._in_replies for role, *_ in messages]
        if messages and messages[-1][0] == "assistant" and not in_replies:
            finds[-1] = self._control
        texts = [(names, text) for names, (_, *each) in zip(finds, messages, strict=True) for text in _texts(each)]
        firsts = sorted({text[at] for names, text in texts for at in names.starts(text)})
        if not firsts:
            return list(messages), {}
        used = self._characters.union(*(text for _, text in texts))
        stand_ins = dict(zip(firsts, (chr(n) for n in _STAND_INS if chr(n) not in used), strict=False))

        def hide(names: _Names, value: Any) -> Any:
            if isinstance(value, dict):
                return {hide(names, key): hide(names, held) for key, held in value.items()}
            if isinstance(value, list):
                return [hide(names, held) for held in value]
            if not isinstance(value, str):
                return value
            characters = list(value)
            for at in names.starts(value):
                characters[at] = stand_ins[value[at]]
            return "".join(characters)

        rows = [(role, *(hide(names, text) for text in each)) for names, (role, *each) in zip(finds, messages, strict=True)]
        return rows, {stand_in: character for character, stand_in in stand_ins.items()}

    def tokens(self, text: str, stand_ins: Mapping[str, str]) -> list[int]:
        """The tokens of a rendered text. Raises TextError."""
        written, places = shown(text, stand_ins), re.finditer("|".join(stand_ins) or "(?!)", text)
        firsts = {place.start() for place in places if self._marks.begins(written, place.start())}
        edges = sorted({0, len(written), *firsts, *(first + 1 for first in firsts)})
        tokens: list[int] = []
        for start, end in pairwise(edges):
            tokens += self._model.tokenize(written[start:end], special=start not in firsts, within=start > 0)
        return tokens


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value of JSON, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for held in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(held)


def shown(text: str, stand_ins: Mapping[str, str]) -> str:
    """The text with the characters that stand-ins stand for."""
    return text.translate({ord(stand_in): character for stand_in, character in stand_ins.items()})


def _is_mark(name: str) -> bool:
    return len(name) > 2 and name[0] in "<[" and name[-1] in ">]"
