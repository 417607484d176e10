"""What a reply's tokens become for a client: thinking, text and calls apart, whatever the tokens are cut into."""

from __future__ import annotations

import pytest

from spectui.engine.events import Finished, RoundDone
from spectui.knobs import Knobs
from spectui.serve.answer import Added, Answer
from spectui.serve.fields import likeliest, messages
from spectui.serve.tools import FORMS, Form
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
