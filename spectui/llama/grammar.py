"""What a reply must obey: llama.cpp's grammar sampler, as a mask over tokens."""

from __future__ import annotations

import ctypes
import json
import os
import re
import tempfile
import weakref
from collections.abc import Sequence
from copy import copy
from itertools import accumulate
from typing import Any

import numpy as np
from llama_cpp.llama_grammar import SchemaConverter
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.llama.library import clear_errors, first_error, llama
from spectui.llama.model import Model
from spectui.llama.tokens.reply_text import ReplyMarks, ReplyText
from spectui.text import one_line

_TOKEN = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])  # llama_token_data (llama.h)

_CHARACTER = r'[^"\\\x7F\x00-\x1F]'

_CLASSES = {r"\d": "0-9", r"\w": "0-9A-Z_a-z", r"\s": " "}

_MOST_VALUES = 200
"""Of an integer between bounds: each is a way of its own."""

_LONGEST_WAY = 60
"""Characters."""

_END = "end"

_DEEPEST = 200
"""Brackets within brackets: llama.cpp reads them by recursion, and a stack that overflows would end the process."""


class _Converter(SchemaConverter):  # type: ignore[misc]
    """llama-cpp-python's, which writes wrong JSON where a text has quotes, and leaves bounds of numbers out."""

    def _format_literal(self, literal: str) -> str:
        """The GBNF of this JSON text."""
        return json.dumps(json.dumps(json.loads(literal), ensure_ascii=False), ensure_ascii=False)

    def visit(self, schema: dict[str, Any], name: str) -> str:
        kind, low, high = (schema.get(key) for key in ("type", "minimum", "maximum"))
        if isinstance(pattern := schema.get("pattern"), str):
            schema = {**schema, "pattern": _spelled(pattern)}
        if isinstance(kind, list):
            schema = {"anyOf": [{**schema, "type": each} for each in kind]}
        elif kind == "integer" and isinstance(low, int) and isinstance(high, int) and 0 <= high - low < _MOST_VALUES:
            schema = {"enum": [*range(low, high + 1)]}
        return str(super().visit(schema, name))


def _spelled(pattern: str) -> str:
    """The regular expression without classes that GBNF does not have. Raises ValueError."""
    parts, inside = [], False
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        inside = part == "[" or (inside and part != "]")
        if (characters := _CLASSES.get(part)) is not None:
            part = characters if inside else f"[{characters}]"
        elif re.fullmatch(r"\\[A-Za-mo-qsu-z0-9]", part):
            raise ValueError(f"its pattern has {part}")
        parts.append(part)
    return "".join(parts)


def of_schema(text: str) -> str:
    """The grammar of a JSON schema. Raises SpectuiError."""
    try:
        if not isinstance(schema := json.loads(text), dict):
            raise ValueError("it is no object")
        converter = _Converter(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
        converter.visit(converter.resolve_refs(schema, "stdin"), "")
        # A string of JSON has no control characters.
        return str(converter.format_grammar()).replace(r'[^"\\]', _CHARACTER).replace(r"[^\x0A\x0D]", _CHARACTER)
    except (AssertionError, AttributeError, ImportError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = one_line(str(error)) or type(error).__name__
        raise SpectuiError(f"The JSON schema cannot be made a grammar: {why}.") from error


class Grammar:
    """The grammar of one reply, behind the tokens that it has accepted: implements `choice.Grammar`.

    With a trigger, or where the reply begins within thinking, it waits: until then every token is allowed. llama.cpp's own
    trigger is not used, because its regular expressions end the process when they are wrong or the text is long.
    """

    def __init__(self, model: Model, marks: ReplyMarks, prompt: Sequence[int], text: str, trigger: str = "") -> None:
        """`text`: GBNF, or a JSON schema. `trigger`: a regular expression; the grammar begins with its first match outside of
        thinking, or with the match's first group. Raises SpectuiError."""
        gbnf = of_schema(text) if text.lstrip().startswith("{") else text
        self._model, self._text = model, ""
        self._reply: ReplyText | None = ReplyText(marks, thinking=marks.open_at(prompt) is not None)
        self._waits = bool(trigger) or self._reply.thinking
        try:
            self._trigger = re.compile(trigger) if trigger else None
        except re.error as error:
            raise SpectuiError(f"The grammar's trigger is no regular expression: {error}.") from error
        self._own(_parsed(model, gbnf))
        self._characters = _characters(model)

    def _own(self, sampler: Any) -> None:
        self._sampler = sampler
        weakref.finalize(self, llama.llama_sampler_free, sampler)

    def clone(self) -> Grammar:
        """The same, to be asked about a draft. While it waits, it does not end to."""
        same = copy(self)
        same._reply = None
        same._own(llama.llama_sampler_clone(self._sampler))
        return same

    def allowed(self, ids: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these tokens can come next. 6 us for a token, 20 ms for 150,000."""
        if self._waits:
            return np.ones(len(ids), np.bool_)
        tokens = np.zeros(len(ids), _TOKEN)
        tokens["id"] = ids
        first = tokens.ctypes.data_as(ctypes.POINTER(llama.llama_token_data))
        llama.llama_sampler_apply(self._sampler, llama.llama_token_data_array(first, len(ids), -1, False))
        left: NDArray[np.bool_] = np.isfinite(tokens["logit"])
        return left

    def accept(self, token: int) -> bool:
        """The token comes next. Returns whether it can; otherwise nothing changes."""
        if self._waits:
            self._wait(token)
        elif not self.allowed(np.array([token]))[0]:
            return False  # llama.cpp would end the process
        else:
            llama.llama_sampler_accept(self._sampler, token)
            self._text += self._model.piece(token).decode("utf-8", "replace")
        return True

    def only_way(self) -> Sequence[int]:
        """Tokens of the text that must come next, as far as a single visible character can; [] where there is a choice.

        White space is guessed to be as it was behind the same character before.
        """
        characters, ids = self._characters
        clone, text = self.clone(), ""
        while len(text) < _LONGEST_WAY:
            can = [characters[index] for index in clone.allowed(ids).nonzero()[0]]
            ways = [character for character in can if character != " "]
            if len(ways) != 1 or ways == [_END]:
                break
            for character in (" " if " " in can and self._spaced((self._text + text)[-1:]) else "") + ways[0]:
                clone.accept(int(ids[characters.index(character)]))
                text += character
        return self._model.tokenize(text, special=False, within=True) if text else []

    def _spaced(self, character: str) -> bool:
        """Whether a space is expected behind this character."""
        before = self._text[:-1].rfind(character) if character else -1
        return character in (":", ",") if before < 0 else self._text[before + 1] == " "

    def _wait(self, token: int) -> None:
        """Begin where the thinking ends, or at the trigger. A text behind that which the grammar refuses stays free."""
        reply, trigger = self._reply, self._trigger
        if reply is None:
            return
        reply.push(token)
        if trigger is None:
            self._waits = reply.thinking
        elif not reply.thought:
            self._text += self._model.piece(token).decode("utf-8", "replace") or self._model.control_name(token)
            if (match := trigger.search(self._text)) is not None:
                begun = self._model.tokenize(self._text[match.start(min(trigger.groups, 1)) :], special=True, within=True)
                self._waits, self._reply, self._text = False, None, ""
                self._waits = not all(map(self.accept, begun))


def _characters(model: Model) -> tuple[list[str], NDArray[np.intp]]:
    """The space, the visible characters of ASCII and the ends of a reply, with the token that is each alone."""
    spelt = {character: model.tokenize(character, special=False, within=True) for character in map(chr, range(32, 127))}
    alone = [
        (character, tokens[0]) for character, tokens in spelt.items() if [character.encode()] == [*map(model.piece, tokens)]
    ]
    ends = (llama.llama_vocab_eos(model.vocab), llama.llama_vocab_eot(model.vocab))
    alone += [(_END, token) for token in ends if token >= 0]
    return [character for character, _ in alone], np.array([token for _, token in alone])


def _parsed(model: Model, gbnf: str) -> Any:
    """llama.cpp's sampler. Raises SpectuiError."""
    if max(accumulate({"(": 1, ")": -1}.get(character, 0) for character in f" {gbnf}")) > _DEEPEST:
        raise SpectuiError(f"The grammar has brackets within brackets, more than {_DEEPEST} deep: simplify it.")
    clear_errors()
    with tempfile.TemporaryFile() as said:  # llama.cpp writes what is wrong to standard error, over a window too
        screen = os.dup(2)
        os.dup2(said.fileno(), 2)
        sampler = llama.llama_sampler_init_grammar(model.vocab, gbnf.encode("utf-8", "replace"), b"root")
        os.dup2(screen, 2)
        os.close(screen)
        said.seek(0)
        first = said.readline().decode("utf-8", "replace").rpartition("grammar: ")[2].strip()
    if not sampler:
        why = one_line(first) or first_error() if gbnf.strip() else "it is empty"
        raise SpectuiError(f"The grammar cannot be read: {why}.")
    return sampler
