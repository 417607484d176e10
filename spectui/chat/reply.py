"""Writes a reply in progress: into its message, and into the journal."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from spectui.chat.messages import ChatMessage
from spectui.engine.events import Finished
from spectui.speculation.records import Round
from spectui.store.journal import Journal


class ReplyWriter:
    """Writes one reply: passes the engine's rounds to the journal, which appends them to the message's rounds.

    If the message has rounds already, the new ones continue their numbers. Only this class renumbers rounds.
    """

    def __init__(self, message: ChatMessage, journal: Journal, instead_of: ChatMessage | None = None) -> None:
        """Create it after the journal's `begin_reply` or `continue_reply`. `instead_of`: the last message before this reply
        was asked for in place of it or of the messages behind an earlier prompt."""
        self.message = message
        self.instead_of = instead_of
        if journal.rounds is not None:
            message.rounds = journal.rounds  # one list for both
        self.state: Literal["reading", "writing"] = "reading"
        self._journal = journal
        self._before = message.rounds[-1].index + 1 if message.rounds else 0
        self._text = bytearray()  # UTF-8 of what is written now: a string for each token takes ten times as much

    def add(self, round: Round) -> Round:
        """Append a round. Returns it numbered within the whole reply."""
        if self._before:
            round = renumbered(round, self._before)
        self.state = "writing"
        self._journal.add_round(round)
        self._text += "".join(token.text for token in round.tokens).encode()
        return round

    def so_far(self) -> ChatMessage:
        """A copy of the message with the text that is written so far."""
        return replace(self.message, content=self.message.content + self._text.decode())

    def begin_thinking(self) -> None:
        """The prompt has opened the model's thinking."""
        self.message.thinking = True
        self._journal.begin_thinking()

    def end(self, stop: str, finished: Finished | None = None) -> bool:
        """End the reply for this reason. Returns False if it has no text: then it is not a message."""
        self.message.content += finished.text if finished is not None else self._text.decode()
        self.message.stop = stop
        has_text = bool(self.message.content)
        self._journal.end_reply(stop, finished, has_text=has_text)
        return has_text


def renumbered(round: Round, before: int) -> Round:
    """A round of a continuation, numbered after the `before` rounds that the reply had."""
    tokens = tuple(token._replace(round=token.round + before) for token in round.tokens)
    return replace(round, index=round.index + before, tokens=tokens)
