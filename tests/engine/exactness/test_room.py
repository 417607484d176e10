"""What happens where a conversation has more tokens than the context holds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from spectui.engine.events import Event, Message
from spectui.engine.room import NoRoomError, no_room, to_drop
from spectui.engine.session import Session
from spectui.knobs import Knobs
from spectui.speculation.records import StopReason
from tests.helpers.smollm2 import ask, opened, setup

Opened = tuple[Session, list[Event]]
KNOBS = Knobs(temperature=0.7, seed=3)
ROLES = {"s": "system", "u": "user", "a": "assistant"}


def talk(*parts: str) -> list[Message]:
    """Messages such as "u10": of the user, 10 tokens."""
    return [Message(ROLES[part[0]], part[1:]) for part in parts]


def count(messages: Sequence[Message]) -> int:
    return sum(int(message.content) for message in messages)


@pytest.mark.parametrize(
    ("messages", "dropped"),
    [
        (talk("u10", "a10", "u10", "a10", "u70"), 4),  # all but the last turn, which is more than half
        (talk("s10", "u10", "a30", "u10", "a10", "u10", "a10"), 2),  # the system prompt stays, and counts
        (talk("u10", "a30", "u10", "a20", "u10", "a40"), 4),
        (talk("u10", "a90"), 0),  # there is no older turn
        (talk("u10", "a10", "u101"), 0),  # it would not help
        (talk("s50", "u10", "a10", "u51"), 0),
        (talk("u10", "a10", "u100"), 2),  # its one token of a reply is room
        (talk("u10", "a10", "u10", "u10", "a80"), 3),  # prompts of a damaged conversation, one after the other
    ],
)
def test_whole_turns_go_until_half_is_free_and_the_last_one_stays(messages: list[Message], dropped: int):
    assert to_drop(messages, 100, count) == dropped


@pytest.mark.parametrize(
    ("messages", "to_drop", "shorter"),
    [
        (talk("u200"), 0, "the prompt"),
        (talk("s200", "u10"), 0, "the prompt or the system prompt"),
        (talk("s200", "u10", "a10", "u10"), 0, "the prompt or the system prompt"),
        (talk("s10", "u10", "a200", "u10"), 2, "the prompt"),
    ],
)
def test_a_prompt_without_room_says_what_to_shorten(messages: list[Message], to_drop: int, shorter: str):
    assert f"holds 100: shorten {shorter}, or set a larger context" in str(no_room(messages, 220, 100, to_drop))


def test_few_conversations_are_counted_in_a_long_one():
    counted: list[int] = []

    def noted(messages: Sequence[Message]) -> int:
        counted.append(len(messages))
        return count(messages)

    assert to_drop(talk(*["u1", "a1"] * 1000, "u1"), 100, noted) == 1952
    assert len(counted) < 13


@pytest.fixture(scope="module")
def pair() -> Iterator[Opened]:
    session, events = opened(replace(setup(), ctx_size=96))
    yield session, events
    session.close()


def test_a_prompt_without_room_says_how_many_messages_must_go(pair: Opened):
    before = ["Name three colours.", "Red, green and blue are three colours that I like."] * 4
    with pytest.raises(NoRoomError) as raised:
        ask(pair[0], KNOBS, *before, "And which of these is the best one of all?")
    assert raised.value.to_drop == 8
    assert ask(pair[0], KNOBS, "And which of these is the best one of all?").text


BEFORE = ["Name three colours.", "Red, green and blue.", "Tell me a very long story about a dragon."]


@pytest.fixture(scope="module")
def plain(pair: Opened) -> tuple[str, str]:
    """What plain decoding writes, and how it goes on when the first turn is dropped."""
    knobs = replace(KNOBS, drafter="off")
    text = ask(pair[0], knobs, *BEFORE).text
    return text, ask(pair[0], knobs, BEFORE[2], text).text


@pytest.mark.parametrize("drafter", ["model", "suffix", "auto"])
def test_a_full_context_ends_a_reply_at_the_same_token_and_it_goes_on_alike(pair: Opened, plain: tuple[str, str], drafter: str):
    """The text depends on the target, the seed, the settings and the conversation, not on who drafts."""
    session = pair[0]
    knobs = replace(KNOBS, drafter=drafter, policy="fixed", p_min=0.0)
    finished = ask(session, knobs, *BEFORE)
    assert (finished.reason, finished.to_drop) == (StopReason.CONTEXT, 2)
    assert finished.prompt_tokens + finished.statistics.emitted == 97
    ended = ask(session, knobs, *BEFORE, finished.text)
    assert (ended.reason, ended.to_drop) == (StopReason.CONTEXT, 2), "it is full still"
    rest = ask(session, knobs, BEFORE[2], finished.text)
    assert rest.reason is StopReason.CONTEXT and rest.to_drop == 0 and rest.statistics.emitted > 5
    assert (finished.text, rest.text) == plain
