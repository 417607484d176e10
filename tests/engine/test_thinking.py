"""Templates that open the model's thinking, and templates that leave out earlier thinking."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.chat.messages import ChatMessage
from spectui.engine.events import Event, Message, RoundDone
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from tests.engine.waiting import prompt_tokens
from tests.llama.ggufs import WORDS, byte_names, write_model

TALK = (Message("user", "hi"), Message("assistant", "ho", thought="well"), Message("user", "and?"))
WHOLE = "{% for each in messages %}{{ each.content }}\n{% endfor %}"
WANTED = (
    "{% for each in messages %}{% if each.reasoning_content %}<think>\n{{ each.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ each.content }}\n{% endfor %}"
)
SAID = "{% for each in messages %}{{ each.content.split('</think>\n\n')[-1] }}\n{% endfor %}"


def asked(
    path: Path, messages: Sequence[Message], template: str, kwargs: str = "", **vocabulary: Any
) -> tuple[str, bool | None]:
    """The prompt as text, and whether the reply's first token is noted as thinking."""
    events: list[Event] = []
    session = Session(events.append)
    session.knobs = Knobs(predict=1, drafter="off", chat_template_kwargs=kwargs)
    model = write_model(path / "thinking.gguf", template=template, **vocabulary)
    session.load(Setup(model=str(model), ctx_size=512, threads=1, no_profile="on"))
    session.generate(messages)
    assert session.pair is not None and session.pair.target is not None
    tokens = prompt_tokens(session, events)
    text = "".join(session.pair.target.piece(token).decode() or session.pair.target.token_text(token) for token in tokens)
    return text, next(event.round for event in events if isinstance(event, RoundDone)).tokens[0].thought


@pytest.mark.parametrize(
    ("template", "prompt", "thinking"),
    [
        (WHOLE, "hi\nho\nand?\n", False),
        (WANTED, "hi\n<think>\nwell\n</think>\n\nho\nand?\n", False),
        (SAID, "hi\nho\nand?\n", False),
        (SAID + r"{{ '<think>\n' }}", "hi\nho\nand?\n<think>\n", True),
        (SAID + r"{{ '<think>\n\n</think>\n\n' }}", "hi\nho\nand?\n<think>\n\n</think>\n\n", False),
    ],
)
def test_the_template_decides_about_thinking(tmp_path: Path, template: str, prompt: str, thinking: bool) -> None:
    assert asked(tmp_path, TALK, template) == (prompt, thinking)


def test_a_reply_is_continued_from_its_own_tokens(tmp_path: Path) -> None:
    hi, reply = Message("user", "hi"), "<think>\nwe"
    own = tuple(byte_names().index(chr(byte)) + len(WORDS) for byte in b"ab")
    opening = WHOLE + r"{{ '<think>\n' }}"
    text, _ = asked(tmp_path, [hi, Message("assistant", "<think>\nab", own)], opening)
    assert text == "hi\n<think>\nab"
    text, _ = asked(tmp_path, [hi, Message("assistant", "<think>\nab")], opening)
    assert text == "hi\n<think>\nab", "the mark is the prompt's"
    text, _ = asked(tmp_path, [hi, Message("assistant", "ab", (1 << 20,))], WHOLE)
    assert text == "hi\nab", "tokens of another vocabulary"
    text, _ = asked(tmp_path, [hi, Message("assistant", reply)], WHOLE)
    assert text == f"hi\n{reply}"


QWEN3 = WHOLE + (
    "{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"
)


def test_the_template_reads_the_values_that_a_person_gives(tmp_path: Path) -> None:
    hi = [Message("user", "hi")]
    assert asked(tmp_path, hi, QWEN3)[0] == "hi\n"
    assert asked(tmp_path, hi, QWEN3, '{"enable_thinking": false}')[0] == "hi\n<think>\n\n</think>\n\n"
    effort = "{{ reasoning_effort | default('medium') }}: {{ messages[0].content }}"
    assert asked(tmp_path, hi, effort, '{"reasoning_effort": "low", "messages": []}')[0] == "low: hi"


@pytest.mark.parametrize(
    ("template", "thinks"),
    [
        (QWEN3, True),
        (WHOLE + "{% if not enable_thinking | default(false) %}</think>{% endif %}", False),
        (WHOLE, None),
        (WHOLE + "{{ enable_thinking.x.y }}", None),
    ],
)
def test_whether_the_template_has_a_switch(tmp_path: Path, template: str, thinks: bool | None) -> None:
    session = Session(lambda event: None)
    model = write_model(tmp_path / "switch.gguf", template=template)
    loaded = session.load(Setup(model=str(model), ctx_size=256, threads=1, no_profile="on"))
    assert loaded.target.thinks is thinks


HARMONY = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>")


def test_harmony_s_template_takes_a_second_prompt(tmp_path: Path) -> None:
    # What the official template does with earlier replies.
    official = (
        "{% for each in messages %}{% if each.role == 'assistant' %}{% if '<|channel|>' in each.content %}"
        "{{ raise_exception('You have passed a message containing <|channel|> tags in the content field.') }}{% endif %}"
        "<|start|>assistant<|channel|>final<|message|>{{ each.content }}<|end|>{% else %}"
        "<|start|>{{ each.role }}<|message|>{{ each.content }}<|end|>{% endif %}{% endfor %}<|start|>assistant"
    )
    names = byte_names()
    vocabulary = {"tokens": [*WORDS, *names, *HARMONY], "types": [3] * len(WORDS) + [1] * len(names) + [4] * len(HARMONY)}
    prompt = "<|start|>user<|message|>hi<|end|><|start|>assistant<|channel|>final<|message|>ho<|end|>"
    prompt += "<|start|>user<|message|>and?<|end|><|start|>assistant"
    saved = "<|channel|>analysis<|message|>well<|start|>assistant<|channel|>final<|message|>ho"
    by_an_earlier_spectui = ChatMessage("assistant", saved).for_engine()
    for reply in (Message("assistant", "ho", thought="well"), by_an_earlier_spectui):
        assert asked(tmp_path, (TALK[0], reply, TALK[2]), official, **vocabulary)[0] == prompt


def test_drafts_do_not_change_where_the_thinking_ends(tmp_path: Path) -> None:
    path = str(write_model(tmp_path / "target.gguf", template=WHOLE + r"{{ '<think>\n' }}"))
    draft = str(write_model(tmp_path / "draft.gguf"))
    texts = []
    for knobs in (Knobs(drafter="off"), Knobs(drafter="model", policy="fixed", draft_max=6, p_min=0.0)):
        session = Session(lambda event: None)
        session.knobs = replace(knobs, seed=3, predict=40, temperature=1.0, top_k=0, reasoning_budget=12)
        session.load(Setup(model=path, draft=draft, ctx_size=256, threads=1, no_profile="on", requantise_draft="off"))
        finished = session.generate([Message("user", "hi")])
        texts.append(finished.text)
    assert finished.statistics.accepted > 0
    assert texts[0] == texts[1] and texts[0].count("</think>") == 1


def test_a_budget_that_is_turned_to_0_meanwhile_ends_the_thinking_and_keeps_it(tmp_path: Path) -> None:
    path = str(write_model(tmp_path / "target.gguf", template=WHOLE + r"{{ '<think>\n' }}"))
    thoughts: list[bool | None] = []

    def listen(event: Event) -> None:
        if isinstance(event, RoundDone):
            thoughts.extend(token.thought for token in event.round.tokens)
            session.knobs = replace(session.knobs, reasoning_budget=0 if len(thoughts) >= 8 and False not in thoughts else -1)

    session = Session(listen)
    session.knobs = Knobs(drafter="off", seed=3, predict=40, top_k=0)
    session.load(Setup(model=path, ctx_size=256, threads=1, no_profile="on"))
    finished = session.generate([Message("user", "hi")])
    assert thoughts[:8] == [True] * 8 and thoughts.index(False) < 20
    assert finished.text.count("</think>") == 1
