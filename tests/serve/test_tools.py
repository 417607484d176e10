"""Calls of tools: what a reply's text divides into, however its pieces are cut."""

from __future__ import annotations

import json
import re

import pytest

from spectui.serve.tools import FORMS, Calls, form_of

HERMES, MISTRAL, LLAMA = FORMS
ONE = '{"name": "read", "arguments": {"path": "a\\"}{.py", "n": [1, {}]}}'
TWO = '{"name":"list","arguments":{}}'


def divided(form: object, text: str, size: int) -> list[list[str]]:
    """What is said, and the calls: each a kind or a name, and a text."""
    calls = Calls(form, ("read", "list"))  # type: ignore[arg-type]
    parts: list[list[str]] = []
    for start in range(0, len(text), size):
        for kind, new in calls.push(text[start : start + size]):
            _add(parts, kind, new)
    for kind, new in calls.end():
        _add(parts, kind, new)
    return parts


def _add(parts: list[list[str]], kind: str, text: str) -> None:
    if kind == "name":
        parts.append([text, ""])
    elif kind == "text" and not parts:
        parts.append([kind, text])
    else:
        parts[-1][1] += text


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    ("form", "text", "said"),
    [
        (HERMES, f"I look.\n<tool_call>\n{ONE}\n</tool_call>\n<tool_call>{TWO}</tool_call>", "I look."),
        (MISTRAL, f"[TOOL_CALLS][{ONE}, {TWO}]", ""),
        (LLAMA, ONE.replace("arguments", "parameters"), ""),
        (HERMES, ONE, ""),
        (HERMES, f"I look.\n\n{ONE}\n```", "I look."),
    ],
)
def test_calls_are_read_back(form: object, text: str, said: str, size: int) -> None:
    parts = divided(form, text, size)
    if said:
        assert parts.pop(0) == ["text", said]
    expected = [json.loads(call) for call in (ONE, TWO)[: text.count('"name"')]]
    assert [{"name": name, "arguments": json.loads(given)} for name, given in parts] == expected


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("form", "text"),
    [
        (HERMES, "No call <tool, <tool_cal and < \n"),
        (HERMES, "a\n\n<tool_call>\nnot json" + "x" * 400 + " {}"),
        (HERMES, "<tool_call>{"),
        (LLAMA, " It is {}"),
        (HERMES, '```json\n{"name": "package", "arguments": {}}\n```'),
        (HERMES, 'read({"name": "read"})'),
        (LLAMA, '{"title": "no call"' + " " * 400 + "}"),
    ],
)
def test_what_is_no_call_is_text(form: object, text: str, size: int) -> None:
    said = "".join(part for kind, part in divided(form, text, size) if kind == "text")
    assert "".join(said.split()) == "".join(text.split())


def test_the_grammar_begins_with_the_object_of_an_offered_tool() -> None:
    trigger = re.compile(HERMES.trigger(["read", "list"]))
    begun = trigger.search(f"I look.\n{ONE}")
    assert begun is not None
    assert trigger.groups == 0, "it would begin with the first one"
    assert begun[0] == '{"name": "read"' and trigger.search('{"name": "package", "arguments": {') is None


def test_the_form_is_told_by_the_template() -> None:
    assert form_of("{% if tools %}<tool_call>{{ x }}</tool_call>{% endif %}") is HERMES
    assert form_of("{% if tools %}[TOOL_CALLS]{% endif %}") is MISTRAL
    assert form_of('{{ tools }} {"name": x, "parameters": y}<|eot_id|>') is LLAMA
    for other in ("", "<tool_call>", "tools [TOOL_CALLS]name[ARGS]", "tools <tool_call><function=f>", "tools in words"):
        assert form_of(other) is None
