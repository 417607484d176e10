"""Why a token differs between decoding with and without drafts, although no knob may change the text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from spectui.knobs import Knobs
from spectui.speculation.noise import gumbel
from spectui.speculation.records import Round, Token

_LIKELY = 1e-3
"""Tokens less likely than this are not compared: what is stored of their shares is too coarse."""

_ROWS = 512
"""The rows that are compared at most: the last ones before the difference."""

_MORE = 4.0
"""How many times as far a token may move as any that was seen. Texts part where kernels differ most, and noise chooses unlikely
tokens, which move further: with gemma-3-270m Q4_K_M up to 3.7 times in 13 differences."""


def rounding(one: Iterable[Round], other: Iterable[Round], length: int) -> float | None:
    """By how many logits two decodings of a text differ in their first `length` rows, which follow the same tokens.

    The most that one decoding moves a token against another one of the same row, among what was chosen and the likeliest.
    None: no row has two such tokens.
    """
    rows = islice(zip(_rows(one), _rows(other), strict=False), max(0, length - _ROWS), length)
    moved = [max(logits) - min(logits) for logits in (_moved(a, b) for a, b in rows) if len(logits) > 1]
    return max(moved, default=None)


def is_near_tie(one: Token, other: Token, knobs: Knobs, rounding: float | None) -> bool:
    """Whether two tokens at one position are so nearly equally good that kernels which differ by `rounding` logits may decide.

    Compares what the choice compares, from each token's probability in its own pass. A repeat penalty is left out.
    """
    noise = gumbel(knobs.seed, one.position, np.array([one.id, other.id])) * max(knobs.temperature, 0.0)
    logits = [math.log(max(token.p_target or 0.0, 1e-30)) for token in (one, other)]
    return rounding is not None and bool(abs(logits[0] + noise[0] - logits[1] - noise[1]) <= _MORE * rounding)


def why(one: Token, other: Token, knobs: Knobs, rounding: float | None, strict: bool) -> str:
    """The clause for a token of a reply with drafts and another one without, both with their probabilities: rounding decided,
    or they are further apart than kernels were seen to differ, or no difference was seen before. `strict`: under --strict."""
    chances = " and ".join(f"{token.p_target:.3f}".removeprefix("0") for token in (one, other))
    tokens = f" with this seed's noise, {chances}" if knobs.temperature > 0 else f", {chances}"
    if is_near_tie(one, other, knobs, rounding):
        advice = "where --strict compared such passes they were equal" if strict else "--strict avoids it"
        cause = f"this machine's kernels round differently in passes of one and of several rows; {advice}"
        return f"a near-tie{tokens}: {cause}"
    if not rounding:
        return f"perhaps a near-tie{tokens}: no row tells how differently this machine's kernels round"
    return f"no near-tie{tokens}: this machine's kernels do not explain it, so please report it"


def _rows(rounds: Iterable[Round]) -> Iterator[tuple[Round, int]]:
    return ((round, index) for round in rounds for index in range(len(round.tokens)))


def _moved(one: tuple[Round, int], other: tuple[Round, int]) -> list[float]:
    """By how many logits each token moved that both rows tell of."""
    first, second = _shares(*one), _shares(*other)
    return [math.log(first[id] / second[id]) for id in first.keys() & second.keys()]


def _shares(round: Round, index: int) -> dict[int, float]:
    """Token -> its probability, of the likely ones that are known of this row."""
    chosen, likeliest = round.tokens[index], round.likeliest
    shares = {id: p for id, _, p in likeliest.at(index)} if likeliest is not None else {}
    return {id: p for id, p in {**shares, chosen.id: chosen.p_target}.items() if p is not None and p >= _LIKELY}
