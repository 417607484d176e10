"""The oldest turns of a conversation, which its prompts leave out once the context was full.

They stay in the conversation: they are shown, exported and saved. Each reply says how many messages are left out behind it, so
an earlier reply that a person goes back to has what was read then, and so has each branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from spectui.chat.history.conversation import Conversation
from spectui.chat.messages import ChatMessage
from spectui.engine.events import Event, Failed, Finished, Message
from spectui.knobs import Knobs
from spectui.store.journal import Journal


class Dropped(NamedTuple):
    """The oldest `turns` turns, all that were dropped so far, are no part of the prompt from here on."""

    turns: int


def dropped(messages: Sequence[ChatMessage]) -> int:
    """How many of these messages, from the first on, the next prompt leaves out."""
    return next((each.reply.dropped for each in reversed(messages) if each.role == "assistant"), 0)


def prompt_messages(system: str, messages: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """The messages of the next prompt: the system prompt if there is one, and of these messages those that are not dropped."""
    before = (Message("system", system),) if system.strip() else ()
    return (*before, *map(_joined, in_turns(messages[dropped(messages) :])))


def in_turns(messages: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """The messages as the model gets them: chat templates want turns, so a prompt without an answer goes with the next one."""
    return [list(group) for _, group in groupby(messages, key=attrgetter("role"))]


def _joined(messages: Sequence[ChatMessage]) -> Message:
    joined, *others = (message.for_engine() for message in messages)
    for message in others:
        joined = joined._replace(content=f"{joined.content}\n\n{message.content}", images=joined.images + message.images)
    return joined


class OldestTurns:
    """Knows which of a conversation's oldest turns the prompts leave out."""

    def __init__(self, conversation: Conversation, journal: Journal) -> None:
        self._conversation = conversation
        self._journal = journal
        self.wanted = False
        """A person has asked to drop turns, for one reply: the next one, or that in progress."""

    @property
    def _line(self) -> list[ChatMessage]:
        """The messages up to the reply in progress, or to the last one."""
        attempt = self._conversation.attempt
        return attempt[-1].line if attempt else self._conversation.path

    @property
    def dropped(self) -> int:
        """How many messages, from the first on, are no part of the prompt."""
        return dropped(self._line)

    @property
    def turns(self) -> int:
        """How many turns are no part of the prompt."""
        return sum(each.role == "user" for each in self._line[: self.dropped])

    def to_drop(self, event: Event, knobs: Knobs) -> int:
        """How many messages to drop because of this event: 0 if the context is not full, or a reply shall end there."""
        if not isinstance(event, Finished | Failed):
            return 0
        return event.to_drop if self.wanted or knobs.context_full == "drop-oldest" else 0

    def drop(self, number: int) -> Dropped:
        """Drop `number` messages of the prompt."""
        self.leave_out(self.dropped + sum(map(len, in_turns(self._line[self.dropped :])[:number])))
        return Dropped(self.turns)

    def leave_out(self, number: int) -> None:
        """Make the first `number` messages no part of the next prompt: behind the last reply, and the one in progress."""
        replies = [message for message in self._line if message.role == "assistant"]
        last = replies[-2:] if replies and replies[-1] is self._journal.writing else replies[-1:]
        self._journal.set_dropped(last, number)
