"""A turn reads its own text and the last reply, whatever the template drops of it and whatever kind of memory the model has."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spectui.engine.events import Event, Message, Notice, Prompt
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama.quantiser import quantise
from tests.llama.ggufs import write_gemma, write_model
from tests.llama.test_recurrent import write_lfm2

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    "<think>\n\n</think>\n\n"
)
"""It opens a reply with an empty thought, which earlier replies lack."""
WRITERS: dict[str, Callable[[Path], object]] = {
    "attention": lambda path: write_model(path, template=TEMPLATE),
    "hybrid": lambda path: write_lfm2(path, TEMPLATE),
    "window": lambda path: write_gemma(path, TEMPLATE),
}


class Chat:
    """A session, and what it told."""

    def __init__(self, path: Path, draft: Path | None = None, **setup: Any) -> None:
        self.events: list[Event] = []
        self.session = Session(self.events.append)
        self.setup = Setup(
            model=str(path), draft=draft and str(draft), ctx_size=2048, threads=1, ubatch=32, no_profile="on",
            requantise_draft="off", **setup,
        )  # fmt: skip
        self.session.load(self.setup)

    def answer(self, messages: list[Message], **knobs: Any) -> tuple[str, Prompt]:
        """The text, and what was told of the prompt last."""
        self.session.knobs = Knobs(temperature=0.9, seed=5, predict=40, **knobs)
        self.finished = self.session.generate(messages)
        return self.finished.text, [event for event in self.events if isinstance(event, Prompt)][-1]

    def told(self) -> list[str]:
        """The notices about conversations."""
        return [event.message for event in self.events if isinstance(event, Notice) and "onversation" in event.message]


@pytest.fixture(params=WRITERS)
def chat(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chat]:
    WRITERS[request.param](tmp_path / "model.gguf")
    chat = Chat(tmp_path / "model.gguf")
    yield chat
    chat.session.close()


def test_a_turn_reads_its_own_text_and_the_last_reply(chat: Chat) -> None:
    messages, ends = [], []
    for number in range(3):
        messages.append(Message("user", f"question {number} " * 30))
        text, prompt = chat.answer(messages)
        assert prompt.reused >= (ends[-1] if ends else 0) - 30, "from the last prompt's end on, which opens a thought"
        again, prompt = chat.answer(messages)
        assert (again, prompt.reused) == (text, pytest.approx(prompt.total, abs=1)), "another attempt"
        ends.append(prompt.total)
        messages.append(Message("assistant", text))
    fresh = Chat(Path(chat.session.pair.target.path))  # type: ignore[union-attr]
    assert fresh.answer(messages[:-1])[0] == messages[-1].content
    fresh.session.close()
    edited = [*messages[:2], Message("user", "something else")]
    _, prompt = chat.answer(edited)
    assert prompt.reused >= ends[0] - 30, "an edited prompt"
    assert prompt.parted.startswith("the text differs from token ")


def test_a_hybrid_drafts_for_a_hybrid(tmp_path: Path) -> None:
    """Its context goes back to the text where its tokens are rejected."""
    write_lfm2(tmp_path / "target.gguf", TEMPLATE)
    quantise(tmp_path / "target.gguf", tmp_path / "draft.gguf", "Q4_0")
    plain, drafted = (Chat(tmp_path / "target.gguf", draft) for draft in (None, tmp_path / "draft.gguf"))
    messages = [Message("user", "a question " * 30)]
    knobs = {"policy": "fixed", "drafter": "model", "draft_max": 4, "p_min": 0.0, "top_k": 3}
    expected, _ = plain.answer(messages, **knobs)
    assert drafted.answer(messages, **knobs)[0] == expected
    assert drafted.finished.statistics.accepted > 5 and drafted.finished.statistics.rejected > 5
    draft = drafted.session.pair.draft_context  # type: ignore[union-attr]
    assert draft is not None and len(draft.tokens) > 300
    for chat in (plain, drafted):
        chat.session.close()


def test_why_a_prefix_ends_early_is_told(tmp_path: Path) -> None:
    """Where the template drops a reply's thinking, and where its tokens are not known."""
    write_model(tmp_path / "model.gguf", template=TEMPLATE)
    chat = Chat(tmp_path / "model.gguf")
    asked = [Message("user", "a question " * 30)]
    chat.answer(asked)
    later = [*asked, Message("assistant", "an answer"), Message("user", "and?")]
    assert "template leaves out" in chat.answer(later)[1].parted
    chat.session.close()
