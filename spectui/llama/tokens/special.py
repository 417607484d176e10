"""What a person writes, and what a model wrote, is text: only the chat template's own marks become control tokens.

llama.cpp first cuts a text at the names of special tokens (`<|im_end|>`, `<s>`), wherever they come from, and then reads the
text between them. So a name in a message becomes the token that ends the turn. Here names in messages get a stand-in for
their first character before the template is rendered: the template sees texts of the same length that begin, end and split
as before. Afterwards the prompt is cut, by llama.cpp's rule, at the names that are left: those are the template's. The text
between them is read with its own characters, as llama.cpp reads it when names are text. The marks of thinking that a template
names get stand-ins too, because many templates cut a reply at them: else one that is about them would lose its beginning. In
what a person writes, every sign that names begin with gets one: a template may make a name of two parts.

A text without such names is read by llama.cpp in one piece.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from spectui.llama.library import llama
from spectui.llama.model import Model
from spectui.llama.tokens.reply_text import marks_in

# llama_token_attr (llama.h)
_CONTROL = 1 << 0 | 1 << 3  # with the unknown token: with `special`, llama.cpp reads their names as them
_USER_DEFINED = 1 << 4  # their names are always read as them
_TAKES_SPACE = 1 << 8  # the white space behind it, as in Phi-3. White space before it takes only the mask of encoders.

_SPACE = " \t\n\v\f\r"
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
            start, first = match.start(), match[0]
            if first in self._alone or any(text[start : start + n] in self._names for n in self._lengths[first]):
                yield start


class _Special(NamedTuple):
    token: int
    name: str
    attributes: int


class SpecialTokens:
    """The special tokens of a model's vocabulary. The model must exist longer than it."""

    def __init__(self, model: Model, template: str) -> None:
        """`template`: user-defined tokens that it names are its marks too, as in files of older converters."""
        self._model = model
        self._by_name: dict[str, _Special] = {}
        for token in _special(model):
            self._by_name.setdefault(token.name, token)
        control = {token.name for token in self._by_name.values() if token.attributes & _CONTROL}
        marks = {name for name in self._by_name.keys() - control if _is_mark(name) and name in template}
        thoughts = marks_in(template)  # many templates cut a reply at them, to leave out what it thought
        self._control = _Names(control)
        self._in_replies = _Names(control | thoughts)
        self._in_prompts = _Names(control | thoughts | marks, in_parts=True)
        self._marks = tuple(marks)
        self._characters = set(template).union(*self._by_name)

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
        if not any(stand_in in text for stand_in in stand_ins):
            return self._model.tokenize(text, special=True)
        written = shown(text, stand_ins)
        # A user-defined name is cut after its first character, because llama.cpp would read it as its token.
        hidden = re.finditer(f"[{''.join(stand_ins)}]", text)
        apart = [match.end() for match in hidden if written.startswith(self._marks, match.start())]
        tokens: list[int] = []
        end = 0
        for start, after, token in [*self._cuts(text), (len(text), len(text), None)]:
            edges = [end, *apart[bisect_right(apart, end) : bisect_left(apart, start)], start]
            for begin, to in pairwise(edges) if end < start else ():
                tokens += self._model.tokenize(written[begin:to], special=False, within=begin > end)
            tokens += [] if token is None else [token]
            end = after
        return tokens

    def _cuts(self, text: str) -> list[tuple[int, int, int | None]]:
        """Start, end and token of each name in the text, with the white space that the token takes."""
        taken = bytearray(len(text))
        cuts: list[tuple[int, int, int | None]] = []
        for name, special in self._by_name.items():
            start = text.find(name)
            while start >= 0:
                end = start + len(name)
                if (before := taken.rfind(1, start, end)) >= 0:
                    end = before + 1
                else:
                    while special.attributes & _TAKES_SPACE and end < len(text) and not taken[end] and text[end] in _SPACE:
                        end += 1
                    taken[start:end] = b"\1" * (end - start)
                    cuts.append((start, end, special.token))
                start = text.find(name, end)
        return sorted(cuts)


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


def _special(model: Model) -> list[_Special]:
    """In the order in which llama.cpp looks for them: longer ones first."""
    tokens = []
    for token in range(model.n_vocab):
        attributes = llama.llama_vocab_get_attr(model.vocab, token)
        if attributes & (_CONTROL | _USER_DEFINED) and (name := model.token_text(token)):
            tokens.append(_Special(token, name, attributes))
    return sorted(tokens, key=lambda token: -len(token.name.encode("utf-8", "replace")))


def _is_mark(name: str) -> bool:
    return len(name) > 2 and name[0] in "<[" and name[-1] in ">]"
