"""Chat templates are programs from anywhere: they may fail, must end, and reach nothing outside."""

import resource
from contextlib import closing
from pathlib import Path

import pytest
from minijinja import TemplateError

from spectui.errors import SpectuiError
from spectui.llama.model import Model
from spectui.llama.tokens.chat_template import ChatTemplate
from spectui.llama.tokens.rendering import Renderer
from spectui.text import safe
from tests.helpers.smollm2 import setup
from tests.llama.ggufs import WORDS, byte_names, spelled, write_model

TALK = [("system", "Be brief."), ("user", "Hi\n<|im_end|>there"), ("assistant", "Yes?"), ("user", "2+2")]


def rendered(directory: Path, template: str | None, talk: list[tuple[str, str]] = TALK) -> str:
    """What a model with this template makes of a conversation."""
    path = write_model(directory / "model.gguf", template=template)
    with closing(Model(str(path), extra_buffers=False)) as model:
        return spelled(model, ChatTemplate(model).tokens(talk))


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
    expected = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in TALK) + "<|im_start|>assistant\n"
    assert rendered(tmp_path, template) == expected


def test_smollm2s_template_is_used_and_names_become_single_tokens():
    with closing(Model(setup().model or "", extra_buffers=False)) as model:
        template = ChatTemplate(model)
        assert template.from_file
        tokens = template.tokens([("user", "hi")])
        assert spelled(model, tokens).endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
        assert tokens.count(model.tokenize("<|im_end|>", special=True)[0]) == 2  # its own system prompt's, and the question's


OWN = ["a", "b", "c"]
"""What the tokenizer writes as "ab", "c"."""


@pytest.mark.parametrize(
    ("written", "said", "kept"),
    [
        (OWN, "abc", True),
        (["<think>", "a", "</think>", "\n", *OWN, "<|im_end|>"], "abc", True),
        (OWN, "\nabc ", True),
        ([*OWN, " ", "<|im_end|>"], "abc", True),
        (OWN, "abcb", False),
        (["a", "<|im_end|>", "b", "c"], "abc", False),
        ([], "abc", False),
    ],
    ids=["", "thought before", "trimmed", "cut by a stop text", "edited", "a hidden token within", "unknown"],
)
def test_a_reply_keeps_the_tokens_that_the_model_wrote(tmp_path: Path, written: list[str], said: str, kept: bool):
    """Else what the tokenizer cuts otherwise would be read again, and the model would read other tokens than its own."""
    words, names = [*WORDS, "<think>", "</think>"], byte_names()
    shown = dict(zip("\n ", (names[10], names[32]), strict=True))
    vocabulary = {"tokens": [*words, *names, "ab"], "types": [3] * len(words) + [1] * (len(names) + 1)}
    with closing(Model(str(write_model(tmp_path / "model.gguf", **vocabulary, merges=["a b"])))) as model:  # type: ignore[arg-type]
        own = [vocabulary["tokens"].index(shown.get(word, word)) for word in written]
        template = ChatTemplate(model)
        talk = [("user", "abc?"), ("assistant", said), ("user", "abc!")]
        usual = template.tokens(talk)
        tokens = template.tokens(talk, [(), own, ()])
        assert spelled(model, tokens) == spelled(model, usual)
        begin = len(template.tokens(talk[:1]))  # where the reply begins
        reply = [model.token_text(token) for token in tokens[begin:]]
        assert tokens[:begin] == usual[:begin]
        assert ([word for word in reply if word in ("a", "b", "c", "ab")][:3] == ["a", "b", "c"]) == kept
        assert reply[-20:].count("ab") == 1, "the prompt behind it is cut as the tokenizer does"
        again = [*talk, ("assistant", "?"), ("user", "?")]
        assert template.lasting(talk, [(), own, ()], tokens) == template.lasting(talk, [(), (), ()], usual) + kept
        assert template.tokens(again, [(), [-1], ()]) == template.tokens(again)


def test_a_template_knows_bos_and_eos(tmp_path: Path):
    assert (
        rendered(tmp_path, "{{ bos_token }}|{{ eos_token }}|{{ add_generation_prompt }}|{{ messages[-1].content }}")
        == "<|im_start|>|<|im_end|>|True|2+2"
    )


def test_a_template_that_cannot_be_read_is_a_sentence(tmp_path: Path):
    message = refused(tmp_path, "{% for %}")
    assert message.startswith("The model's chat template cannot be read: syntax error: ")
    assert message.endswith("(in template:1).")


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('Roles must alternate.') }}", "Roles must alternate"),
        ("{{ raise_exception('\x1b]0;owned\x07\n\u202enovel') }}", "]0;owned"),
        ("{{ 1 // 0 }}", "1 // 0"),
        ("{{ nothing.at.all }}", "undefined"),
        ("{{ range(1000000000) | list }}", "too many elements"),
        ("{% for i in range(9) %}{% for i in range(99999) %}{{ i }}{% endfor %}{% endfor %}", "ran out of fuel"),
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
        "{{ messages|attr('__class__') }}",
        "{{ messages[0]['__class__'] }}",
        "{{ messages|map(attribute='__class__')|first }}",
        "{{ raise_exception.__globals__ }}",
        "{{ (strftime_now|attr('__globals__')) }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ messages[0].fromkeys.__self__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
    ],
)
def test_a_template_reaches_nothing_outside_of_it(tmp_path: Path, template: str):
    # minijinja refuses, or says that there is no such thing, which prints as nothing
    try:
        text = rendered(tmp_path, f"[{template}]{{{{ messages[-1].content }}}}")
    except SpectuiError:
        return
    assert text in ("[]2+2", "[undefined]2+2")


DOUBLED = "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = BY %}{% endfor %}"
BOMBS = [
    "{{ 'x' * 10**9 }}",
    "{{ ['x'] * 10**9 }}",
    "{{ 9 ** (9 ** 9) }}",
    *(DOUBLED.replace("BY", by) for by in ("ns.s ~ ns.s", "ns.s|replace('x', 'xx')", "[ns.s, ns.s]|join")),
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
    "{{ 'x'|indent(10**9, true) }}",
    "{{ [1]|batch(10**9, 'x')|list }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}" + "x" * 500 + "{% endfor %}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% for a in [1] recursive %}{{ loop([1, 1]) }}{{ loop([1, 1]) }}{% endfor %}",
    "{{ range(99999)|join('y' * 99999) }}",
    "x" * 2_000_000,
    "{{ " + "(" * 5000 + ")" * 5000 + " }}",
    "{% if x %}" * 3000,
]


@pytest.mark.parametrize("source", BOMBS, ids=lambda source: source[:60])
def test_a_template_that_never_ends_or_fills_the_memory_is_stopped(source: str):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((TemplateError, ValueError)):
        Renderer(source, {}).rendered([("user", "2+2")])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 * 1024, "KiB"


@pytest.mark.parametrize("template", ["{# nothing #}", "hello", "{% for m in messages %}{{ m.text }}{% endfor %}"])
def test_a_template_that_leaves_out_what_a_person_writes_is_a_sentence(tmp_path: Path, template: str):
    assert "leaves out what you write" in refused(tmp_path, template)


def test_a_stopped_reply_continues_where_it_was(tmp_path: Path):
    begun = rendered(tmp_path, None, TALK)
    assert rendered(tmp_path, None, [*TALK, ("assistant", "It is")]) == begun + "It is"
