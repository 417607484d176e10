"""A reply that is gone on with: the rest of it is decoded as a reply of its own, and its rounds are numbered on."""

from __future__ import annotations

from dataclasses import replace

from spectui.speculation.records import Round


def renumbered(round: Round, before: int) -> Round:
    """A round of the rest of a reply, numbered behind those that the reply had."""
    tokens = tuple(token._replace(round=token.round + before) for token in round.tokens)
    return replace(round, index=round.index + before, tokens=tokens)
