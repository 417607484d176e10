"""Running counts of a reply's rounds, and of all replies of a conversation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from spectui.chat.figures.speed_history import SpeedHistory
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics


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
