"""How models call tools: three forms, told by the chat template. A call's text is forced by the tool's schema, and read back.

Hermes and Qwen write `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, Mistral `[TOOL_CALLS][{"name": ..., "arguments":
...}]`, Llama 3 the object alone, with `parameters`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple


class Form(NamedTuple):
    """`mark`: the text that calls begin with; "": the reply's first brace. `root`: GBNF around each `call`. `arguments`: the
    name of the field with them."""

    name: str
    mark: str
    root: str
    arguments: str = "arguments"

    @property
    def trigger(self) -> str:
        """A regular expression: from its match on the text is a call."""
        return re.escape(self.mark) if self.mark else r'\A\s*\{\s*"name"'


FORMS = (
    Form("hermes", "<tool_call>", r'root ::= ("<tool_call>" "\n"? call "\n"? "</tool_call>" "\n"?)+'),
    Form("mistral", "[TOOL_CALLS]", r'root ::= "[TOOL_CALLS]" " "? "[" call ("," " "? call)* "]"'),
    Form("llama3", "", "root ::= call", "parameters"),
)


def form_of(template: str) -> Form | None:
    """The form of a chat template; None if it has no tools, or calls them in another one."""
    if "tools" not in template:
        return None
    marked = next((form for form in FORMS if form.mark and form.mark in template), None)
    # Newer Mistral templates write [TOOL_CALLS]name[ARGS]{...}; Hermes' mark also stands around XML (Qwen3-Coder).
    if marked is not None:
        return None if "[ARGS]" in template or "<function=" in template else marked
    return FORMS[2] if '"parameters"' in template and "<|eot_id|>" in template else None


def tool_grammar(form: Form, tools: Sequence[dict[str, Any]], schema: Callable[[str], str]) -> str:
    """GBNF for calls of these tools. `schema` makes it of a JSON schema."""
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.get("name")}, form.arguments: tool.get("parameters") or {"type": "object"}},
            "required": ["name", form.arguments],
            "$defs": (tool.get("parameters") or {}).get("$defs", {}),
        }
        for tool in tools
    ]
    made = schema(json.dumps(calls[0] if len(calls) == 1 else {"oneOf": calls}))
    return f"{form.root}\n" + re.sub(r"^root ", "call ", made, flags=re.MULTILINE)


class Delta(NamedTuple):
    """What is new in a reply. `kind`: thought, text, call (`text` is its name) or arguments. `number`, `id`: the call's."""

    kind: str
    text: str
    number: int = 0
    id: str = ""


_HEAD = re.compile(r'[\s\[]*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=[{\[])')
_LONGEST_HEAD = 300


class Calls:
    """Divides the text of a reply into what is said and the calls."""

    def __init__(self, form: Form) -> None:
        self._form, self._held = form, ""
        self._state = self._said
        self.number = 0
        """Of calls that have begun."""
        self._depth, self._quoted, self._escaped = 0, False, False

    def push(self, text: str) -> Iterator[Delta]:
        """The next text of the answer."""
        self._held += text
        state = None
        while state != self._state:
            state = self._state
            yield from state()

    def end(self) -> Iterator[Delta]:
        """What was held, when no more comes."""
        if self._state == self._head and not self.number:
            self._held = self._form.mark + self._held
        if self._state in (self._said, self._head, self._plain):
            yield from self._plain()

    def _said(self) -> Iterator[Delta]:
        """Before a call."""
        mark = self._form.mark
        if not mark:  # the whole reply is a call, or has none
            if begun := self._held.lstrip():
                self._state = self._head if begun[0] == "{" else self._plain
            return
        said, found, rest = self._held.partition(mark)
        partial = next((n for n in range(min(len(mark) - 1, len(said)), 0, -1) if mark.startswith(said[-n:])), 0)
        certain = said[: len(said) - partial].rstrip()  # white space before a call is none of the text
        self._state, self._held = (self._head, rest) if found else (self._said, said[len(certain) :])
        if certain:
            yield Delta("text", certain)

    def _plain(self) -> Iterator[Delta]:
        """Where no call comes any more."""
        held, self._held = self._held, ""
        if held:
            yield Delta("text", held)

    def _head(self) -> Iterator[Delta]:
        if (head := _HEAD.match(self._held)) is not None:
            self._held, self._state = self._held[head.end() :], self._arguments
            yield Delta("call", json.loads(head[1]), self.number, secrets.token_hex(5)[:9])
            self.number += 1
        elif len(self._held) > _LONGEST_HEAD:
            yield from self.end()
            self._state = self._plain

    def _arguments(self) -> Iterator[Delta]:
        end = len(self._held)
        for at, character in enumerate(self._held):
            if self._quoted:
                self._quoted = self._escaped or character != '"'
                self._escaped = character == "\\" and not self._escaped
            else:
                self._quoted = character == '"'
                self._depth += (character in "{[") - (character in "}]")
            if not self._depth:
                end, self._state = at + 1, self._after
                break
        written, self._held = self._held[:end], self._held[end:]
        if written:
            yield Delta("arguments", written, self.number - 1)

    def _after(self) -> Iterator[Delta]:
        """Until another call begins."""
        if (start := self._held.find("{")) >= 0:
            self._held, self._state = self._held[start:], self._head
        yield from ()
