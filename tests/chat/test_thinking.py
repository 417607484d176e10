"""Where a reply's text is thinking: the marks of many models, whole and token by token."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.chat.messages import ChatMessage, thinks
from spectui.chat.user_knobs import UserKnobs
from spectui.errors import UsageError
from spectui.knobs import Knobs, json_object
from spectui.thinking import Piece, ThoughtStream, divided, parsed, thought_and_answer
from tests.fake_engine import FakeEngine

MARKS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"),
    ("Here is my thought process:", "Here is my response:"),
]


def split(text: str, *, opened: bool = False) -> tuple[str, str]:
    """What a text thinks, and what it answers."""
    return thought_and_answer(divided(parsed(text, opened=opened)))


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("space", ["", "\n"])
def test_thinking_is_told_from_the_answer(marks: tuple[str, str], space: str) -> None:
    opens, closes = marks
    assert split(f"{opens}{space}let me see{space}{closes}{space}{space}Four.") == ("let me see", "Four.")
    assert split(f"{opens}{space}let me see") == ("let me see", ""), "cut off"
    assert split(f"{space}let me see{space}{closes}{space}Four.", opened=True) == ("let me see", "Four.")


def test_a_lone_closing_mark_ends_what_the_prompt_began() -> None:
    assert split("let me see\n</think>\n\nFour.") == ("let me see", "Four.")
    assert split("let me see</think>Four.") == ("let me see", "Four."), "within a line"
    assert split("let me see\n[/THINK]\n\nFour.") == ("let me see", "Four.")


@pytest.mark.parametrize(
    "text",
    [
        "write <think> and </think>",
        "```xml\n<reason>\nnot found\n</reason>\n```",
        "Two elements:\n<thought>\n</thought>",
        "It has\n</reasoning>\nat its end",
        "In short:\nHere is my response: no.",
        "a < b\n[x]",
        "Use:\n```xml\n<think>\na\n</think>\n```\nThat is all.",
        "~~~\n</think>\n~~~",
        "```\n`a`\n[THINK]\n",
        "````text\n<think>\na\n</think>\n````\nThat is all.",
        "~~~\n```\n<think>\na\n</think>\n```\n~~~\nThat is all.",
        "```\n```xml\n<think>\na\n</think>\n```\nThat is all.",
        "10. Write:\n\n    ```xml\n    <think>\n    a\n    </think>\n    ```",
        "- ```xml\n  <think>\n  a\n  </think>\n  ```\n- that is all",
        "Write:\n\n    <think>\n    a\n    </think>\n\nThat is all.",
    ],
)
def test_text_about_marks_is_text(text: str) -> None:
    assert split(text) == ("", text)


def test_a_mark_of_another_kind_is_part_of_the_thinking() -> None:
    thought = "it writes </thinking> and\n</reasoning>\nwhere it stops"
    assert split(f"<think>\n{thought}\n</think>\n\nYes.") == (thought, "Yes.")


def test_thinking_between_answers() -> None:
    pieces = [(True, "<think>a</think>\n\n"), (False, "b\n"), (True, "<think>c</think>\n\n"), (False, "d")]
    assert divided(pieces) == [(True, "a"), (False, "\n\nb\n"), (True, "c"), (False, "\n\nd")]
    assert thought_and_answer(divided(pieces)) == ("a\n\nc", "b\n\nd")
    assert split("<think>a</think>\n\n<think>c</think>\n\nd") == ("a\n\nc", "d")


def test_a_thought_ends_whatever_it_has_begun() -> None:
    assert split("<think>\n```\n</think>\nb") == ("```", "b")


def test_a_thought_that_is_closed_twice_leaves_no_mark() -> None:
    assert split("<think>One</think>\n\nAlso eight</think>So: nine") == ("One", "Also eightSo: nine")
    about = "Write `</think>`, or <think> and </think>.\n```\n</think>\n```"
    assert split(f"<think>One</think>\n\n{about}") == ("One", about)


def test_a_thought_without_an_opening_mark_began_before_the_text() -> None:
    assert divided([(False, "let me "), (False, "see"), (True, "</think>\n\n"), (False, "Four.")]) == [
        (True, "let me see"), (False, "\n\nFour.")
    ]  # fmt: skip


@given(
    st.lists(st.sampled_from([*(mark for pair in MARKS for mark in pair), "\n", " ", "a", "```", "`", "~~~", "- ", "    "])),
    st.data(),
)
def test_the_pieces_do_not_depend_on_how_the_text_is_cut(words: list[str], data: st.DataObject) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) - {0})
    stream, pieces = ThoughtStream(), list[Piece]()
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        pieces += stream.push(text[start:end])
    pieces += stream.end()

    def letters(pieces: list[Piece]) -> list[Piece]:
        return [(thought, letter) for thought, text in pieces for letter in text]

    assert letters(pieces) == letters(parsed(text))


def test_the_switch_keeps_what_else_the_template_is_told() -> None:
    engine = FakeEngine(Knobs(chat_template_kwargs='{"reasoning_effort": "low"}'))
    knobs = UserKnobs(engine)
    assert knobs.switch_thinking(True) is False
    assert json_object(engine.knobs.chat_template_kwargs) == {"reasoning_effort": "low", "enable_thinking": False}
    assert knobs.switch_thinking(True, False) is False, "said twice"
    assert knobs.switch_thinking(True) is True
    assert engine.knobs.chat_template_kwargs == '{"reasoning_effort": "low"}', "as the template does by itself"
    assert knobs.switch_thinking(False) is True and '"enable_thinking": true' in engine.knobs.chat_template_kwargs
    with pytest.raises(UsageError, match="no switch"):
        knobs.switch_thinking(None)


def test_ending_a_thought_twice_leaves_the_knobs_as_they_were() -> None:
    engine = FakeEngine(before := Knobs(reasoning_budget=70))
    knobs = UserKnobs(engine)
    for _ in range(2):
        knobs.end_thinking()
        assert (engine.knobs.reasoning_budget, knobs.now) == (0, before)
    knobs.restore()
    assert engine.knobs == before


def test_a_thought_goes_on_while_more_of_it_is_noted(engine: FakeEngine) -> None:
    """The engine's thread notes it, and the window asks at any time."""
    reply, asked = ChatMessage("assistant", ""), list[bool]()

    class Watched(str):
        def __len__(self) -> int:
            asked.append(thinks(reply))
            return super().__len__()

    round = engine.emit_round(plain="so", thought=True)
    reply.note(round)
    reply.note(replace(round, tokens=(round.tokens[0]._replace(text=Watched(" on")),)))
    assert asked and all(asked)
