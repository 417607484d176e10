"""Figures over rounds. An unknown ratio is None, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, Self

from spectui.speculation.records import Parts, Round, parts


def ratio(part: float, whole: float) -> float | None:
    """part / whole, or None where the whole is 0."""
    return part / whole if whole else None


@dataclass
class Statistics:
    """Running sums over rounds, of a reply or of a conversation. `add` is O(draft) per round."""

    emitted: int = 0
    rounds: int = 0
    accepted: int = 0
    rejected: int = 0
    ignored: int = 0
    draft_s: float = 0.0
    verify_s: float = 0.0
    choose_s: float = 0.0
    decode_s: float = 0.0
    untimed: int = 0
    """Tokens whose time is a part of the prompt's: the first one of a server's reply."""
    reached: list[int] = field(default_factory=list)
    """Per position in the draft: rounds in which the target came to judge it."""
    kept: list[int] = field(default_factory=list)
    """Per position in the draft: rounds in which it was accepted."""
    guesses: int = 0
    """Rounds for which the draft model had drafted ahead, from its own guess of the target's token."""
    right_guesses: int = 0
    saved_s: float = 0.0
    """Seconds of drafting that this saved."""

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> Self:
        """The figures of these rounds."""
        statistics = cls()
        for round in rounds:
            statistics.add(round)
        return statistics

    def add(self, round: Round) -> None:
        """Count one more round."""
        self.rounds += 1
        self.emitted += len(round.tokens)
        self.draft_s += round.draft_s
        self.verify_s += round.verify_s
        self.choose_s += round.choose_s
        self.decode_s += round.seconds
        self.untimed += 0 if round.pass_size else len(round.tokens)
        self.guesses += round.guessed is not None
        self.right_guesses += round.guessed is True
        self.saved_s += round.saved_s
        for index, token in enumerate(round.drafted):
            if token.fate == "ignored":
                self.ignored += 1
                continue
            while len(self.reached) <= index:
                self.reached.append(0)
                self.kept.append(0)
            # A token behind the first rejection is rejected too, but the target never came to judge it.
            if index == 0 or round.drafted[index - 1].fate == "accepted":
                self.reached[index] += 1
            if token.fate == "accepted":
                self.accepted += 1
                self.kept[index] += 1
            else:
                self.rejected += 1

    @property
    def parts(self) -> Parts:
        """What the seconds of all rounds went into."""
        return parts(self.draft_s, self.verify_s, self.choose_s, self.decode_s)

    @property
    def drafted(self) -> int:
        """accepted + rejected + ignored."""
        return self.accepted + self.rejected + self.ignored

    @property
    def acceptance(self) -> float | None:
        """accepted / (accepted + rejected)."""
        return ratio(self.accepted, self.accepted + self.rejected)

    @property
    def guessed(self) -> float | None:
        """Share of the guesses of the target's token that were right."""
        return ratio(self.right_guesses, self.guesses)

    @property
    def tokens_per_pass(self) -> float | None:
        """Tokens emitted per target pass (tau)."""
        return ratio(self.emitted, self.rounds)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of decoding; the prompt's time is not in it."""
        return ratio(self.emitted - self.untimed, self.decode_s)

    @property
    def per_position(self) -> list[float | None]:
        """Acceptance per position in the draft, among the rounds that reached it."""
        return [ratio(kept, reached) for kept, reached in zip(self.kept, self.reached, strict=True)]


_NOISE, _NOISE_S = 0.1, 0.1
"""A single pair of replies tells nothing of a difference of less than a tenth, or of a tenth of a second in the shorter one."""


class SpeedUp(NamedTuple):
    """How many times as fast as another decoding of the same prompt a reply was, and the bounds of that."""

    ratio: float
    low: float
    high: float

    @property
    def told(self) -> bool:
        """It is known which of the two is faster."""
        return self.low > 1 or self.high < 1

    @property
    def within(self) -> str:
        """The per cent within which both are as fast."""
        return f"{100 * (self.high / self.ratio - 1):.0f}"

    def __str__(self) -> str:
        """ "2.00x as fast (1.6 to 2.6)", or "cannot be told (within 35 %)" of each other."""
        if self.told:
            ratio, low, high = (
                f"{value:.{0 if value >= 10 else places}f}" for value, places in zip(self, (2, 1, 1), strict=True)
            )
            return f"{ratio}x as fast ({low} to {high})"
        return f"cannot be told (within {self.within} %)"


def speed_up(reply: Statistics, other: Statistics) -> SpeedUp | None:
    """What a single pair of decodings tells; None while one of them has no speed."""
    one, two = reply.tokens_per_s, other.tokens_per_s
    if not one or not two:
        return None
    reach = 1 + _NOISE + _NOISE_S / min(reply.decode_s, other.decode_s)
    return SpeedUp(one / two, one / two / reach, one / two * reach)


def total(parts: Iterable[Statistics]) -> Statistics:
    """The sums of these figures."""
    whole = Statistics()
    for part in parts:
        for name, value in vars(part).items():
            own = getattr(whole, name)
            both = [a + b for a, b in zip_longest(own, value, fillvalue=0)] if isinstance(value, list) else own + value
            setattr(whole, name, both)
    return whole
