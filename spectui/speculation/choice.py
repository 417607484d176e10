"""The choice rule: one token from a row of logits, by the target and the seed alone.

At temperature 0 the likeliest token. Above it `argmax_i(log p_i + G(seed, position, i))` with Gumbel noise from a
counter-based hash: an exact sample of p (the Gumbel-max trick; Maddison et al. 2014, arXiv:1411.0030), and the *same*
sample however many tokens were evaluated in the pass. A draft that chooses with the same noise at the same positions
agrees with probability at least (1-TV)/(1+TV) (Daliri et al. 2024, arXiv:2408.07978), and no knob of speculation can
change the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import exp, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.candidates import LARGE, Candidates, Row, candidates, look
from spectui.speculation.evaluator import Evaluator, Submit
from spectui.speculation.sampling import (
    CONFIDENCE_TOKENS,
    NO_PENALTIES,
    PENALTY_WINDOW,
    chain,
    confidence,
    distribution,
    penalised,
    penalised_candidates,
    penalties,
)

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

LIKELIEST = 5
"""Tokens that are recorded of each row: 60 bytes."""

_LOOKED_AT = 40
"""Least number of candidates where the sum over the vocabulary is estimated (see `candidates`)."""

_MOST_KEPT = 400
"""Largest top-k for which a device keeps the likeliest tokens: devices are slow to sort many."""

_TOGETHER = 4
"""Rows that are chosen at once: rows behind the first disagreement are wasted work."""


class NumericsError(SpectuiError):
    """The model's logits are not numbers."""


class Choice(NamedTuple):
    """The target's token at a position, its probability at temperature 1, and the same of the likeliest tokens."""

    token: int
    p: float
    ids: NDArray[np.intp]
    shares: NDArray[np.float64]

    def of(self, token: int) -> Choice:
        """The same with another token, whose probability is 0 if it is none of the likeliest."""
        return self._replace(token=token, p=float(self.shares[self.ids == token].sum()))


def choose(row: Row, knobs: Knobs, position: int, history: Sequence[int]) -> int:
    """The token at this absolute position. `history`: the tokens before it, for the penalties.

    Raises NumericsError if the logits hold a NaN or nothing finite.
    """
    repeat, presence, frequency = penalties(knobs)
    row = penalised(row, repeat, history, presence, frequency)
    if knobs.temperature <= 0.0:
        best = int(row.argmax())  # a NaN if there is one
        _check(row[best])
        return best
    if knobs.top_k:
        found = candidates(row[None], knobs.top_k, totals=False)
        _check(found.logits[0, 0])
        return int(_pick(found, knobs, position)[0])
    _check(row.max())
    ids, log_p = distribution(row, knobs)
    return int(ids[(log_p + gumbel(knobs.seed, position, ids)).argmax()])


def needed(knobs: Knobs) -> int | None:
    """The number of likeliest tokens that decides the choice; None if the whole row must be known.

    A repeat penalty of 1 or more and other penalties of 0 or more only lower logits, and of 64 tokens at most: so many more
    tokens are enough.
    """
    raised = knobs.repeat_penalty < 1.0 or knobs.presence_penalty < 0.0 or knobs.frequency_penalty < 0.0
    if raised or (knobs.temperature > 0.0 and not knobs.top_k):
        return None
    lowered = PENALTY_WINDOW if penalties(knobs) != NO_PENALTIES else 0
    return (knobs.top_k if knobs.temperature > 0.0 else 1) + lowered


def tokens_to_keep(knobs: Knobs) -> int | None:
    """How many of a row's likeliest tokens a device is to keep for these settings; None for whole rows.

    As many more than top-k as penalties could need, whether there are any or not: so changing it changes no graph, and
    tokens that are equally likely at top-k's end are there.
    """
    return None if needed(knobs) is None or knobs.top_k > _MOST_KEPT else max(_LOOKED_AT, knobs.top_k) + PENALTY_WINDOW


def submit_rows(
    model: Evaluator, tokens: Sequence[int], rows: int, knobs: Knobs
) -> Callable[[], NDArray[np.float32] | Candidates]:
    """Append the tokens; a function that returns what choosing needs of the last `rows` of them, once they are computed.

    That is the likeliest tokens of each row where the device keeps those, or whole rows. A device of its own computes while
    Python continues. Both functions raise what `Evaluator.evaluate` raises.
    """
    submit: Submit | None = getattr(model, "submit", None)
    if submit is not None:
        return submit(tokens, rows, tokens_to_keep(knobs))
    found = model.evaluate(tokens, rows)
    return lambda: found


def evaluate_rows(model: Evaluator, tokens: Sequence[int], rows: int, knobs: Knobs) -> NDArray[np.float32] | Candidates:
    """The same, when it is computed."""
    return submit_rows(model, tokens, rows, knobs)()


def choose_rows(rows: NDArray[np.float32] | Candidates, knobs: Knobs, history: Sequence[int]) -> Iterator[Choice]:
    """The choices after `history` from the rows of a pass, [rows, n_vocab], to be asked for one after the other.

    Instead of whole rows, the `needed(knobs)` likeliest tokens of each are enough. Before the next choice is asked for,
    `history` must have got the token. Raises NumericsError as `choose` does.
    """
    if isinstance(rows, Candidates):
        position, tokens = len(history), _tokens(rows, knobs, len(history))
        for index, log_total in enumerate(rows.log_total.tolist()):
            _check(log_total)
            found = rows.of(index)
            token = _penalised_pick(found, knobs, position + index, history) if tokens is None else tokens[index]
            logit = found.logits.item(0, found.ids[0].tolist().index(token))
            yield _choice(token, logit, log_total, found)
        return
    k = needed(knobs)
    looked_at = max(LIKELIEST if rows.shape[1] < LARGE else _LOOKED_AT, k or 0)
    for start in range(0, len(rows), _TOGETHER):
        looks = [look(row, looked_at) for row in rows[start : start + _TOGETHER]]
        block = Candidates.joined(looks)
        position = len(history)
        tokens = None if k is None else _tokens(block, knobs, position)
        for index, each in enumerate(looks):
            _check(each.top)
            if tokens is not None:
                token = tokens[index]
            elif k is None:
                token = choose(each.row, knobs, position + index, history)
            else:
                token = _penalised_pick(block.of(index), knobs, position + index, history)
            yield _choice(token, each.row.item(token), each.log_total(), block.of(index))


def _choice(token: int, logit: float, log_total: float, found: Candidates) -> Choice:
    """The choice from the only row of `found`, and the probabilities to record."""
    shares = np.exp(found.logits[0, :LIKELIEST] - log_total)
    return Choice(token, exp(logit - log_total), found.ids[0, :LIKELIEST], shares)


def choose_draft(row: Row | Candidates, knobs: Knobs, position: int, history: Sequence[int]) -> tuple[int, float]:
    """What a draft model chooses, by the same rule, and its confidence in that. Raises what `choose` raises.

    `row`: of logits, or the `needed(knobs)` likeliest tokens of one.
    """
    k = needed(knobs)
    if isinstance(row, Candidates):
        found = row
        _check(found.log_total[0])
    else:
        found = candidates(row[None], max(CONFIDENCE_TOKENS, k or 0), totals=False)
        if k is None:
            token = choose(row, knobs, position, history)
            return token, confidence(found, token)
        _check(found.logits[0, 0])
    tokens = _tokens(found, knobs, position)
    token = _penalised_pick(found, knobs, position, history) if tokens is None else tokens[0]
    return token, confidence(found, token)


def _tokens(found: Candidates, knobs: Knobs, position: int) -> list[int] | None:
    """The choice of each row; None if it depends on those before, by a penalty."""
    if penalties(knobs) != NO_PENALTIES:
        return None
    tokens: list[int] = _pick(found, knobs, position).tolist()
    return tokens


def _penalised_pick(found: Candidates, knobs: Knobs, position: int, history: Sequence[int]) -> int:
    """The choice from a single row's candidates under the penalties, which only lower logits."""
    return int(_pick(penalised_candidates(found, knobs, history), knobs, position)[0])


def _pick(found: Candidates, knobs: Knobs, position: int) -> NDArray[np.intp]:
    """The choice from the candidates of each row; the first row is for this position. [rows]"""
    tokens: NDArray[np.intp] = found.ids[:, 0].copy()
    if knobs.temperature <= 0.0:
        return tokens
    ids, logits = found.ids[:, : knobs.top_k], found.logits[:, : knobs.top_k]
    if knobs.min_p > 0.0:  # mostly it leaves a single token
        if len(ids) == 1 and ids.shape[1] > 1 and logits.item(0, 1) - logits.item(0, 0) < np.log(knobs.min_p):
            return tokens  # a draft's row, without arrays
        rows = np.flatnonzero((logits[:, :2].astype(np.float64) - logits[:, :1] >= np.log(knobs.min_p)).all(axis=1))
    else:
        rows = np.arange(len(ids))
    if len(rows):
        ids = ids[rows]
        scores = chain(logits[rows], knobs) + gumbel(knobs.seed, rows + position, ids)
        tokens[rows] = ids[np.arange(len(rows)), scores.argmax(axis=1)]
    return tokens


def _check(logit: float) -> None:
    """Raise NumericsError if a row's largest logit is no number."""
    if not isfinite(logit):
        raise NumericsError(
            "The model computed logits that are not numbers: the file may be damaged, or the device may fail; "
            "try --flash-attn off, another device or another file."
        )


def gumbel(seed: int, position: int | NDArray[np.intp], ids: NDArray[np.intp]) -> NDArray[np.float64]:
    """Standard Gumbel noise for these token ids at this position: a pure function of its arguments. [m] like `ids`

    For ids [rows, m] there is a position for each row.
    """
    mixed = _mix(seed)
    if isinstance(position, int):
        bits = np.uint64(_mix(mixed + position * _GOLDEN))
    else:
        bits = np.array([_mix(mixed + each * _GOLDEN) for each in position.tolist()], np.uint64)[:, None]
    bits = bits + (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


def _mix(value: int) -> int:
    """One step of splitmix64 (Steele et al. 2014) on a Python integer."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
