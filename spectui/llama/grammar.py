"""What a reply must obey: llama.cpp's grammar sampler, as a mask over tokens."""

from __future__ import annotations

import ctypes
import json
import os
import re
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, BinaryIO

import numpy as np
from llama_cpp.llama_grammar import json_schema_to_gbnf
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.llama.library import clear_errors, first_error, llama
from spectui.llama.model import Model
from spectui.llama.tokens.reply_text import ReplyText
from spectui.text import one_line

_TOKEN = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])  # llama_token_data (llama.h)

_DEEPEST = 200
"""Brackets within brackets: llama.cpp reads them by recursion, and a stack that overflows would end the process."""


def of_schema(text: str) -> str:
    """The grammar of a JSON schema. Raises SpectuiError."""
    try:
        schema = json.loads(text)
        if not isinstance(schema, dict):
            raise ValueError("it is no object")
        return str(json_schema_to_gbnf(text))
    except (AssertionError, AttributeError, ImportError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = one_line(str(error)) or type(error).__name__
        raise SpectuiError(f"The JSON schema cannot be made a grammar: {why}.") from error


class Grammar:
    """The grammar of one reply, behind the tokens that it has accepted: implements `choice.Grammar`.

    With a trigger, or where the reply begins within thinking, it waits: until then every token is allowed. llama.cpp's own
    trigger is not used, because its regular expressions end the process when they are wrong or the text is long.
    """

    def __init__(self, model: Model, text: str, trigger: str = "", thinking: ReplyText | None = None) -> None:
        """`text`: GBNF, or a JSON schema. `trigger`: a regular expression; the grammar begins with its first match outside of
        thinking. `thinking`: the reply's text so far, to know that. Raises SpectuiError."""
        gbnf = of_schema(text) if text.lstrip().startswith("{") else text
        self._model, self._thinking, self._text = model, thinking, ""
        self._waits = bool(trigger) or (thinking is not None and thinking.thinking)
        try:
            self._trigger = re.compile(trigger) if trigger else None
        except re.error as error:
            raise SpectuiError(f"The grammar's trigger is no regular expression: {error}.") from error
        self._own(_parsed(model, gbnf))

    def _own(self, sampler: Any) -> None:
        self._sampler = sampler
        weakref.finalize(self, llama.llama_sampler_free, sampler)

    def clone(self) -> Grammar:
        """The same, to be asked about a draft. While it waits, it does not end to."""
        same = copy(self)
        same._thinking = same._trigger = None
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
        return True

    def _wait(self, token: int) -> None:
        """Begin where the thinking ends, or at the trigger. A text behind that which the grammar refuses stays free."""
        reply, trigger = self._thinking, self._trigger
        if reply is not None:
            reply.push(token)
        if trigger is None:
            self._waits = reply is None or reply.thinking
        elif reply is None or not reply.thought:
            self._text += self._model.piece(token).decode("utf-8", "replace") or self._model.control_name(token)
            if (match := trigger.search(self._text)) is not None:
                self._waits = False
                self._thinking = self._trigger = None
                begun = self._model.tokenize(self._text[match.start() :], special=True, within=True)
                self._waits = not all(map(self.accept, begun))


def _parsed(model: Model, gbnf: str) -> Any:
    """llama.cpp's sampler. Raises SpectuiError."""
    depth = deepest = 0
    for bracket in re.findall(r"[()]", gbnf):
        depth += 1 if bracket == "(" else -1
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise SpectuiError(f"The grammar has brackets within brackets, {deepest} deep: simplify it.")
    clear_errors()
    with _said() as said:
        sampler = llama.llama_sampler_init_grammar(model.vocab, gbnf.encode("utf-8", "replace"), b"root")
        said.seek(0)
        first = said.readline().decode("utf-8", "replace").rpartition("grammar: ")[2].strip()
    if not sampler:
        why = one_line(first) or first_error() if gbnf.strip() else "it is empty"
        raise SpectuiError(f"The grammar cannot be read: {why}.")
    return sampler


@contextmanager
def _said() -> Iterator[BinaryIO]:
    """What is written to standard error within the block: llama.cpp says there what is wrong with a grammar, over a window."""
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(before, 2)
            os.close(before)
