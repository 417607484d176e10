"""How far a draft's distribution is from the target's over a real text: the mean KL divergence over its positions."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectui.engine.events import Message
from spectui.engine.room import NoRoomError
from spectui.engine.session import Session
from spectui.measure.prompts import PAGE
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.drafters.cross_vocabulary.drafters import IntersectionDrafter
from spectui.speculation.drafters.model import DraftModel, ModelDrafter

TEXT = "a page about the Aral Sea"
"""The name of the text."""

POSITIONS = 128
"""Number of positions at which the distributions are compared."""

_SKIPPED = 32
"""Tokens of the text that are read first: its beginning says little."""

Row = NDArray[np.float32]


class Divergence(NamedTuple):
    """`kl`: mean of D_KL(target || draft) in nats, at temperature 1."""

    kl: float
    positions: int


def drafter_of(session: Session) -> DraftModel | None:
    """The loaded draft model's drafter, which another one may hold that drafts ahead."""
    drafter = session.strategy.model
    return drafter.inner if isinstance(drafter, AheadDrafter) else drafter


def divergence(session: Session, positions: int = POSITIONS, seconds: float = float("inf")) -> Divergence | None:
    """Compare the loaded pair; None if the draft has no logits by the target's tokens (it drafts by text, or lacks some of
    these) or there was no time.

    A pair with two vocabularies is compared over the shared tokens, both distributions scaled to a sum of 1 there.
    Raises Interrupted, and NoRoomError in a context of a few tokens.
    """
    until = perf_counter() + seconds
    drafter = drafter_of(session)
    if not isinstance(drafter, ModelDrafter | IntersectionDrafter):
        return None
    tokens, first, rows = _target_rows(session, positions)
    if isinstance(drafter, ModelDrafter) and max(tokens) >= drafter.model.n_vocab:
        return None
    found: list[float] = []
    for position, row in enumerate(rows, first):
        if perf_counter() > until:
            break
        found.append(kl(row, drafter.logits_after(tokens[:position])))
    return Divergence(sum(found) / len(found), len(found)) if found else None


def _target_rows(session: Session, positions: int) -> tuple[list[int], int, Row]:
    """The text's tokens, and the target's logits behind the first `first` of them, behind one more, and so on."""
    context, tokens = session.context_and_prompt([Message("user", PAGE)])
    first = min(_SKIPPED, max(1, len(tokens) // 4))
    last = min(first + positions, len(tokens), context.n_ctx)
    if last <= first:
        raise NoRoomError(
            f"The context holds {context.n_ctx} tokens, too few to compare drafts in: set a larger one with -c/--ctx-size."
        )
    context.truncate(0)
    if first > 1:
        context.evaluate(tokens[: first - 1], 0)
    found = []
    for begin in range(first - 1, last - 1, context.rows):
        part = tokens[begin : min(begin + context.rows, last - 1)]
        found.append(context.evaluate(part, len(part)).copy())
    context.truncate(0)
    return tokens, first, np.concatenate(found)


def kl(target: Row, draft: Row) -> float:
    """D_KL(target || draft) in nats of two rows of logits, over the ids that both have and whose logit in `draft` is finite."""
    size = min(len(target), len(draft))
    known = np.isfinite(draft[:size])
    p, q = (_log_softmax(row[:size][known].astype(np.float64)) for row in (target, draft))
    return float(np.sum(np.exp(p) * (p - q)))


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max()
    found: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return found
