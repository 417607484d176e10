"""The oldest turns of a conversation, which its prompts leave out once the context was full.

They stay in the conversation: they are shown, exported and saved. Each reply says how many messages are left out behind it, so
an earlier reply that a person goes back to has what was read then, and so has each branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from spectui.chat.messages import ChatMessage
from spectui.chat.sentences import NOTHING_DROPPED, ROOM_LEFT
from spectui.engine.events import Event, Failed, Finished, Message
from spectui.speculation.records import StopReason

if TYPE_CHECKING:
    from spectui.chat.session import ChatSession


class Dropped(NamedTuple):
    """The oldest `turns` turns, all that were dropped so far, are no part of the prompt from here on."""

    turns: int


def dropped(messages: Sequence[ChatMessage]) -> int:
    """How many of these messages, from the first on, the next prompt leaves out."""
    return next((each.dropped for each in reversed(messages) if each.role == "assistant"), 0)


def prompt_messages(system: str, messages: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """The messages of the next prompt: the system prompt if there is one, and of these messages those that are not dropped."""
    before = (Message("system", system),) if system.strip() else ()
    return (*before, *map(_joined, in_turns(messages[dropped(messages) :])))


def in_turns(messages: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """The messages as the model gets them: chat templates want turns, so a prompt without an answer goes with the next one."""
    groups: list[list[ChatMessage]] = []
    for message in messages:
        if groups and message.role == groups[-1][-1].role == "user":
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _joined(messages: Sequence[ChatMessage]) -> Message:
    if len(messages) == 1:
        return messages[0].for_engine()
    return Message(messages[0].role, "\n\n".join(message.content for message in messages))


class OldestTurns:
    """Drops the oldest turns of a session's conversation, and brings them back."""

    def __init__(self, session: ChatSession) -> None:
        self._session = session
        self._asked = False  # a person has asked for it, for the next reply alone
        self._drops = False

    @property
    def _line(self) -> list[ChatMessage]:
        """The messages up to the reply in progress, or to the last one."""
        writing = self._session.writing
        return writing.line if writing is not None else self._session.conversation.path

    @property
    def dropped(self) -> int:
        """How many messages, from the first on, are no part of the prompt."""
        return dropped(self._line)

    @property
    def turns(self) -> int:
        """How many turns are no part of the prompt."""
        return sum(each.role == "user" for each in self._line[: self.dropped])

    @property
    def no_dropping(self) -> str:
        """Why nothing can be dropped just now; "" if the last reply ended, or was not begun, because of the context."""
        session, last = self._session, self._session.last_reply
        if session.busy_reason:
            return session.busy_reason
        full = session.conversation.unanswered is not None or (
            session.can_continue and last is not None and last.stop == StopReason.CONTEXT.value
        )
        return "" if full else ROOM_LEFT

    @property
    def no_bringing_back(self) -> str:
        """Why nothing can be brought back just now; "" if something can."""
        return self._session.no_change or ("" if self.dropped else NOTHING_DROPPED)

    def drop_for_next(self) -> None:
        """Let the next reply, continued or asked for again, drop the oldest turns if the context is full."""
        self._asked = True

    def bring_back(self) -> None:
        """Make all turns a part of the next prompt again. Call it only if `no_bringing_back` is ""."""
        self.leave_out(0)

    def begin_reply(self) -> None:
        """A reply is asked for."""
        self._drops, self._asked = self._asked, False

    def to_drop(self, event: Event) -> int:
        """How many messages to drop because of this event: 0 if the context is not full, or a reply shall end there."""
        if not isinstance(event, Finished | Failed) or not event.to_drop or self._session.writing is None:
            return 0
        wanted = self._drops or self._session.knobs.context_full == "drop-oldest"
        return event.to_drop if wanted else 0

    def drop(self, number: int) -> Dropped:
        """Drop `number` messages of the prompt, and go on: with the reply that the context has ended, or with its prompt."""
        session = self._session
        self.leave_out(self.dropped + sum(map(len, in_turns(self._line[self.dropped :])[:number])))
        if session.writing is None:
            session.continue_reply(otherwise=True)
        else:
            session.ask(session.writing)
        return Dropped(self.turns)

    def leave_out(self, number: int) -> None:
        """Make the first `number` messages no part of the next prompt: behind the last reply, and the one in progress."""
        session = self._session
        replies = [each for each in self._line if each.role == "assistant"]
        if session.writing is not None:
            session.writing.dropped = number
            replies.pop()
        for reply in replies[-1:]:
            reply.dropped = number
        session.journal.set_dropped(replies[-1].id if replies else 0, number)
