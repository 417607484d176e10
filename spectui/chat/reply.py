"""Writes a reply in progress: into its message, and into the journal."""

from __future__ import annotations

from spectui.chat.messages import ChatMessage
from spectui.engine.events import Finished
from spectui.speculation.records import Round
from spectui.store.journal import Journal
from spectui.store.pending import renumbered


class ReplyWriter:
    """Writes one reply: passes the engine's rounds to the journal, which appends them to the message's rounds.

    If the message has rounds already, the new ones continue their numbers. Only this class renumbers rounds.
    """

    def __init__(self, message: ChatMessage, journal: Journal) -> None:
        """Create it after the journal's `begin_reply` or `continue_reply`."""
        self.message = message
        if journal.rounds is not None:
            message.rounds = journal.rounds  # one list for both
        self._journal = journal
        self._before = message.rounds[-1].index + 1 if message.rounds else 0

    def add(self, round: Round) -> Round:
        """Append a round. Returns it numbered within the whole reply."""
        round = renumbered(round, self._before)
        self._journal.add_round(round)
        self.message.write(round)
        return round

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
