"""Decodes a reply again without drafts, with the same prompt and seed: measures the speed-up and compares the texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property
from itertools import chain
from os.path import normpath
from typing import NamedTuple

from spectui.engine.events import Event, Failed, Finished, Prompt, RoundDone
from spectui.knobs import Knobs, Setup, spec_of, title
from spectui.paths import absolute
from spectui.speculation.records import Round, StopReason, Token
from spectui.speculation.statistics import SpeedUp, Statistics, speed_up
from spectui.store.rounds.packed import PackedRounds


class Difference(NamedTuple):
    """The first differing token: its number from 1, and both tokens; None if that text had ended."""

    number: int
    first: Token | None
    second: Token | None


class OfComparison(NamedTuple):
    """An event of the comparison, which is shown beside the conversation."""

    event: Event


class Comparison:
    """Compares a reply with its second decoding, whose events it takes."""

    def __init__(self, first: Sequence[Round], with_drafts: Statistics, *, strict: bool = False) -> None:
        """`first`: the rounds of the reply, at least one, and their figures. `strict`: the plain decoding is under --strict."""
        self._strict = strict
        self.first = first
        """The rounds of the reply."""
        self._tokens = (token for round in first for token in round.tokens)  # those that were not compared yet
        self.knobs = replace(first[-1].knobs, drafter="off", predict=with_drafts.emitted)
        """The reply's knobs, without a drafter and with `predict` set to its number of tokens."""
        self.with_drafts = with_drafts
        self.plain = Statistics()
        self.rounds = PackedRounds()
        """The rounds of the second decoding so far."""
        self.running = True
        self.problem = ""
        """Why it ended early."""
        self.difference: Difference | None = None
        """The first difference; None if none was found so far."""
        self._rounding: float | None = None  # by how many logits the two decodings differ before it

    @cached_property
    def turned(self) -> list[str]:
        """The sampling knobs that were turned in the middle of the reply: then the texts may differ. Reads all rounds."""
        turns = {round.knobs for round in self.first}
        return [
            title(field.name)
            for field in fields(Knobs)
            if spec_of(Knobs, field.name).section == "sampling" and field.name != "predict"
            and len({getattr(knobs, field.name) for knobs in turns}) > 1
        ]  # fmt: skip

    @property
    def measured(self) -> SpeedUp | None:
        """How many times faster the reply was than the plain decoding so far."""
        return speed_up(self.with_drafts, self.plain)

    @property
    def identical(self) -> bool | None:
        """Whether both texts are equal, token by token; None while that is unknown."""
        if self.difference is not None:
            return False
        return True if not self.running and not self.problem else None

    @property
    def explanation(self) -> str:
        """Why the first two differing tokens differ, as half a sentence; "" if there is nothing to explain."""
        # Brings numpy, which the chat on a server does without.
        from spectui.engine.near_tie import why

        if self.difference is None:
            return ""
        _, one, other = self.difference
        if one is None or other is None or None in (one.p_target, other.p_target) or self.turned:
            return ""
        return why(one, other, self.knobs, self._rounding, self._strict)

    def take(self, event: Event) -> bool:
        """Take an event of the second decoding. False: the event is about something else."""
        if not self.running or not isinstance(event, Prompt | RoundDone | Finished | Failed):
            return False
        if isinstance(event, RoundDone):
            self._compare(event.round)
            self.plain.add(event.round)
            self.rounds.append(event.round)
        elif isinstance(event, Finished):
            self.running = False
            if event.reason is StopReason.CANCELLED:
                self.problem = "stopped"
            elif self.difference is None and (token := next(self._tokens, None)) is not None:
                self.difference = Difference(self.plain.emitted + 1, token, None)
        elif isinstance(event, Failed):
            self.running = False
            self.problem = event.message
        return True

    def _compare(self, round: Round) -> None:
        for number, token in enumerate(round.tokens if self.difference is None else (), self.plain.emitted + 1):
            first = next(self._tokens, None)
            if first is None or first.id != token.id:
                self.difference = Difference(number, first, token)
                from spectui.engine.near_tie import rounding

                self._rounding = rounding(self.first, chain(self.rounds, [round]), number)
                return


def decodes_alike(one: Setup, other: Setup) -> bool:
    """Whether plain decoding is the same under both: the same target, devices and system prompt."""
    return (
        one.model is not None
        and other.model is not None
        and normpath(absolute(one.model)) == normpath(absolute(other.model))
        and all(getattr(one, field.name) == getattr(other, field.name) for field in fields(Setup) if _counts(field.name))
    )


def _counts(key: str) -> bool:
    """Whether the setting can change a plain pass. Settings about drafts, batch sizes and text lengths cannot."""
    return "draft" not in key and key not in ("model", "ctx_size", "strict", "no_profile", "remember")
