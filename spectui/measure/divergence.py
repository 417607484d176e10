"""How far a draft's distribution is from the target's over a real text: the mean KL divergence over its positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectui.engine.events import Message
from spectui.engine.room import NoRoomError
from spectui.engine.session import Session
from spectui.measure.prompts import PAGE
from spectui.speculation.drafters.ahead import AheadDrafter
from spectui.speculation.drafters.cross_vocabulary.drafters import IntersectionDrafter
from spectui.speculation.drafters.model import ModelDrafter

POSITIONS = 128
"""Number of positions at which the distributions are compared."""

_SKIPPED = 32
"""Tokens of the text that are read first: its beginning says little."""

Row = NDArray[np.float32]


def divergence(session: Session) -> float | None:
    """The mean of D_KL(target || draft) in nats of the loaded pair, at temperature 1; None if the draft has no logits by the
    target's tokens: it drafts by text, or lacks some of these.

    A pair with two vocabularies is compared over the shared tokens, both distributions scaled to a sum of 1 there.
    Raises Interrupted, and NoRoomError in a context of a few tokens.
    """
    drafter = session.strategy.model
    if isinstance(drafter, AheadDrafter):
        drafter = drafter.inner
    if not isinstance(drafter, ModelDrafter | IntersectionDrafter):
        return None
    tokens, first, rows = _target_rows(session)
    if isinstance(drafter, ModelDrafter) and max(tokens) >= drafter.model.n_vocab:
        return None
    values = [kl(row, drafter.logits_after(tokens[:position])) for position, row in enumerate(rows, first)]
    return sum(values) / len(values)


def _target_rows(session: Session) -> tuple[list[int], int, Row]:
    """The text's tokens, and the target's logits after the first `first` of them, after one more, and so on."""
    context, tokens = session.context_and_prompt([Message("user", PAGE)])
    first = min(_SKIPPED, max(1, len(tokens) // 4))
    last = min(first + POSITIONS, len(tokens), context.n_ctx)
    if last <= first:
        raise NoRoomError(
            f"The context holds {context.n_ctx} tokens, too few to compare drafts in: set a larger one with -c/--ctx-size."
        )
    context.truncate(0)
    if first > 1:
        context.evaluate(tokens[: first - 1], 0)
    rows = []
    for begin in range(first - 1, last - 1, context.rows):
        part = tokens[begin : min(begin + context.rows, last - 1)]
        rows.append(context.evaluate(part, len(part)).copy())
    context.truncate(0)
    return tokens, first, np.concatenate(rows)


def kl(target: Row, draft: Row) -> float:
    """D_KL(target || draft) in nats of two rows of logits, over the ids that both have and whose logit in `draft` is finite."""
    size = min(len(target), len(draft))
    known = np.isfinite(draft[:size])
    p, q = (_log_softmax(row[:size][known].astype(np.float64)) for row in (target, draft))
    return float(np.sum(np.exp(p) * (p - q)))


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max()
    normalised: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return normalised
