"""The messages of a conversation: each reply with its rounds and figures."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from spectui.chat.figures.counts import RoundCounts
from spectui.chat.sentences import short_name, stop_note
from spectui.chat.text.attachments import images_in
from spectui.engine.events import Message
from spectui.speculation.records import Round, StopReason
from spectui.store.records import OpenMessage, StoredConversation
from spectui.thinking import Piece, divided, parsed, thought_and_answer


@dataclass(slots=True, eq=False)
class ChatMessage(OpenMessage):
    """One message of the conversation, with its figures; a prompt's are empty.

    The chat template writes into a prompt when it was `created`. `chat` tells apart the conversations that are in memory alone.
    """

    figures: RoundCounts = field(default_factory=RoundCounts)
    chat: int = 0
    _ids: array[int] = field(default_factory=lambda: array("i"))
    """The tokens that the rounds wrote."""
    _noted: list[tuple[bool, int]] = field(default_factory=list)
    """For each stretch of the text: whether it is thinking, and its characters, as far as the rounds tell it."""

    def add(self, round: Round) -> None:
        """The reply has grown by a round."""
        OpenMessage.add(self, round)
        self.note(round)

    def note(self, round: Round) -> None:
        """Note the tokens of the round, the next of the text, and what of it is thinking."""
        self._ids.extend(token.id for token in round.tokens)
        for token in round.tokens:
            if token.thought is not None and token.text:
                # Another thread asks meanwhile what the last stretch is.
                if not self._noted or self._noted[-1][0] is not token.thought:
                    self._noted.append((token.thought, 0))
                self._noted[-1] = token.thought, self._noted[-1][1] + len(token.text)

    @property
    def parts(self) -> list[Piece]:
        """What it thinks and what it answers, in order, without marks."""
        text = self.content
        ends = [*accumulate(length for _, length in self._noted)]
        if not ends or ends[-1] != len(text):  # its rounds are lost
            return divided(parsed(text))
        starts = [0, *ends]
        return divided((thought, text[start:end]) for (thought, _), start, end in zip(self._noted, starts, ends, strict=False))

    @property
    def line(self) -> list[ChatMessage]:
        """The messages from the conversation's first one to this."""
        line: list[ChatMessage] = []
        at: ChatMessage | None = self
        while at is not None:
            line.append(at)
            at = at.parent
        return line[::-1]

    def for_engine(self) -> Message:
        """The message as the engine takes it."""
        if self.role != "assistant":
            text, images = images_in(self.content)
            return Message(self.role, text, images=images)
        thought, answer = thought_and_answer(self.parts)
        return Message(self.role, answer, tuple(self._ids), thought)

    def begun(self, *, same_model: bool) -> Message:
        """The reply, to be continued: with the tokens that the target wrote, if they are its whole text. Reads all rounds."""
        written = [token for round in self.rounds for token in round.tokens]
        whole = same_model and not self.reply.mixed and "".join(token.text for token in written) == self.content
        return Message(self.role, self.content, tuple(token.id for token in written) if whole else ())

    @property
    def complete(self) -> bool:
        """Whether the model or a stop text ended it: then it cannot be continued."""
        return self.reply.stop in (StopReason.EOS.value, StopReason.STOP.value)

    @property
    def model(self) -> str:
        """The name of the model that wrote it; "" if that is unknown."""
        return short_name(self.reply.setup.model)

    def stop_note(self, *, to_drop: bool) -> str:
        """The line below a finished reply that says why it ended; "" where nothing needs to be said. `to_drop`: turns are
        before its own."""
        if not self.rounds:
            return ""
        return stop_note(self.reply.stop, self.reply.setup.ctx_size or None, to_drop=to_drop, larger="")


def thinks(reply: ChatMessage | None) -> bool:
    """Whether the text of a reply ends within thinking, as far as the rounds tell it."""
    return reply is not None and bool(reply._noted) and reply._noted[-1][0]


ReadMessage = Callable[[ChatMessage, Iterator[Round], float], object]
"""Is given each message of a conversation's path while it is read, its rounds, which are unpacked one by one, and the share of
the messages before it."""


class OpenedConversation(NamedTuple):
    """A conversation that was read from the disk, ready for `ChatSession.resume`. `figures` are of all its replies.

    The last of its `messages` may be a prompt without an answer. `others` are those of the other branches.
    """

    conversation: StoredConversation
    messages: tuple[ChatMessage, ...]
    others: tuple[ChatMessage, ...]
    figures: RoundCounts

    @classmethod
    def of(cls, conversation: StoredConversation, show: ReadMessage = lambda *message: None) -> OpenedConversation:
        """Count the figures of all replies, and `show` each message of the path. That unpacks every round, once: the window
        calls it in a worker thread.
        """
        path, messages, figures = len(conversation.messages), dict[int, ChatMessage](), RoundCounts.of_conversation()

        def counted(message: ChatMessage) -> Iterator[Round]:
            for round in message.rounds:
                message.figures.add(round)
                figures.add(round)
                message.note(round)
                yield round

        for number, stored in enumerate((*conversation.messages, *conversation.others)):
            messages[stored.id] = message = ChatMessage.of(stored, messages.get(stored.parent or 0))
            rounds = counted(message)
            if number < path:
                show(message, rounds, number / path)
            deque(rounds, maxlen=0)
        read = tuple(messages.values())
        return cls(conversation, read[:path], read[path:], figures)
