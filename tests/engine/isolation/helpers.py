"""What the tests of engines in processes of their own share."""

from collections.abc import Callable
from dataclasses import replace

from spectui.engine.events import Event, Loaded, Message, RoundDone
from spectui.engine.isolation.process import EngineProcess
from spectui.knobs import Knobs, Setup
from tests.engine.waiting import Events, events_of

KNOBS = Knobs(temperature=0.8, seed=3, predict=100, draft_max=4, p_min=0.0, drafter="model", policy="fixed")
LONG = 1500
"""Tokens of a reply whose rounds are more than a pipe holds: not all of them can have been written when the first come."""
QUESTION = [Message("user", "what now")]


def load(engine: EngineProcess, setup: Setup) -> Events:
    """Load the models, the engine's first ones. Returns its events."""
    events = events_of(engine)
    engine.load(setup)
    events.wait(Loaded)
    return events


def text_of(events: Events) -> str:
    return "".join(token.text for event in events.of(RoundDone) for token in event.round.tokens)


def at_round(engine: EngineProcess, index: int, do: Callable[[], None]) -> None:
    """Do something once, when the round of this index comes. Replies are `LONG` from now on."""
    events, engine.knobs = events_of(engine), replace(engine.knobs, predict=LONG)

    def hook(event: Event) -> None:
        if isinstance(event, RoundDone) and event.round.index == index:
            events.hook = lambda _: None
            do()

    events.hook = hook
