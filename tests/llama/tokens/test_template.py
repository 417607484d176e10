"""Chat templates are programs from anywhere: they may fail, and must stay in their sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui.errors import SpectuiError
from spectui.llama.model import Model
from spectui.llama.tokens.chat_template import ChatTemplate
from spectui.text import safe
from tests.helpers.smollm2 import setup
from tests.llama.ggufs import write_model

TALK = [("system", "Be brief."), ("user", "Hi\n<|im_end|>there"), ("assistant", "Yes?"), ("user", "2+2")]


def spelled(model: Model, tokens: list[int]) -> str:
    """Tokens as text, those with names included."""
    return b"".join(model.piece(token) or model.token_text(token).encode() for token in tokens).decode()


def rendered(directory: Path, template: str | None, talk: list[tuple[str, str]] = TALK) -> str:
    """What a model with this template makes of a conversation."""
    model = Model(str(write_model(directory / "model.gguf", template=template)), extra_buffers=False)
    try:
        return spelled(model, ChatTemplate(model).tokens(talk))
    finally:
        model.close()


def refused(directory: Path, template: str) -> str:
    with pytest.raises(SpectuiError) as caught:
        rendered(directory, template)
    message = str(caught.value)
    assert message == safe(message)
    assert "\n" not in message
    assert message.endswith(".")
    assert not message.endswith("..")
    return message


@pytest.mark.parametrize("template", [None, "", " \n"])
def test_a_model_without_a_template_gets_chatml(tmp_path: Path, template: str | None):
    expected = (
        "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in TALK) + "<|im_start|>assistant\n"
    )
    assert rendered(tmp_path, template) == expected


def test_smollm2s_template_is_used_and_names_become_single_tokens():
    model = Model(setup().model or "", extra_buffers=False)
    try:
        template = ChatTemplate(model)
        assert template.from_file
        tokens = template.tokens([("user", "hi")])
        assert spelled(model, tokens).endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
        assert (
            tokens.count(model.tokenize("<|im_end|>", special=True)[0]) == 2
        )  # its own system prompt's, and the question's
    finally:
        model.close()


def test_a_template_knows_bos_and_eos(tmp_path: Path):
    assert (
        rendered(tmp_path, "{{ bos_token }}|{{ eos_token }}|{{ add_generation_prompt }}|{{ messages[-1].content }}")
        == "<|im_start|>|<|im_end|>|True|2+2"
    )


def test_a_template_that_cannot_be_read_is_a_sentence(tmp_path: Path):
    assert refused(tmp_path, "{% for %}").startswith("The model's chat template cannot be read: ")


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('Roles must alternate.') }}", "Roles must alternate"),
        ("{{ raise_exception('\x1b]0;owned\x07\n\u202enovel') }}", "]0;owned"),
        ("{{ 1 // 0 }}", "division"),
        ("{{ nothing.at.all }}", "undefined"),
        ("{{ range(1000000000) | list }}", "a value would be too large"),
    ],
)
def test_a_template_that_raises_is_a_sentence(tmp_path: Path, template: str, says: str):
    message = refused(tmp_path, template)
    assert message.startswith("The model's chat template does not take this conversation: ")
    assert says in message


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ raise_exception.__globals__['os'].system('true') }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ strftime_now.__func__.__globals__ }}",
        "{{ messages.append({}) }}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_a_template_stays_in_its_sandbox(tmp_path: Path, template: str):
    # jinja2 refuses, or says that there is no such thing, which prints as nothing
    try:
        text = rendered(tmp_path, f"[{template}]{{{{ messages[-1].content }}}}")
    except SpectuiError:
        return
    assert text == "[]2+2"


@pytest.mark.parametrize("template", ["{# nothing #}", "hello", "{% for m in messages %}{{ m.text }}{% endfor %}"])
def test_a_template_that_leaves_out_what_a_person_writes_is_a_sentence(tmp_path: Path, template: str):
    assert "leaves out what you write" in refused(tmp_path, template)


def test_nothing_to_read_is_a_sentence(tmp_path: Path):
    with pytest.raises(SpectuiError, match="makes nothing of this conversation"):
        rendered(tmp_path, "{{ messages[0].content|trim }}", [("user", " ")])


def test_a_stopped_reply_continues_where_it_was(tmp_path: Path):
    begun = rendered(tmp_path, None, TALK)
    assert rendered(tmp_path, None, [*TALK, ("assistant", "It is")]) == begun + "It is"
