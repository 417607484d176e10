"""Writes a reply in progress: into its message, and into the journal."""

from __future__ import annotations

from dataclasses import replace

from spectui.chat.messages import ChatMessage
from spectui.engine.events import Failed, Finished, RoundDone
from spectui.speculation.records import Round
from spectui.store.journal import Journal
from spectui.store.records import FAILED


class ReplyWriter:
    """Writes one reply, as the engine tells it: text and rounds, and to the disk.

    If the message has rounds already, the new ones continue their numbers. Only this class renumbers rounds.
    """

    def __init__(self, message: ChatMessage, journal: Journal) -> None:
        """Create it after the journal's `begin_reply` or `continue_reply`."""
        self.message = message
        if journal.rounds is not None:
            message.rounds = journal.rounds  # one list for both
        self._journal = journal
        self._before = message.rounds[-1].index + 1 if message.rounds else 0

    def hear(self, event: RoundDone | Finished | Failed) -> None:
        """Write what the engine says, in its thread, before the window takes it: that may be long after."""
        if isinstance(event, RoundDone):
            round = self.numbered(event.round)
            self.message.write(round)
            self._journal.add_round(round)
        elif isinstance(event, Finished):
            self._journal.note_end(event.reason.value, event)
        else:
            self._journal.note_end(FAILED)

    def numbered(self, round: Round) -> Round:
        """The engine's round with its number within the whole reply."""
        if not self._before:
            return round
        tokens = tuple(token._replace(round=token.round + self._before) for token in round.tokens)
        return replace(round, index=round.index + self._before, tokens=tokens)

    def begin_thinking(self) -> None:
        """The prompt has opened the model's thinking."""
        self.message.thinking = True
        self._journal.begin_thinking()

    def end(self, stop: str, finished: Finished | None = None) -> bool:
        """End the reply for this reason. Returns False if it has no text: then it is not a message."""
        self.message.stop = stop
        has_text = bool(self.message.content)
        self._journal.end_reply(stop, finished, has_text=has_text)
        return has_text
