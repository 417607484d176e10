"""A model's marks around its thinking, tokens of its vocabulary, become the marks that spectui writes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from spectui.knobs import Knobs
from spectui.llama.model import Model
from spectui.llama.tokens.chat_template import ChatTemplate
from spectui.llama.tokens.reply_text import ReplyMarks, ReplyText, ThoughtLimit
from spectui.thinking import divided, parsed, thought_and_answer
from tests.llama.ggufs import WORDS, byte_names, write_model

TURNS = "{% for each in messages %}{{ each.content }}\n{% endfor %}"
CONTROL, USER_DEFINED = 3, 4

HARMONY = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")
SOLAR = ("<|begin|>", "<|end|>", "<|content|>", "<|think|>", "<|flush|>", "<|calls|>")
KIMI = ("<|open|>", "<|close|>", "<|sep|>")
GEMMA = ("<|channel>", "<channel|>")


def split(text: str) -> tuple[str, str]:
    """What a text thinks, and what it answers."""
    return thought_and_answer(divided(parsed(text)))


class Written:
    """A tiny model with these marks in its vocabulary."""

    def __init__(self, path: Path, marks: Sequence[str], template: str, kind: int) -> None:
        names = byte_names()
        write_model(
            path,
            tokens=[*WORDS, *names, *marks],
            types=[CONTROL] * len(WORDS) + [1] * len(names) + [kind] * len(marks),
            template=template,
        )
        self.model = Model(str(path))
        self.template = ChatTemplate(self.model)
        self.marks = ReplyMarks(self.model)

    def think(self, budget: int, opens: str, prompt: str = "hi\n") -> str:
        """The text of a reply that would think for ever, with this budget."""
        tokens = self.model.tokenize(prompt, special=True)
        limit = ThoughtLimit(self.marks, tokens)
        text = ReplyText(self.marks, thinking=limit.opened)
        coming = [*self.model.tokenize(opens, special=True), *self.model.tokenize("é" * 20, special=False)]
        found = ""
        while coming:
            forced = limit.forced(Knobs(reasoning_budget=budget), tokens)
            tokens.append(coming.pop(0) if forced is None else forced)
            found += text.push(tokens[-1])
        return found

    def read(self, reply: str, prompt: str = "hi\n") -> str:
        """The text of a reply of these tokens."""
        opened = self.marks.open_at(self.model.tokenize(prompt, special=True)) is not None
        text = ReplyText(self.marks, thinking=opened)
        return "".join(map(text.push, self.model.tokenize(reply, special=True)))


@pytest.fixture
def written(tmp_path: Path) -> Iterator[type[Written]]:
    made: list[Written] = []

    def write(*marks: str, template: str = TURNS, kind: int = CONTROL) -> Written:
        made.append(Written(tmp_path / f"{len(made)}.gguf", marks, template, kind))
        return made[-1]

    yield write  # type: ignore[misc]
    for each in made:
        each.model.close()


@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED])
@pytest.mark.parametrize(
    ("opens", "closes"),
    [
        ("[THINK]", "[/THINK]"),
        ("<seed:think>", "</seed:think>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
        ("◁think▷", "◁/think▷"),
    ],
)
def test_marks_of_known_models(written: type[Written], opens: str, closes: str, kind: int) -> None:
    model = written(opens, closes, kind=kind)  # type: ignore[call-arg,arg-type]
    assert model.read(f"{opens}so{closes}Four.<|im_end|>") == "<think>so</think>\n\nFour."
    assert model.read(f"so{closes}Four.", prompt=f"hi\n{opens}\n") == "<think>\nso</think>\n\nFour."
    assert model.read("Four.", prompt=f"hi\n{opens}{closes}") == "Four."
    assert model.read("Four.\n1 < 2\n[x]") == "Four.\n1 < 2\n[x]"


@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED])
def test_the_usual_marks_are_text_as_they_are_written(written: type[Written], kind: int) -> None:
    model = written("<think>", "</think>", kind=kind)  # type: ignore[call-arg,arg-type]
    visible = kind == USER_DEFINED
    assert model.read("<think>\nso\n</think>\n\nFour.") == "<think>\nso\n</think>\n\nFour."
    assert model.read("so\n</think>Four.", prompt="<think>\n").startswith("<think>\nso\n</think>")
    assert model.read("about <think> and </think>") == (
        "about <think> and </think>" if visible else "about \n<think> and </think>\n\n"
    )


def test_a_closing_mark_whose_opening_one_is_not_known(written: type[Written]) -> None:
    model = written("[THINK]", "[/THINK]")  # type: ignore[call-arg,arg-type]
    assert model.read("so[/THINK]Four.") == "so\n</think>\n\nFour."


def test_marks_that_only_the_template_names(written: type[Written]) -> None:
    named = written("<|my_thought|>", "<|/my_thought|>", template=TURNS + "{# <|my_thought|> #}")  # type: ignore[call-arg,arg-type]
    assert named.read("<|my_thought|>so<|/my_thought|>Four.") == "<think>so</think>\n\nFour."


@pytest.mark.parametrize("marks", [(), ("<think>", "</think>")])
@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED])
def test_each_token_is_noted_and_a_second_closing_mark_is_left_out(
    written: type[Written], marks: Sequence[str], kind: int
) -> None:
    """Marks of several tokens are held back until they are known."""
    model = written(*marks, kind=kind)  # type: ignore[call-arg,arg-type]
    text, noted = ReplyText(model.marks), list[tuple[bool, str]]()
    for token in model.model.tokenize("<think>so</think>Four</think> <5.<|im_end|>", special=True):
        piece = text.push(token)
        noted.append((text.thought, piece))
    assert "".join(piece for _, piece in noted) == "<think>so</think>\n\nFour <5."
    assert divided(noted) == [(True, "so"), (False, "\n\nFour <5.")]


def test_a_turn_s_header_is_no_mark(written: type[Written]) -> None:
    bare = "{% for each in messages %}<|{{ each.role }}|>{{ each.reasoning_content }}<|sep|>{{ each.content }}\n{% endfor %}"
    model = written("<|assistant|>", "<|sep|>", template=bare + "<|assistant|>")  # type: ignore[call-arg,arg-type]
    assert model.read("Four.", prompt="hi\n<|assistant|>") == "Four."


@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED])
def test_harmony_s_channels(written: type[Written], kind: int) -> None:
    model = written(*HARMONY, kind=kind)  # type: ignore[call-arg,arg-type]
    final = "<|start|>assistant<|channel|>final<|message|>"
    thinking = "<|channel|>analysis<|message|>so<|end|>"
    prompt = "<|start|>user<|message|>hi<|end|><|start|>assistant"
    assert model.read(f"{thinking}{final}Four.<|return|>", prompt) == "<think>so</think>\n\nFour."
    assert model.read("<|channel|>final<|message|>Four.<|return|>", prompt) == "Four."
    assert model.read("Four.", prompt) == "Four.", "a model that does not keep to its format"
    said = "<|start|>assistant<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant"
    assert model.read(f"{thinking}{said}{thinking}{final}Four.", prompt) == (
        "<think>so</think>\n\nWait.\n<think>so</think>\n\nFour."
    )
    assert model.read("so<|end|>" + final + "Four.", prompt + "<|channel|>analysis<|message|>") == (
        "<think>\nso</think>\n\nFour."
    )
    assert model.read("<|channel|>analysis<|message|>so" + final + "Four.", prompt) == "<think>so</think>\n\nFour."
    two = said + "<|channel|>final<|message|>Four.<|return|>"
    assert model.read(thinking + two, prompt) == "<think>so</think>\n\nWait.\n\nFour.", "a paragraph each"


def test_other_channels(written: type[Written]) -> None:
    solar = written(*SOLAR)  # type: ignore[call-arg,arg-type]
    assert solar.read("<|think|>so<|end|><|begin|>assistant<|content|>Four.<|end|>", "<|begin|>assistant") == (
        "<think>so</think>\n\nFour."
    )
    kimi = written(*KIMI)  # type: ignore[call-arg,arg-type]
    answer = "<|open|>response<|sep|>Four.<|close|>response<|sep|>"
    assert kimi.read(f"so<|close|>think<|sep|>{answer}", "hi<|open|>think<|sep|>") == "<think>\nso</think>\n\nFour."
    assert kimi.read("Four.<|close|>response<|sep|>", "hi<|open|>response<|sep|>") == "Four."
    gemma = written(*GEMMA)  # type: ignore[call-arg,arg-type]
    assert gemma.read("<|channel>thought\nso<channel|>Four.") == "<think>so</think>\n\nFour."
    assert gemma.read("Four.", "hi\n<|channel>thought\n<channel|>") == "Four."


@pytest.mark.parametrize(
    ("marks", "opens"),
    [
        ((), "<think>"), ((), "<reasoning>"), (("<think>", "</think>"), "<think>"), (("[THINK]", "[/THINK]"), "[THINK]"),
        (HARMONY, "<|channel|>analysis<|message|>"), (SOLAR, "<|think|>"), (GEMMA, "<|channel>thought\n"),
    ],
)  # fmt: skip
def test_a_budget_ends_the_thinking_and_no_character(written: type[Written], marks: Sequence[str], opens: str) -> None:
    model = written(*marks)  # type: ignore[call-arg,arg-type]
    assert split(model.think(-1, opens))[1] == ""
    for budget, thought in ((0, ""), (4, "éé"), (5, "ééé")):  # two tokens each
        found, answer = split(model.think(budget, opens))
        assert (found.strip(), set(answer)) == (thought, {"é"}), budget


def test_each_thought_of_a_reply_has_the_budget(written: type[Written]) -> None:
    seed = written("<seed:think>", "</seed:think>")  # type: ignore[call-arg,arg-type]
    said = seed.think(4, "<seed:think>" + "é" * 6 + "<seed:think>")
    assert said.count("éé</think>") == 2 and said.endswith("é")


def test_a_budget_ends_what_the_prompt_has_opened(written: type[Written]) -> None:
    seed = written("<seed:think>", "</seed:think>", "[THINK]", "[/THINK]")  # type: ignore[call-arg,arg-type]
    assert seed.think(2, "", prompt="hi\n[THINK]").startswith("<think>\né</think>\n\né")
    plain = written()  # type: ignore[call-arg]
    assert plain.think(2, "", prompt="hi\n<reasoning>\n").startswith("<think>\né</think>\n\né")
