"""A template that writes the time: what is decoded again has the prompt that was answered."""

from dataclasses import replace
from pathlib import Path

from spectui.engine.events import Event, Message, RoundDone, Terms
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from tests.engine.waiting import prompt_tokens
from tests.llama.ggufs import write_model

# Every rendering writes another time, to the microsecond.
CLOCK = "{{ strftime_now('%f') }}{% for m in messages %}{{ m.content }}{% endfor %}"
HI, MORE = Message("user", "hi"), Message("user", "more")


def test_what_is_measured_has_the_same_prompts(tmp_path: Path) -> None:
    """A bench asks several prompts in turn, and says that texts which differ come from kernels."""
    events: list[Event] = []
    session, prompts = Session(events.append), []
    session.knobs = Knobs(predict=1, drafter="off")
    setup = Setup(model=str(write_model(tmp_path / "clock.gguf", template=CLOCK)), ctx_size=256, threads=1, no_profile="on")
    session.load(setup)
    for prompt in (HI, MORE, HI, MORE):
        session.begin_cold()
        session.generate([prompt])
        prompts.append(prompt_tokens(session, events))
    one, other, again, once_more = prompts
    assert (one, other) == (again, once_more)


def test_the_same_conversation_has_the_same_prompt(tmp_path: Path) -> None:
    events: list[Event] = []
    session = Session(events.append)
    session.knobs = Knobs(predict=3, drafter="off", seed=1)

    def prompt(*messages: Message) -> list[int]:
        session.generate(messages)
        return prompt_tokens(session, events)

    model = write_model(tmp_path / "clock.gguf", template=CLOCK)
    session.load(Setup(model=str(model), ctx_size=256, threads=1, no_profile="on"))
    session.generate([HI])
    token = next(event.round for event in events if isinstance(event, RoundDone)).tokens[0]
    first = prompt_tokens(session, events)
    assert prompt(HI) == first, "it is answered again"
    assert prompt(HI, Message("assistant", token.text, (token.id,)))[:-1] == first, "and continued"
    prompt(HI, Message("assistant", "x"), MORE)
    later = prompt(HI)
    assert later != first, "another conversation was answered meanwhile"
    session.knobs = replace(session.knobs, chat_template_kwargs='{"a": 1}')
    assert prompt(HI) != later, "the template reads other values"


def test_a_prompt_has_the_time_that_it_is_asked_with_in_another_process_too(tmp_path: Path) -> None:
    """A chat keeps when a prompt was sent, and opens it again."""
    model, prompts = write_model(tmp_path / "clock.gguf", template=CLOCK), []
    for _ in range(2):
        events: list[Event] = []
        read = []
        session = Session(events.append)
        session.knobs = Knobs(predict=1, drafter="off")
        session.load(Setup(model=str(model), ctx_size=256, threads=1, no_profile="on"))
        for at in (1_700_000_000.25, 1_700_000_000.5):
            session.generate([HI], Terms(at))
            read.append(prompt_tokens(session, events))
        prompts.append(read)
    assert prompts[0] == prompts[1] and prompts[0][0] != prompts[0][1]
