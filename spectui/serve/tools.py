"""How models call tools: three forms, told by the chat template. A call's text is forced by the tool's schema, and read back.

Hermes and Qwen write `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, Mistral `[TOOL_CALLS][{"name": ..., "arguments":
...}]`, Llama 3 the object alone, with `parameters`. A call begins with its form's mark, or with the object of an offered tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spectui.errors import SpectuiError


class Form(NamedTuple):
    """`mark`: the text that calls begin with; "": none does. `marked`: GBNF around each `call`. `arguments`: the name of the
    field with them."""

    name: str
    mark: str
    marked: str
    arguments: str = "arguments"

    def trigger(self, names: Collection[str]) -> str:
        """A regular expression: from its match on the text is a call of one of these tools."""
        alone = rf'\{{\s*"name"\s*:\s*"(?:{"|".join(map(re.escape, names))})"'
        return f"{re.escape(self.mark)}|{alone}" if self.mark else alone


FORMS = (
    Form("hermes", "<tool_call>", r'("<tool_call>" "\n"? call "\n"? "</tool_call>" "\n"?)+'),
    Form("mistral", "[TOOL_CALLS]", r'"[TOOL_CALLS]" " "? "[" call ("," " "? call)* "]"'),
    Form("llama3", "", "call", "parameters"),
)

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


def tool_grammar(form: Form, tools: Sequence[Mapping[str, Any]], alone: bool) -> str:
    """GBNF for calls of these tools. `alone`: the object of a call alone is one too.

    Each tool has rules of its own, because references in a schema begin at its root. A schema that cannot be made a grammar
    leaves the arguments of its tool free.
    """
    from spectui.llama.grammar import of_schema  # it loads llama.cpp, which most requests leave to the engine

    call, rules, free = [], [], '{"type": "object"}'
    for number, tool in enumerate(tools):
        try:
            made = of_schema(json.dumps(tool.get("parameters") or {"type": "object"}))
        except SpectuiError:
            made = of_schema(free)
        rules.append("".join(f"t{number}-{name}" if name else other for other, name in _RULES.findall(made)))
        name, field = (json.dumps(json.dumps(text)) for text in (tool.get("name"), form.arguments))
        call.append(f'"{{" s "\\"name\\"" s ":" s {name} s "," s {field} s ":" s t{number}-root s "}}"')
    root = f"root ::= marked{' | call' if alone else ''}\nmarked ::= {form.marked}"
    return "\n".join((root, f"call ::= {' | '.join(call)}", r's ::= | " " | "\n" [ \t]{0,20}', *rules))


class Delta(NamedTuple):
    """What is new in a reply. `kind`: thought, text, name (a call begins) or call (its arguments)."""

    kind: str
    text: str


_HEAD = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=[{\[])')


class Calls:
    """Divides the text of a reply into what is said and the calls."""

    def __init__(self, form: Form, names: Collection[str]) -> None:
        """`names`: of the tools that are offered."""
        self._begins = [*([form.mark] if form.mark else ()), *(f'{{"name":"{name}"' for name in names)]
        self._held, self._begun, self._called = "", False, False
        self._inside, self._depth, self._quoted, self._escaped = False, 0, False, False  # arguments, their brackets and texts

    def push(self, text: str) -> Iterator[Delta]:
        """The next text of the answer."""
        self._held += text
        if not self._begun:
            begin = next(filter(self._may_begin, range(len(self._held))), len(self._held))
            said = self._held[:begin].rstrip()  # white space before a call is none of the text
            self._held = self._held[len(said) :]
            if said:
                yield Delta("text", said)
        while self._begun and self._held:
            if not self._inside:
                if (head := _HEAD.search(self._held)) is None:
                    return
                self._held, self._inside, self._called = self._held[head.end() :], True, True
                yield Delta("name", head[1])
            end = self._end_of_arguments()
            if end:
                yield Delta("call", self._held[:end])
            self._held = self._held[end:]

    def end(self) -> Iterator[Delta]:
        """What was held, when no more comes."""
        if self._held and not self._called:
            yield Delta("text", self._held)

    def _may_begin(self, at: int) -> bool:
        """Whether a call begins here, or may: more has to come. White space is left out."""
        if self._held[at] not in "<[{":
            return False
        text = "".join(self._held[at : at + 200].split())
        self._begun = any(text.startswith(begin) for begin in self._begins)
        return self._begun or any(begin.startswith(text) for begin in self._begins)

    def _end_of_arguments(self) -> int:
        """How much of what is held belongs to the arguments."""
        for at, character in enumerate(self._held):
            if self._quoted:
                self._quoted = self._escaped or character != '"'
                self._escaped = character == "\\" and not self._escaped
            else:
                self._quoted = character == '"'
                self._depth += (character in "{[") - (character in "}]")
            if not self._depth:
                self._inside = False
                return at + 1
        return len(self._held)
