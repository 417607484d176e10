"""Running counts of a reply's rounds, and of all replies of a conversation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics, ratio

STEPS = 160
"""Most steps. Beyond that, pairs of steps are merged, and a step is twice as long."""


class SpeedHistory:
    """Sums of rounds in steps of equal decoding time. A round longer than a step leaves gaps, which take the next value."""

    def __init__(self, step_s: float = 0.25) -> None:
        """`step_s` is the length of a step at first, in seconds."""
        self._step_s = step_s
        self.seconds = 0.0
        """Decoding time so far."""
        self._steps: list[list[float]] = []

    def add(self, round: Round) -> None:
        """One more round, at its end."""
        self.seconds += round.seconds
        step = int(self.seconds / self._step_s)
        while step >= STEPS:
            self._halve()
            step = int(self.seconds / self._step_s)
        while len(self._steps) <= step:
            self._steps.append([0.0, 0.0, 0.0, 0.0])
        accepted = round.count("accepted")
        for index, number in enumerate((len(round.tokens), round.seconds, accepted, accepted + round.count("rejected"))):
            self._steps[step][index] += number

    @property
    def speeds(self) -> list[float | None]:
        """Tokens per second in each step."""
        return self._ratios(0, 1)

    @property
    def acceptances(self) -> list[float | None]:
        """accepted / (accepted + rejected) in each step; None where nothing was judged."""
        return self._ratios(2, 3)

    def _ratios(self, part: int, whole: int) -> list[float | None]:
        """One of a step's sums over another. A step without a finished round takes the next step's value."""
        out: list[float | None] = []
        for step in reversed(self._steps):
            out.append(ratio(step[part], step[whole]) if any(step) or not out else out[-1])
        return out[::-1]

    def _halve(self) -> None:
        self._step_s *= 2
        pairs = [self._steps[at : at + 2] for at in range(0, len(self._steps), 2)]
        self._steps = [[sum(numbers) for numbers in zip(*pair, strict=True)] for pair in pairs]


@dataclass
class RoundCounts(Statistics):
    """Running figures of the rounds of a reply, or of all replies of a conversation.

    `origins` and `sources` count tokens: by who had them first, and accepted ones by who drafted them.
    """

    origins: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    history: SpeedHistory = field(default_factory=SpeedHistory, compare=False)

    @classmethod
    def of_conversation(cls) -> RoundCounts:
        """Those of all replies of a conversation: it is longer, and so are the steps of its history."""
        return cls(history=SpeedHistory(1.0))

    def add(self, round: Round) -> None:
        """Count one more round."""
        super().add(round)
        self.history.add(round)
        self.origins.update(token.origin for token in round.tokens)
        self.sources.update(token.source for token in round.tokens if token.source)
