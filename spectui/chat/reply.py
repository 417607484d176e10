"""A reply's figures, and the reply in progress."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from spectui.chat.figures.speed_history import SpeedHistory
from spectui.engine.events import Finished, Prompt
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics
from spectui.store.journal import Journal

if TYPE_CHECKING:
    from spectui.chat.messages import ChatMessage

LATEST = 256
"""Latest rounds of a reply that stay unpacked for figures and plots."""

LIVE_SECONDS = 3.0
"""Seconds of decoding over which the live speed is averaged."""


@dataclass(slots=True, eq=False)
class ReplyFigures:
    """Running figures of one reply. `origins` and `sources` count its tokens, as `Figures` does."""

    statistics: Statistics = field(default_factory=Statistics)
    origins: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    history: SpeedHistory = field(default_factory=SpeedHistory)

    def add(self, round: Round) -> None:
        """Count one more round."""
        self.statistics.add(round)
        self.history.add(round)
        self.origins.update(token.origin for token in round.tokens)
        self.sources.update(token.source for token in round.tokens if token.source)


@dataclass(slots=True, eq=False)
class ChatFigures:
    """Running figures of all replies of a conversation."""

    statistics: Statistics = field(default_factory=Statistics)
    history: SpeedHistory = field(default_factory=lambda: SpeedHistory(1.0))

    def add(self, round: Round) -> None:
        """Count one more round."""
        self.statistics.add(round)
        self.history.add(round)


@dataclass(slots=True, eq=False)
class LastReply:
    """The reply in progress, or the last one: its figures, latest rounds and prompt."""

    figures: ReplyFigures = field(default_factory=ReplyFigures)
    rounds: deque[Round] = field(default_factory=lambda: deque(maxlen=LATEST))
    prompt: Prompt | None = None
    first_token_s: float | None = None
    draft_failed: bool = False

    @classmethod
    def of(cls, message: ChatMessage) -> LastReply:
        """The record of a finished reply."""
        latest = message.rounds.between(max(0, len(message.rounds) - LATEST), len(message.rounds))
        return cls(message.figures, deque(latest, LATEST), first_token_s=message.first_token_s)

    def add(self, round: Round) -> None:
        """Count one more round."""
        self.figures.add(round)
        self.rounds.append(round)
        if self.first_token_s is None and self.prompt is not None:
            self.first_token_s = self.prompt.seconds + round.seconds  # until `Finished` brings the measured one

    def live_speed(self) -> float | None:
        """Tokens per second over the last `LIVE_SECONDS` of decoding."""
        return Statistics.of(self._live_rounds()).tokens_per_s

    def _live_rounds(self) -> Iterator[Round]:
        seconds = 0.0
        for round in reversed(self.rounds):
            yield round
            seconds += round.seconds
            if seconds >= LIVE_SECONDS:
                return


class ReplyWriter:
    """Writes one reply: passes the engine's rounds to the journal, which appends them to the message's rounds.

    If the message has rounds already, the new ones continue their numbers. Only this class renumbers rounds.
    """

    def __init__(self, message: ChatMessage, journal: Journal) -> None:
        """Create it after the journal's `begin_reply` or `continue_reply`."""
        self.message = message
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

    def end(self, stop: str, finished: Finished | None = None) -> bool:
        """End the reply for this reason. Returns False if it has no text: then it is not a message."""
        self.message.content += finished.text if finished is not None else self._text.decode()
        self.message.stop = stop
        kept = bool(self.message.content)
        self._journal.end_reply(stop, finished, kept=kept)
        return kept


def renumbered(round: Round, before: int) -> Round:
    """A round of a continuation, numbered after the `before` rounds that the reply had."""
    tokens = tuple(token._replace(round=token.round + before) for token in round.tokens)
    return replace(round, index=round.index + before, tokens=tokens)
