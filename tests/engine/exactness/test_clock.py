"""A template that writes the time: what is decoded again has the prompt that was answered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spectui.engine.events import Asked, Event, Message, RoundDone
from spectui.engine.exactness.verify import verify
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from tests.llama.ggufs import write_model

# Every rendering writes another time, to the microsecond.
CLOCK = "{{ strftime_now('%f') }}{% for m in messages %}{{ m.content }}{% endfor %}"
HI, MORE = Message("user", "hi"), Message("user", "more")


def test_what_is_measured_has_the_same_prompts(tmp_path: Path) -> None:
    """A bench asks several prompts in turn, and says that texts which differ come from kernels."""
    events: list[Event] = []
    session = Session(events.append)
    session.knobs = Knobs(predict=1, drafter="off")
    try:
        setup = Setup(
            model=str(write_model(tmp_path / "clock.gguf", template=CLOCK)), ctx_size=256, threads=1, no_profile="on"
        )
        session.load(setup)
        for prompt in (HI, MORE, HI, MORE):
            session.begin_cold()
            session.generate([prompt])
    finally:
        session.close()
    one, other, again, once_more = [event.tokens for event in events if isinstance(event, Asked)]
    assert (one, other) == (again, once_more)


def test_the_same_conversation_has_the_same_prompt(tmp_path: Path) -> None:
    events: list[Event] = []
    session = Session(events.append)
    session.knobs = Knobs(predict=3, drafter="off", seed=1)

    def prompts() -> list[tuple[int, ...]]:
        return [event.tokens for event in events if isinstance(event, Asked)]

    try:
        model = write_model(tmp_path / "clock.gguf", template=CLOCK)
        session.load(Setup(model=str(model), ctx_size=256, threads=1, no_profile="on"))
        finished = session.generate([HI])
        rounds = [event.round for event in events if isinstance(event, RoundDone)]
        assert verify(session, [HI], finished, rounds).same
        session.generate([HI])  # it is answered again
        token = rounds[0].tokens[0]
        session.generate([HI, Message("assistant", token.text, (token.id,))])  # and continued
        first, again, continued = prompts()
        assert first == again == continued[:-1]
        session.generate([HI, Message("assistant", "x"), MORE])
        session.generate([HI])
        assert prompts()[-1] != first, "another conversation was answered meanwhile"
        session.knobs = replace(session.knobs, chat_template_kwargs='{"a": 1}')
        session.generate([HI])
        assert prompts()[-1] != prompts()[-2], "the template reads other values"
    finally:
        session.close()


def test_a_prompt_has_the_time_that_it_is_asked_with_in_another_process_too(tmp_path: Path) -> None:
    """A chat keeps when a prompt was sent, and opens it again."""
    model, prompts = write_model(tmp_path / "clock.gguf", template=CLOCK), []
    for _ in range(2):
        events: list[Event] = []
        session = Session(events.append)
        session.knobs = Knobs(predict=1, drafter="off")
        try:
            session.load(Setup(model=str(model), ctx_size=256, threads=1, no_profile="on"))
            for at in (1_700_000_000.25, 1_700_000_000.5):
                session.generate([HI], at)
        finally:
            session.close()
        prompts.append([event.tokens for event in events if isinstance(event, Asked)])
    assert prompts[0] == prompts[1] and prompts[0][0] != prompts[0][1]
