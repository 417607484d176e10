"""Decode a reply again without drafts, compare the texts, and explain the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.engine.events import FREE, Finished, Message, RoundDone, Terms
from spectui.engine.exactness.near_tie import far_sentence, is_near_tie, kernels_sentence, rounding
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.speculation.records import Round, StopReason
from spectui.speculation.statistics import SpeedUp, speed_up

STOPPED = "The comparison with plain decoding was stopped."


@dataclass(frozen=True)
class Verification:
    """`same`: the texts are equal, token by token. `sentences`: the result, in words."""

    same: bool
    measured: SpeedUp | None
    sentences: tuple[str, ...]

    @property
    def speed_up(self) -> float | None:
        """How many times as fast as plain decoding the reply was."""
        return self.measured.ratio if self.measured is not None else None


def verify(
    session: Session, messages: Sequence[Message], finished: Finished, rounds: Sequence[Round], terms: Terms = FREE
) -> Verification:
    """Decode the same prompt and seed plainly, and compare. Raises SpectuiError as `Session.generate` does, and if stopped."""
    plain, plain_rounds = _plain(session, messages, terms, finished)
    if plain.reason is StopReason.CANCELLED:
        raise SpectuiError(STOPPED)
    ours, theirs = ([token for round in decoded for token in round.tokens] for decoded in (rounds, plain_rounds))
    measured = speed_up(finished.statistics, plain.statistics)
    pairs = enumerate(zip(ours, theirs, strict=False))
    first = next((n for n, (one, other) in pairs if one.id != other.id), None)
    if first is None and len(ours) == len(theirs):
        return Verification(True, measured, (f"The text is plain decoding's, over {len(ours)} tokens.",))
    if first is None:
        ended = min(len(ours), len(theirs))
        return Verification(False, measured, (f"One text ends after {ended} tokens, the other goes on.",))
    one, other, knobs = ours[first], theirs[first], rounds[ours[first].round].knobs
    differs = f"The texts differ from token {first + 1} on: {one.text!r} with drafts, {other.text!r} without."
    moved, p = rounding(rounds, plain_rounds, first + 1), (one.p_target or 0.0, other.p_target or 0.0)
    near = is_near_tie(one, other, knobs, moved)
    why = kernels_sentence(*p, knobs, session.strict) if near else far_sentence(*p, knobs, moved)
    return Verification(False, measured, (differs, f"{why[0].upper()}{why[1:]}."))


def _plain(session: Session, messages: Sequence[Message], terms: Terms, finished: Finished) -> tuple[Finished, list[Round]]:
    before = session.knobs
    session.knobs = replace(finished.knobs, drafter="off")
    rounds: list[Round] = []
    try:
        with session.listening(lambda event: rounds.append(event.round) if isinstance(event, RoundDone) else None):
            return session.generate(messages, terms), rounds
    finally:
        session.knobs = before
