"""A trace is played as it was recorded, at any speed, and no prompt goes anywhere."""

from __future__ import annotations

import pytest

from spectui.engine.events import Asked, Event, Failed, Finished, Loaded, Message, Prompt, RoundDone
from spectui.knobs import Setup
from spectui.traces.player import ENDED, FASTEST, TracePlayer, first_setup
from tests.speculation.recordings import replies
from tests.traces.events import LOADED, chat

NOBODY = [Message("user", "whatever")]


def played(entries: tuple[Event, ...], speed: float = 1.0, tick: float = 0.01) -> tuple[list[Event], float]:
    """All that a player says, and the seconds that it took, in ticks."""
    player, seconds = TracePlayer(entries, speed), 0.0
    player.load(Setup())
    while not player.ended:
        if player.asked is not None:
            player.generate(NOBODY)
        player.advance(tick)
        seconds += tick
    return list(player.events), seconds


def without_asked(entries: tuple[Event, ...]) -> list[Event]:
    return [entry for entry in entries if not isinstance(entry, Asked)]


def test_everything_is_said_again_in_order():
    assert played(chat())[0] == without_asked(chat())


@pytest.mark.parametrize("speed", [0.5, 1.0, 8.0])
def test_it_takes_the_recorded_time_at_the_asked_speed(speed: float):
    rounds = sum(each.seconds for reply in replies(chat()) for each in reply.rounds)
    reading = sum(event.seconds for event in chat() if isinstance(event, Prompt))
    _, seconds = played(chat(), speed, tick=0.0005)
    assert seconds == pytest.approx((rounds + reading) / speed, abs=0.02)


def test_a_prompt_waits_until_it_is_sent():
    player = TracePlayer(chat(), FASTEST)
    player.load(Setup())
    player.advance(1e6)
    assert player.asked == next(event for event in chat() if isinstance(event, Asked))
    said = len(player.events)
    player.advance(1e6)
    assert len(player.events) == said
    player.generate(NOBODY)
    player.advance(1e6)
    assert isinstance(player.events[-1], Finished)


def test_it_can_be_paused_and_stepped_through_round_by_round():
    player = TracePlayer(chat())
    player.load(Setup())
    player.advance(1.0)
    player.generate(NOBODY)
    player.stop()
    player.events.clear()
    player.advance(1e6)
    assert not player.events
    for count in (1, 2, 3):
        player.step()
        assert sum(isinstance(event, RoundDone) for event in player.events) == count
    assert player.knobs == next(event.round.knobs for event in chat() if isinstance(event, RoundDone))


def test_the_speed_has_bounds():
    player = TracePlayer(chat())
    for _ in range(40):
        player.faster(2)
    assert player.speed == FASTEST


def test_a_reply_without_its_end_ends_in_a_sentence():
    at = next(n for n, event in enumerate(chat()) if isinstance(event, Finished))
    events, _ = played(chat()[:at])
    assert events[-1] == Failed(ENDED)


def test_a_trace_that_names_no_models_is_played_too():
    at = next(n for n, event in enumerate(chat()) if isinstance(event, Asked))
    events, _ = played(chat()[at:])
    assert isinstance(events[0], Loaded) and events[1:] == without_asked(chat()[at:])


def test_the_set_up_is_the_first_that_was_loaded_with_the_system_prompt():
    setup = first_setup(chat())
    assert (setup.model, setup.system) == (LOADED.setup.model, "be brief")
    assert first_setup([]).model == "recorded"
