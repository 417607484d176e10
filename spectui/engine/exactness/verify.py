"""Decode a reply again without drafts, compare the texts, and explain the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectui.engine.events import Finished, Message, RoundDone
from spectui.engine.exactness.near_tie import is_near_tie, kernels_sentence, rounding
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.llama.model import Model
from spectui.speculation.choice import choose
from spectui.speculation.evaluator import Evaluator, Interrupted, feed
from spectui.speculation.records import Round, StopReason, Token
from spectui.speculation.top_k import top_k
from spectui.text import safe

STOPPED = "The comparison with plain decoding was stopped."


@dataclass(frozen=True)
class Verification:
    """`same`: the texts are equal, token by token. `sentences`: what was found, in words."""

    same: bool
    speed_up: float | None
    sentences: tuple[str, ...]


def verify(session: Session, messages: Sequence[Message], finished: Finished, rounds: Sequence[Round]) -> Verification:
    """Decode the same prompt and seed plainly, and compare. Raises SpectuiError as `Session.generate` does, and if stopped."""
    try:
        return _verification(session, messages, finished, rounds)
    except Interrupted:
        raise SpectuiError(STOPPED) from None


def _verification(
    session: Session, messages: Sequence[Message], finished: Finished, rounds: Sequence[Round]
) -> Verification:
    plain, plainly = _plain(session, messages, finished)
    if plain.reason is StopReason.CANCELLED:
        raise Interrupted
    ours = [token for round in rounds for token in round.tokens]
    theirs = [token for round in plainly for token in round.tokens]
    faster, slower = finished.statistics.tokens_per_s, plain.statistics.tokens_per_s
    speed_up = faster / slower if faster and slower else None
    pairs = enumerate(zip(ours, theirs, strict=False))
    first = next((n for n, (a, b) in pairs if a.id != b.id), None)
    if first is None and len(ours) == len(theirs):
        return Verification(True, speed_up, (f"The text is plain decoding's, over {len(ours)} tokens.",))
    if first is None:
        return Verification(
            False, speed_up, (f"One text ends after {min(len(ours), len(theirs))} tokens, the other goes on.",)
        )
    a, b = ours[first], theirs[first]
    return Verification(
        False,
        speed_up,
        (
            f"The texts differ from token {first + 1} on: {a.text!r} with drafts, {b.text!r} without.",
            _explanation(session, messages, rounds, a, b, rounding(rounds, plainly, first)),
        ),
    )


def _plain(session: Session, messages: Sequence[Message], finished: Finished) -> tuple[Finished, list[Round]]:
    before = session.knobs
    session.knobs = replace(finished.knobs, drafter="off")
    rounds: list[Round] = []
    try:
        with session.listening(lambda event: rounds.append(event.round) if isinstance(event, RoundDone) else None):
            return session.generate(messages), rounds
    finally:
        session.knobs = before


def _explanation(
    session: Session,
    messages: Sequence[Message],
    rounds: Sequence[Round],
    ours: Token,
    theirs: Token,
    rounding: float | None,
) -> str:
    """Evaluate the reply's passes again, and the same tokens one by one. Returns whether the logits lead to the two tokens.

    They may not, because the reply had cells of earlier replies: then `rounding`, by which the two decodings differ, decides.
    """
    context, prompt = session.context_and_prompt(messages)
    last = rounds[ours.round]
    text = prompt + [token.id for round in rounds for token in round.tokens if token.position < ours.position]
    passes = [_Pass.of(round) for round in rounds[: ours.round + 1]]
    together = _row(session, context, prompt, text, passes, ours.position - last.position)
    single = _row(session, context, prompt, text, [_Pass(at) for at in range(len(prompt) - 1, len(text))], 0)
    gap = float(np.abs(together - single).max())
    chosen = [choose(row, last.knobs, len(text), text) for row in (together, single)]
    if chosen == [ours.id, theirs.id] or is_near_tie(ours, theirs, last.knobs, rounding):
        sentence = kernels_sentence(ours.p_target or 0.0, theirs.p_target or 0.0, last.knobs, session.strict)
        return f"{sentence[0].upper()}{sentence[1:]} (logits differ by up to {gap:.3f})."
    likely = [f"likeliest {how}: {_likeliest(context.model, row)}" for how, row in
              (("in the pass", together), ("alone", single))]  # fmt: skip
    return f"The kernels do not explain it (logits differ by up to {gap:.3f}; {'; '.join(likely)}): please report this."


def _likeliest(model: Model, row: NDArray[np.float32]) -> str:
    """The three likeliest tokens of this row and their logits, as text."""
    ids = top_k(row[None], 3).ids[0].tolist()
    return ", ".join(f"{safe(model.piece(id).decode('utf-8', 'replace'))!r} {row[id]:.3f}" for id in ids)


class _Pass(NamedTuple):
    """A pass that begins with the text's token at `start`. `size`: with what the context had lost before that token."""

    start: int
    drafted: tuple[int, ...] = ()
    size: int = 1

    @classmethod
    def of(cls, round: Round) -> _Pass:
        return cls(round.position - 1, tuple(token.id for token in round.drafted), round.pass_size)


def _row(
    session: Session, context: Evaluator, prompt: list[int], text: list[int], passes: Sequence[_Pass], index: int
) -> NDArray[np.float32]:
    """The row at this index of the last pass, after all passes were evaluated anew. Raises Interrupted.

    The prompt's cells stay, because both replies had them: read in other chunks it would be rounded otherwise.
    """
    feed(context, prompt[:-1], lambda: session.stopped)
    for each in passes:
        if session.stopped:
            raise Interrupted
        context.truncate(each.start)
        lost = text[len(context.tokens) : each.start]  # by a context that cannot be truncated to that length
        tokens = [text[each.start], *each.drafted[: each.size - len(lost) - 1]]
        rows = context.evaluate(lost + tokens, len(tokens))
    row: NDArray[np.float32] = rows[index].copy()
    return row
