"""What a reply's tokens become for a client: thinking, text and calls of tools apart, whatever the tokens are cut into."""

from __future__ import annotations

import json
import re

import pytest

from spectui.engine.events import Finished, RoundDone
from spectui.knobs import Knobs
from spectui.serve.answer import Added, Answer
from spectui.serve.fields import likeliest, messages
from spectui.serve.tools import FORMS, Calls, Form, form_of
from spectui.speculation.records import Round, StopReason, Token
from spectui.speculation.statistics import Statistics


def said(
    tokens: list[tuple[str, bool]], form: Form | None = None, marks: dict[int, str] | None = None
) -> list[tuple[str, str]]:
    answer = Answer(form, ["f"] if form else [], marks or {})
    added: Added = []
    for at, (text, thought) in enumerate(tokens):
        token = Token(at, text, "plain", None, at, at, None, 0.5, thought)
        round = Round(at, at, Knobs(), (), (token,), 0.0, 0.1, 0.0, 0.1)
        added += [one for _, new in answer.take(RoundDone(round, at)) for one in new]
    end = Finished(StopReason.EOS, "", Statistics(), Knobs(), 1, 0.1, 0.1)
    added += [one for _, new in answer.take(end) for one in new]
    for part in answer.parts:
        assert "".join(text for of, text in added if of is part) == part.text
    return [(part.name or part.kind, part.text) for part in answer.parts]


@pytest.mark.parametrize(
    ("tokens", "parts"),
    [
        ([(" Hi", False), (" there \n", False)], [("text", " Hi there \n")]),
        (
            [("<think>\n", True), ("we", True), (" say\n", True), ("</think>\n\n", True), ("\n Hi", False), (".", False)],
            [("thought", "we say"), ("text", "Hi.")],
        ),
        ([("<think>\nwe", True), ("</think>\n\nHi", True)], [("thought", "we"), ("text", "Hi")]),
        ([("<think>\n", True), ("\n", True), ("</think>\n\n", True), ("Hi", False)], [("text", "Hi")]),
        ([("<think>\n", True), ("cut off ", True)], [("thought", "cut off")]),
        ([("1 < 2 <think> is a mark", False)], [("text", "1 < 2 <think> is a mark")]),
    ],
)
def test_thinking_is_apart(tokens: list[tuple[str, bool]], parts: list[tuple[str, str]]) -> None:
    assert said(tokens) == parts


def test_a_call_behind_thinking_and_a_mark_without_text() -> None:
    call = '[{"name": "f", "arguments": {"a": 1}}]'
    tokens = [("<think>\nhm", True), ("</think>\n\n", True), ("", False), *((character, False) for character in call)]
    parts = [("thought", "hm"), ("f", '{"a": 1}')]
    assert said(tokens, FORMS[1], {2: "[TOOL_CALLS]"}) == parts


def test_the_tokens_of_a_reply_are_known_unless_it_is_continued() -> None:
    talk = [{"role": role, "content": role} for role in ("user", "assistant", "user")]
    for rows, tokens in ((talk, (1, 2)), (talk[:2], ())):
        assert messages({"messages": rows}, {"assistant": (1, 2)})[1].tokens == tokens


def test_probabilities_without_a_number_are_those_of_one_token() -> None:
    assert [likeliest({"logprobs": asked}) for asked in (True, False, 3, None)] == [1, 0, 3, 0]


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
