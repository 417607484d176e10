"""The BOS token: a prompt begins with it if the vocabulary asks for that, whatever the chat template writes."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from spectui.engine.demo import default_setup
from spectui.errors import SpectuiError
from spectui.knobs import Setup
from spectui.llama.model import Model
from spectui.llama.tokens.chat_template import ChatTemplate
from tests.helpers.llama_server import llama_server, needs_llama_server
from tests.llama.ggufs import SPM, WORDS, write_model

TALK = [("user", "ab"), ("assistant", "b"), ("user", "a")]
BODY = "{% for m in messages %}{{ m.role[:1] }}{{ m.content }}{% endfor %}"
TEMPLATES = {"none": None, "with": "{{ bos_token }}" + BODY, "without": BODY, "twice": "{{ bos_token * 2 }}" + BODY}
TOKENS = [*WORDS[:4], "▁", "\n", *"abeinrstu", "▁a", *(f"<0x{n:02X}>" for n in range(256))]
BOS = 3

MODELS = Path.home() / ".cache" / "spectui-models"
CHATS = ("SmolLM2-135M-Instruct.Q8_0.gguf", "qwen2.5-coder-0.5b-instruct-q4_0.gguf", "gemma-3-270m-q4_k_m.gguf")


def made(path: Path, kind: str, template: str, add_bos: bool, bos: int = BOS) -> Path:
    """A tiny model with this vocabulary and template."""
    types = [2, 3, 3, 3, *(6 if token.startswith("<0x") else 1 for token in TOKENS[4:])]
    spm = {"tokens": TOKENS, "types": types, "tokenizer": SPM} if kind == "spm" else {}
    numbers = {"tokenizer.ggml.bos_token_id": bos}
    return write_model(path, template=TEMPLATES[template], numbers=numbers, add_bos=add_bos, **spm)  # type: ignore[arg-type]


def prompt(path: Path, talk: list[tuple[str, str]] = TALK) -> list[int]:
    """spectui's tokens for a conversation."""
    return prompts(path, talk)[1]


def prompts(path: Path, talk: list[tuple[str, str]] = TALK) -> tuple[str, list[int]]:
    """spectui's prompt for a conversation, as text and in tokens."""
    with closing(Model(str(path), extra_buffers=False)) as model:
        template = ChatTemplate(model)
        return template.text(talk), template.tokens(talk)


@pytest.mark.parametrize("kind", ["bpe", "spm"])
@pytest.mark.parametrize(
    ("template", "add_bos", "written"),
    [
        ("none", True, 1), ("with", True, 1), ("without", True, 1), ("twice", True, 2),
        ("none", False, 0), ("with", False, 1), ("without", False, 0), ("twice", False, 2),
    ],
)  # fmt: skip
def test_the_vocabulary_decides_whether_a_prompt_begins_with_bos(
    tmp_path: Path, kind: str, template: str, add_bos: bool, written: int
):
    tokens = prompt(made(tmp_path / "model.gguf", kind, template, add_bos))
    assert tokens.count(BOS) == written
    assert tokens[:written] == [BOS] * written
    assert len(tokens) > 3


def test_a_continued_reply_has_the_same_beginning(tmp_path: Path):
    path = made(tmp_path / "model.gguf", "bpe", "without", True)
    begun = prompt(path)
    assert prompt(path, [*TALK, ("assistant", "bb")])[: len(begun)] == begun


def test_bos_alone_is_no_conversation(tmp_path: Path):
    path = write_model(tmp_path / "model.gguf", template="{{ messages[0].content|trim }}", add_bos=True)
    with pytest.raises(SpectuiError, match="makes nothing of this conversation"):
        prompt(path, [("user", " ")])


@needs_llama_server
@pytest.mark.parametrize("bos", [BOS, 1])
@pytest.mark.parametrize("kind", ["bpe", "spm"])
@pytest.mark.parametrize("template", list(TEMPLATES))
def test_made_models_get_llama_servers_tokens(tmp_path: Path, kind: str, template: str, bos: int):
    for add_bos in (True, False):
        path = made(tmp_path / f"{add_bos}.gguf", kind, template, add_bos, bos)
        with llama_server(path) as server:
            assert prompts(path) == (server.prompt(TALK), server.tokens(TALK))


def real() -> Iterator[Path]:
    """The chat models on this machine."""
    yield from (MODELS / name for name in CHATS if (MODELS / name).exists())
    yield Path(default_setup(Setup()).model or "")


@needs_llama_server
@pytest.mark.parametrize("path", real(), ids=lambda path: path.stem)
def test_real_models_get_llama_servers_tokens(path: Path):
    """With a system prompt and without."""
    talk = [("user", "Hi <b>\n"), ("assistant", "Yes?"), ("user", "2+2 ")]
    with llama_server(path) as server:
        for each in ([("system", "Be brief."), *talk], talk):
            assert prompts(path, each) == (server.prompt(each), server.tokens(each))
