"""The messages of a conversation: each reply with its rounds and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from spectui.chat.reply import ChatFigures, ReplyFigures
from spectui.engine.events import Message
from spectui.knobs import Setup
from spectui.store.records import Conversation
from spectui.store.rounds.packed import PackedRounds


@dataclass(slots=True, eq=False)
class ChatMessage:
    """One message of the conversation. Only replies have the fields after `content`.

    `rounds` is the one list of the rounds that made the reply: code that shows or exports them reads it and appends nothing.
    `setup` is the set-up that it was written under, None if there were several. `stop` says why it ended (a `StopReason`'s
    value, or `store.records.FAILED`), None while it is being written and if spectui died meanwhile.
    """

    role: str
    content: str
    rounds: PackedRounds = field(default_factory=PackedRounds)
    figures: ReplyFigures = field(default_factory=ReplyFigures)
    setup: Setup | None = None
    stop: str | None = None
    first_token_s: float | None = None

    def for_engine(self) -> Message:
        """The message as the engine takes it."""
        return Message(self.role, self.content)


class OpenedConversation(NamedTuple):
    """A conversation that was read from the disk, ready for `ChatSession.resume`. `figures` are of all its replies."""

    conversation: Conversation
    messages: tuple[ChatMessage, ...]
    figures: ChatFigures

    @classmethod
    def of(cls, conversation: Conversation) -> OpenedConversation:
        """Count the figures of all replies. That decodes every round: the window calls it in a worker thread."""
        messages, figures = [], ChatFigures()
        for each in conversation.messages:
            message = ChatMessage(each.role, each.text)
            if (reply := each.reply) is not None:
                message.rounds = reply.rounds
                message.setup = None if reply.mixed else reply.setup
                message.stop, message.first_token_s = reply.stop, reply.first_token_s
                for round in reply.rounds:
                    message.figures.add(round)
                    figures.add(round)
            messages.append(message)
        return cls(conversation, tuple(messages), figures)
