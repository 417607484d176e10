"""A turn reads its own text and the last reply, whatever the template drops of it and whatever kind of memory the model has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spectui.engine.events import Event, Finished, Message, Prompt
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
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
    """A session, and what was told of the last prompt."""

    def __init__(self, path: Path) -> None:
        self.events: list[Event] = []
        self.session = Session(self.events.append)
        self.session.load(Setup(model=str(path), ctx_size=2048, threads=1, ubatch=32, no_profile="on"))

    def answer(self, messages: list[Message]) -> tuple[Finished, Prompt]:
        self.events.clear()
        self.session.knobs = Knobs(temperature=0.9, seed=5, predict=40)
        finished = self.session.generate(messages)
        return finished, [event for event in self.events if isinstance(event, Prompt)][-1]


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
        finished, prompt = chat.answer(messages)
        assert prompt.reused >= (ends[-1] if ends else 0) - 30, "from the last prompt's end on, which opens a thought"
        again, prompt = chat.answer(messages)
        assert (again.text, prompt.reused) == (finished.text, pytest.approx(prompt.total, abs=1)), "another attempt"
        ends.append(prompt.total)
        messages.append(Message("assistant", finished.text))
    fresh = Chat(Path(chat.session.pair.target.path))  # type: ignore[union-attr]
    assert fresh.answer(messages[:-1])[0].text == messages[-1].content
    fresh.session.close()
    edited = [*messages[:2], Message("user", "something else")]
    assert chat.answer(edited)[1].reused >= ends[0] - 30, "an edited prompt"
