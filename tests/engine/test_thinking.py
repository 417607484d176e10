"""Templates that open the model's thinking, and templates that leave out earlier thinking."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui.engine.events import Event, Message, Prompt
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from tests.llama.ggufs import write_model

TALK = (Message("user", "hi"), Message("assistant", "<think>\nwell\n</think>\n\nho"), Message("user", "and?"))
WHOLE = "{% for each in messages %}{{ each.content }}\n{% endfor %}"
SAID = "{% for each in messages %}{{ each.content.split('</think>\n\n')[-1] }}\n{% endfor %}"


@pytest.mark.parametrize(
    ("template", "prompt", "thinking"),
    [
        (WHOLE, "hi\n<think>\nwell\n</think>\n\nho\nand?\n", False),
        (SAID, "hi\nho\nand?\n", False),
        (SAID + r"{{ '<think>\n' }}", "hi\nho\nand?\n<think>\n", True),
        (SAID + r"{{ '<think>\n\n</think>\n\n' }}", "hi\nho\nand?\n<think>\n\n</think>\n\n", False),
    ],
)
def test_the_template_decides_about_thinking(tmp_path: Path, template: str, prompt: str, thinking: bool) -> None:
    events: list[Event] = []
    session = Session(events.append)
    session.knobs = Knobs(predict=1, drafter="off")
    model = write_model(tmp_path / "thinking.gguf", template=template)
    try:
        session.load(Setup(model=str(model), ctx_size=256, threads=1, no_profile="on"))
        session.generate(TALK)
    finally:
        session.close()
    read = [event for event in events if isinstance(event, Prompt)][-1]
    assert read.total == len(prompt), "a token for each byte"
    assert read.thinking is thinking
