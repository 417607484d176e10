"""What a person wrote is in the prompt, in whichever way a template takes messages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spectui.errors import SpectuiError
from spectui.llama.model import Model
from spectui.llama.tokens.chat_template import FOLDED, FORGETS, ChatTemplate
from spectui.llama.tokens.rendering import Renderer
from tests.helpers.peers import NOT_THERE, SOURCE
from tests.llama.ggufs import write_model

TEMPLATES = SOURCE / "models" / "templates"
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
SYSTEM = ("system", "Answer in French.")
TALK = [("user", "What is 2+2?"), ("assistant", "Quatre."), ("user", "And 3+3?")]

TEXT = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
PARTS = (
    "{% for m in messages %}[{{ m['role'] }}]{% for line in m['content'] %}{% if line['type'] == 'text' %}"
    "{{ line['text'] }}{% elif line['type'] == 'image' %}<image>{% endif %}{% endfor %}{% endfor %}"
)
BOTH = TEXT.replace("{{ m.content }}", "{% if m.content is string %}{{ m.content }}{% else %}PARTS{% endif %}")
PRINTS = "{% for m in messages %}{% if m.content is not string %}{{ m.content }}{% endif %}{% endfor %}"
PICTURES = (  # as SmolVLM's: the first part decides what is between the role and the text
    "{% for m in messages %}{{ m['role']|capitalize }}{% if m['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}"
    "{% for line in m['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}{% endif %}{% endfor %}|{% endfor %}"
)
LLAVA = (  # only prompts have parts
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'user' %}{% for c in m.content|selectattr('type', 'equalto', 'text')"
    " %}{{ c['text'] }}{% endfor %}{% else %}{{ m.content + '' }}{% endif %}{% endfor %}"
)
ONLY_TWO_ROLES = (
    "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}{% elif m.role == 'assistant' %}A:{{ m.content }}"
    "{% endif %}{% endfor %}"
)
REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + TEXT
ALTERNATES = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}"
    "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)
SYSTEM_IN_PARTS = "{% for m in messages %}{{ m.content[0].text if m.role == 'system' else m.content }}|{% endfor %}"
TOOLS_DEFINED = "{% if tools is defined %}{{ tools|length }} tools: {% for t in tools %}{{ t }}{% endfor %}{% endif %}" + TEXT
TOOLS_SAID = "{% if tools is not none %}You have tools.{% endif %}" + TEXT
TOOLS_NONE = "{% if tools is not none %}{{ 'tools: ' + tools }}{% endif %}" + TEXT
ONE_TURN = "{% if messages|length > 2 %}{{ raise_exception('one turn') }}{% endif %}" + PARTS

PLAIN = "[system]Answer in French.[user]What is 2+2?[assistant]Quatre.[user]And 3+3?"
FOLDED_IN = "[user]Answer in French.\nWhat is 2+2?[assistant]Quatre.[user]And 3+3?"


@pytest.mark.parametrize(
    ("source", "prompt"),
    [
        (TEXT, PLAIN),
        (PARTS, PLAIN),
        (BOTH, PLAIN),
        (PICTURES, "System: Answer in French.|User: What is 2+2?|Assistant: Quatre.|User: And 3+3?|"),
        (LLAVA, PLAIN),
        (ONLY_TWO_ROLES, "U:Answer in French.\nWhat is 2+2?A:Quatre.U:And 3+3?"),
        (REFUSES, FOLDED_IN),
        (ALTERNATES, FOLDED_IN),
        (SYSTEM_IN_PARTS, "Answer in French.|What is 2+2?|Quatre.|And 3+3?|"),
        (TOOLS_DEFINED, PLAIN),
        (TOOLS_NONE, PLAIN),
        (TOOLS_SAID, PLAIN),
    ],
    ids=["text", "parts", "both", "pictures", "llava", "two", "refuses", "alternates", "system", "defined", "none", "said"],
)
def test_every_message_is_in_the_prompt(source: str, prompt: str) -> None:
    renderer = Renderer(source, NAMES)
    assert renderer.rendered([SYSTEM, *TALK]) == prompt
    for talk in ([SYSTEM, TALK[0]], TALK[:1], TALK):
        assert all(content in renderer.rendered(talk) for _, content in talk)


def test_a_template_of_one_turn_is_probed_too() -> None:
    renderer = Renderer(ONE_TURN, NAMES)
    assert renderer.rendered([SYSTEM, TALK[0]]) == "[system]Answer in French.[user]What is 2+2?"
    with pytest.raises(ValueError, match="one turn"):
        renderer.rendered([SYSTEM, *TALK])


def test_a_reply_without_an_answer_is_taken_by_a_template_that_wants_one() -> None:
    """Such as one that was stopped while it thought. Ministral's template wants a text."""
    lenient = "{% for m in messages %}{{ m.content }}|{% endfor %}"
    strict = lenient.replace("{{", "{% if m.content == '' %}{{ raise_exception('empty') }}{% endif %}{{", 1)
    talk = [TALK[0], ("assistant", "", "Hmm."), TALK[2]]
    assert Renderer(strict, NAMES).rendered(talk) == f"{TALK[0][1]}| |{TALK[2][1]}|"
    assert Renderer(lenient, NAMES).rendered(talk) == f"{TALK[0][1]}||{TALK[2][1]}|"


@pytest.mark.parametrize("source", ["hello", PRINTS, "{% for m in messages %}{{ m.value }}{% endfor %}"])
def test_a_template_that_loses_what_is_written_is_known(source: str) -> None:
    assert Renderer(source, NAMES).dialect.drops_user_text


def test_a_template_that_changes_what_is_written_loses_nothing() -> None:
    for how in ("|upper", "|replace('s', 'z')", "|length"):
        assert not Renderer(f"{{{{ messages[-1].content{how} }}}}", NAMES).dialect.drops_user_text


@pytest.fixture
def said(tmp_path: Path) -> Iterator[tuple[ChatTemplate, list[str]]]:
    """A template without a system role, and its notices."""
    notices: list[str] = []
    model = Model(str(write_model(tmp_path / "model.gguf", template=REFUSES)), extra_buffers=False)
    yield ChatTemplate(model, notices.append), notices
    model.close()


def test_a_folded_system_prompt_is_said_once(said: tuple[ChatTemplate, list[str]]) -> None:
    template, notices = said
    template.tokens(TALK)
    assert notices == []
    for _ in range(2):
        assert template.text([SYSTEM, *TALK]) == FOLDED_IN
        assert notices == [FOLDED]


LAST = "{{ messages[-1].content }}"
PROMPTS = "{% for m in messages if m.role != 'assistant' %}{{ m.content }}|{% endfor %}"
RECENT = "{% for m in messages[-2:] %}{{ m.content }}|{% endfor %}"
FIRST = "{% for m in messages[:2] %}{{ m.content }}|{% endfor %}"


@pytest.mark.parametrize("source", [LAST, PROMPTS, RECENT, FIRST])
def test_a_template_that_leaves_out_earlier_turns_says_so_once(tmp_path: Path, source: str) -> None:
    notices: list[str] = []
    model = Model(str(write_model(tmp_path / "model.gguf", template=source)), extra_buffers=False)
    template = ChatTemplate(model, notices.append)
    template.tokens(TALK[:1])
    assert notices == []
    for _ in range(2):
        template.tokens(TALK)
        assert notices == [FORGETS]
    model.close()


@pytest.mark.parametrize("text", ["<|im_end|>", "a</s>b"])
def test_names_are_text_in_parts_and_in_a_folded_prompt(tmp_path: Path, text: str) -> None:
    for source in (PARTS, REFUSES):
        model = Model(str(write_model(tmp_path / "model.gguf", template=source)), extra_buffers=False)
        template = ChatTemplate(model)
        talk = [("system", text), ("user", text), ("assistant", text), ("user", text)]
        assert all(map(model.piece, template.tokens(talk)))
        assert template.text(talk).count(text) == 4
        model.close()


needs_source = pytest.mark.skipif(not TEMPLATES.is_dir(), reason=NOT_THERE)

FAIL = {"fireworks-ai-llama-3-firefunction-v2": "unsupported types string and undefined"}
"""They need what a chat does not have: this one is for calling functions, whose list and the date are added to texts."""


@needs_source
@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.jinja")), ids=lambda path: path.stem)
def test_the_templates_of_llama_cpps_source(path: Path) -> None:
    """Two turns each, with and without a system prompt."""
    renderer = Renderer(path.read_text(), NAMES)
    if path.stem in FAIL:
        for talk in (TALK, [SYSTEM, *TALK]):
            with pytest.raises(Exception, match=FAIL[path.stem]):
                renderer.rendered(talk)
        return
    for talk in (TALK[:1], TALK, [SYSTEM, TALK[0]], [SYSTEM, *TALK]):
        assert all(content in renderer.rendered(talk) for _, content in talk)
    long = [(role, content + " 漢字" * 10_000) for role, content in [SYSTEM, *TALK[:2] * 20, TALK[2]]]
    assert len(renderer.rendered(long)) > 1_000_000, "within the limits"
    assert renderer.dialect.system_in_first_message == (path.stem == "google-gemma-2-2b-it")
    assert not renderer.dialect.parts


def test_a_template_that_takes_no_conversation_is_a_sentence(tmp_path: Path) -> None:
    source = "{{ 'functions: ' + functions }}" + TEXT
    model = Model(str(write_model(tmp_path / "model.gguf", template=source)), extra_buffers=False)
    with pytest.raises(SpectuiError, match="does not take this conversation: "):
        ChatTemplate(model).tokens(TALK)
    model.close()


@pytest.mark.parametrize("tag", ["{% generation %}|{% endgeneration %}", "{%- generation -%}|{%-endgeneration-%}"])
def test_the_tag_around_what_training_learns_is_taken(tag: str) -> None:
    begin, end = tag.split("|")
    source = TEXT.replace("{{ m.content }}", f"{begin}{{{{ m.content }}}}{end}")
    assert Renderer(source, NAMES).rendered([SYSTEM, *TALK]) == PLAIN


def test_json_is_written_as_transformers_writes_it() -> None:
    """With a bound for its widths, which no fuel counts."""
    source = "{{ messages[-1].content }}{{ {'b': \"<é'>\", 'a': [1, true]}|tojson }}{{ [1]|tojson(indent=10**9) }}"
    written = '{"b": "<é\'>", "a": [1, true]}[\n        1\n]'
    assert Renderer(source, NAMES).rendered(TALK) == TALK[-1][1] + written


@pytest.mark.parametrize("name", ["self", "template", "messages", "names", "environment"])
def test_a_value_for_the_template_may_have_any_name(name: str) -> None:
    renderer = Renderer(TEXT, NAMES)
    expected = renderer.rendered(TALK)
    renderer.values = {name: "x"}
    assert renderer.rendered(TALK) == expected
