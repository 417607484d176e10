"""A conversation is played as it was written, at any speed, and no prompt goes anywhere."""

from dataclasses import replace

import pytest

from spectui.chat.player import BROKEN_OFF, FASTEST, NO_REPLY, ConversationPlayer
from spectui.engine.events import Event, Failed, Finished, Loaded, Message, Prompt, RoundDone
from spectui.knobs import Setup
from spectui.speculation.records import Round
from spectui.store.records import Reply, StoredConversation, StoredMessage
from spectui.store.rounds.packed import PackedRounds
from spectui.store.rounds.packing import pack
from tests.store.journal_helpers import SETUP, some_rounds, text_of

NOBODY = [Message("user", "whatever")]


def reply(rounds: list[Round], stop: str | None = "eos", setup: Setup = SETUP, text: str | None = None) -> StoredMessage:
    made = Reply(setup, stop, 7, 0.5, 0.6, PackedRounds.of_chunks([pack(rounds)] if rounds else []))
    return StoredMessage(0, None, "assistant", text_of(rounds) if text is None else text, 0.0, made)


def stored(*messages: str | StoredMessage) -> StoredConversation:
    """A conversation of prompts and replies."""
    said = (StoredMessage(0, None, "user", each, 0.0) if isinstance(each, str) else each for each in messages)
    return StoredConversation("1", "title", 0.0, 0.0, "be brief", "target", tuple(said))


def chat() -> StoredConversation:
    other = replace(SETUP, model="other.gguf")
    return stored("hello", reply(some_rounds(4)), "and now?", reply(some_rounds(2), "limit", other))


def played(player: ConversationPlayer, tick: float = 0.01) -> tuple[list[Event], float]:
    """All that a player says, and the seconds that it took, in ticks."""
    seconds = 0.0
    player.load(Setup())
    while not player.ended:
        if player.turn is not None:
            player.generate(NOBODY)
        player.advance(tick)
        seconds += tick
    return list(player.events), seconds


def test_rounds_prompts_ends_and_models_are_said_again_in_order() -> None:
    events, _ = played(ConversationPlayer(chat()))
    kinds = [type(event) for event in events]
    first, second = [Prompt, *[RoundDone] * 4, Finished], [Prompt, *[RoundDone] * 2, Finished]
    assert kinds == [Loaded, *first, Loaded, *second]
    rounds = [event.round for event in events if isinstance(event, RoundDone)]
    assert rounds == [*some_rounds(4), *some_rounds(2)]
    ends = [event for event in events if isinstance(event, Finished)]
    assert [(each.reason.value, each.text) for each in ends] == [("eos", text_of(rounds[:4])), ("limit", text_of(rounds[4:]))]
    models = [event.setup for event in events if isinstance(event, Loaded)]
    assert [(each.model, each.system) for each in models] == [(SETUP.model, "be brief"), ("other.gguf", "be brief")]


@pytest.mark.parametrize("speed", [0.5, 1.0, 8.0])
def test_it_takes_the_recorded_time_at_the_asked_speed(speed: float) -> None:
    _, seconds = played(ConversationPlayer(chat(), speed), tick=0.0005)
    recorded = 2 * 0.5 + sum(round.seconds for round in [*some_rounds(4), *some_rounds(2)])
    assert seconds == pytest.approx(recorded / speed, abs=0.02)


def test_a_prompt_waits_until_it_is_sent() -> None:
    player = ConversationPlayer(chat(), FASTEST)
    assert not player.ended, "it has not begun"
    player.load(Setup())
    player.advance(1e6)
    assert player.turn is not None and player.turn.prompt == "hello" and len(player.events) == 1
    player.generate(NOBODY)
    player.advance(1e6)
    assert player.turn is not None and player.turn.prompt == "and now?"


def test_it_can_be_paused_and_stepped_through_round_by_round() -> None:
    player = ConversationPlayer(chat())
    player.load(Setup())
    player.generate(NOBODY)
    player.stop()
    player.events.clear()
    player.advance(1e6)
    assert not player.events
    for count in (1, 2, 3):
        player.step()
        assert sum(isinstance(event, RoundDone) for event in player.events) == count
    assert player.knobs == some_rounds()[0].knobs
    for _ in range(40):
        player.faster(2)
    assert player.speed == FASTEST


@pytest.mark.parametrize("stop", [None, "failed"])
def test_a_reply_that_broke_off_ends_in_a_sentence(stop: str | None) -> None:
    events, _ = played(ConversationPlayer(stored("hello", reply(some_rounds(), stop), "again")))
    assert [event for event in events if isinstance(event, Failed)] == [Failed(BROKEN_OFF), Failed(NO_REPLY)]


def test_a_reply_whose_rounds_were_lost_is_one_round() -> None:
    events, _ = played(ConversationPlayer(stored("hello", reply([], text="Hi!")._replace(reply=None))))
    (round,) = (event.round for event in events if isinstance(event, RoundDone))
    assert [token.text for token in round.tokens] == ["Hi!"]
