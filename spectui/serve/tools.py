"""How models call tools: three forms, told by the chat template. A call's text is forced by the tool's schema, and read back.

Hermes and Qwen write `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, Mistral `[TOOL_CALLS][{"name": ..., "arguments":
...}]`, Llama 3 the object alone, with `parameters`. Small models of each write the object alone, or fenced as code, or in
<tools>: the object of a call of an offered tool is one wherever it stands.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from spectui.errors import SpectuiError


class Form(NamedTuple):
    """`mark`: the text that calls begin with; "": none does. `marked`: GBNF around each `call`. `arguments`: the name of the
    field with them."""

    name: str
    mark: str
    marked: str
    arguments: str = "arguments"

    def trigger(self, tools: Sequence[dict[str, Any]]) -> str:
        """A regular expression: from its match on the text is a call of one of these tools."""
        names = "|".join(re.escape(str(tool.get("name"))) for tool in tools)
        alone = rf'{_OPENING}"(?:{names})"\s*,\s*"{self.arguments}"\s*:'
        return f"{re.escape(self.mark)}|{alone}" if self.mark else alone


FORMS = (
    Form("hermes", "<tool_call>", r'("<tool_call>" "\n"? call "\n"? "</tool_call>" "\n"?)+'),
    Form("mistral", "[TOOL_CALLS]", r'"[TOOL_CALLS]" " "? "[" call ("," " "? call)* "]"'),
    Form("llama3", "", "call", "parameters"),
)

_OPENING = r'(?:```(?:json)?|<tools>)?\s*\{\s*\{?\s*"name"\s*:\s*'
_ALONE = """root ::= marked | ("```" "json"? | "<tools>")? s (call | "{" s call s "}") s ("```" | "</tools>")?"""
"""Qwen2.5-Coder's template shows two braces, and the model writes them."""

_FREE = {"type": "object"}
_RULES = re.compile(r'("(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[^A-Za-z])|([A-Za-z][\w-]*)')
"""Of GBNF: the name of a rule, or texts and characters."""


def form_of(template: str) -> Form | None:
    """The form of a chat template; None if it has no tools, or calls them in another one."""
    if "tools" not in template:
        return None
    marked = next((form for form in FORMS if form.mark and form.mark in template), None)
    # Newer Mistral templates write [TOOL_CALLS]name[ARGS]{...}; Hermes' mark also stands around XML (Qwen3-Coder).
    if marked is not None:
        return None if "[ARGS]" in template or "<function=" in template else marked
    return FORMS[2] if '"parameters"' in template and "<|eot_id|>" in template else None


def tool_grammar(form: Form, tools: Sequence[dict[str, Any]], schema: Callable[[str], str], alone: bool) -> str:
    """GBNF for calls of these tools. `schema` makes it of a JSON schema. `alone`: the object of a call alone is one too.

    Each tool has rules of its own, because references in a schema begin at its root. A schema that cannot be made a grammar
    leaves the arguments of its tool free.
    """
    call, rules = [], []
    for number, tool in enumerate(tools):
        try:
            made = schema(json.dumps(tool.get("parameters") or _FREE))
        except SpectuiError:
            made = schema(json.dumps(_FREE))
        rules.append("".join(f"t{number}-{name}" if name else other for other, name in _RULES.findall(made)))
        name, field = (json.dumps(json.dumps(text)) for text in (tool.get("name"), form.arguments))
        call.append(f'"{{" s "\\"name\\"" s ":" s {name} s "," s {field} s ":" s t{number}-root s "}}"')
    root = _ALONE if alone else "root ::= marked"
    return "\n".join(
        (root, f"marked ::= {form.marked}", f"call ::= {' | '.join(call)}", r's ::= | " " | "\n" [ \t]{0,20}', *rules)
    )


class Delta(NamedTuple):
    """What is new in a reply. `kind`: thought, text, call (`text` is its name) or arguments. `number`, `id`: the call's."""

    kind: str
    text: str
    number: int = 0
    id: str = ""


_HEAD = re.compile(_OPENING + r'"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=[{\[])')
_PARTIAL = re.compile(
    r"(?<!\s)\s*+(?:`{1,3}(?:json|jso|js|j)?|<t?o?o?l?s?>?)?+\s*+"
    r'(?:\{[\s{]*+(?:"name"\s*+:?\s*+(?:"[^"\\]*+(?:"[\s,]*+"?\w*"?\s*+:?\s*+)?)?|"?n?a?m?e?))?\Z'
)
"""A text ends in what may be the beginning of a call."""

_LONGEST_HEAD = 300


class Calls:
    """Divides the text of a reply into what is said and the calls."""

    def __init__(self, form: Form, names: Collection[str]) -> None:
        """`names`: of the tools that are offered."""
        self._form, self._names, self._held = form, names, ""
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
        held, mark = self._held, self._form.mark
        begins = [head.start() for head in _HEAD.finditer(held) if head[1] in self._names]
        if mark and (marked := held.find(mark)) >= 0:
            begins.append(marked)
        if begins:
            end, self._state = min(begins), self._head
        else:
            partial = next((n for n in range(min(len(mark) - 1, len(held)), 0, -1) if mark.startswith(held[-n:])), 0)
            maybe = _PARTIAL.search(held)
            end = min(len(held) - partial, maybe.start() if maybe is not None else len(held))
        certain = held[:end].rstrip()  # white space before a call is none of the text
        self._held = held[end:].removeprefix(mark) if begins else held[len(certain) :]
        if certain:
            yield Delta("text", certain)

    def _plain(self) -> Iterator[Delta]:
        """Where no call comes any more."""
        held, self._held = self._held, ""
        if held:
            yield Delta("text", held)

    def _head(self) -> Iterator[Delta]:
        if (head := _HEAD.search(self._held)) is not None:
            self._held, self._state = self._held[head.end() :], self._arguments
            yield Delta("call", head[1], self.number, secrets.token_hex(5)[:9])
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
