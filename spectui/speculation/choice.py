"""The choice rule: one token from a row of logits, by the target and the seed alone.

At temperature 0 the likeliest token. Above it `argmax_i(log p_i + G(seed, position, i))` with Gumbel noise from a
counter-based hash: an exact sample of p (the Gumbel-max trick; Maddison et al. 2014, arXiv:1411.0030), and the *same*
sample however many tokens were evaluated in the pass. A draft that chooses with the same noise at the same positions
agrees with probability at least (1-TV)/(1+TV) (Daliri et al. 2024, arXiv:2408.07978), and no knob of speculation can
change the text.

Every choice goes the same way: the likeliest tokens of the row, penalties, the chain, noise. Where a grammar refuses it, the
same is done with the likeliest tokens that the grammar allows: with the same noise, that is the best allowed candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import exp, isfinite
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.speculation.evaluator import Evaluator, Submit
from spectui.speculation.noise import gumbel, perhaps_louder
from spectui.speculation.sampling import (
    CONFIDENCE_TOKENS,
    NO_PENALTIES,
    PENALTY_WINDOW,
    chain,
    confidence,
    distribution,
    penalised_top_k,
    penalties,
    whole_vocabulary,
)
from spectui.speculation.top_k import Row, TopK, top_k

RECORDED = 5
"""Tokens that are recorded of each row, where no more are asked for: 60 bytes."""

_LOOKED_AT = 40
"""Least number of likeliest tokens to look at where any token can be chosen: then the noise of the others must be louder."""

_MOST_KEPT = 400
"""Largest top-k for which a device keeps the likeliest tokens: devices are slow to sort many."""

_TOGETHER = 4
"""Rows that are chosen at once: rows behind the first disagreement are wasted work."""


_UNDER_GRAMMAR = 400
"""Likeliest tokens that a grammar is asked about where it refuses the choice. Only where it refuses them all it is asked about
the whole vocabulary, which takes as long as a pass of a small model."""


class NumericsError(SpectuiError):
    """The model's logits are not numbers."""


class NothingAllowed(Exception):
    """The grammar is complete, or no token goes on with it."""


class Grammar(Protocol):
    """What a reply must obey, behind the tokens that it has accepted. `llama.grammar.Grammar` is the real one."""

    def allowed(self, ids: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these tokens can come next."""

    def accept(self, token: int) -> bool:
        """The token comes next. Returns whether it can; otherwise nothing changes."""

    def clone(self) -> Grammar:
        """The same, to be asked about a draft."""

    def only_way(self) -> Sequence[int]:
        """Tokens of the text that it leaves no choice about; [] where it leaves one."""


class Choice(NamedTuple):
    """The target's token at a position, its probability at temperature 1, and the same of the likeliest tokens."""

    token: int
    p: float
    ids: NDArray[np.intp]
    shares: NDArray[np.float64]

    def of(self, token: int) -> Choice:
        """The same with another token, whose probability is 0 if it is none of the likeliest."""
        return self._replace(token=token, p=float(self.shares[self.ids == token].sum()))


def choose(
    row: Row | TopK, knobs: Knobs, position: int, history: Sequence[int], grammar: Grammar | None = None
) -> tuple[int, float]:
    """The token at this absolute position, and its share among the 10 likeliest: a draft model's confidence.

    `row`: of logits, or, without a grammar, the `needed(knobs)` likeliest tokens of one. `history`: the tokens before it, for
    the penalties. Raises NumericsError if the logits hold a NaN or nothing finite, and NothingAllowed.
    """
    likeliest = row if isinstance(row, TopK) else top_k(row[None], max(CONFIDENCE_TOKENS, _looked_at(knobs)))
    _check(likeliest, 0)
    token = int(_pick(likeliest, knobs, position, history)[0])
    if grammar is not None:
        token, likeliest = _obeying(grammar, token, likeliest, knobs, position, history)
    return token, confidence(likeliest, token)


def choose_rows(
    rows: NDArray[np.float32] | TopK,
    knobs: Knobs,
    history: Sequence[int],
    grammar: Grammar | None = None,
    recorded: int = RECORDED,
) -> Iterator[Choice]:
    """The choices after `history` from the rows of a pass, [rows, n_vocab], to be asked for one after the other.

    Instead of whole rows, the `needed(knobs)` likeliest tokens of each are enough without a grammar. Before the next choice is
    asked for, `history` must have got the token, and the grammar have accepted it. `recorded`: how many of the likeliest tokens
    a choice has. Raises what `choose` does.
    """
    # A penalty depends on the choices before, and a search in the whole vocabulary is too much for a row that nobody reads.
    alone = penalties(knobs) != NO_PENALTIES or needed(knobs) is None
    for block in _blocks(rows, max(recorded, _looked_at(knobs))):
        position = len(history)
        tokens = None if alone else _pick(block, knobs, position, history).tolist()
        for index in range(len(block.ids)):
            _check(block, index)
            likeliest = block.of(index)
            token = int(_pick(likeliest, knobs, position + index, history)[0]) if tokens is None else tokens[index]
            if grammar is not None:
                token = _obeying(grammar, token, likeliest, knobs, position + index, history)[0]
            yield _choice(token, likeliest, recorded)


def _blocks(rows: NDArray[np.float32] | TopK, k: int) -> Iterator[TopK]:
    """The k likeliest tokens of some rows at a time."""
    if isinstance(rows, TopK):
        yield rows
        return
    for start in range(0, len(rows), _TOGETHER):
        yield top_k(rows[start : start + _TOGETHER], k)


def _obeying(grammar: Grammar, token: int, top: TopK, knobs: Knobs, position: int, history: Sequence[int]) -> tuple[int, TopK]:
    """The choice from a single whole row, and what it was chosen from: `token`, or the best that the grammar allows.

    Raises NothingAllowed.
    """
    if grammar.allowed(np.array([token]))[0]:
        return token, top
    assert top.whole is not None
    row = top.whole[0]
    for candidates in (lambda: top_k(row[None], _UNDER_GRAMMAR).ids[0], lambda: np.arange(len(row))):
        ids = candidates()
        ids = ids[np.isfinite(row[ids]) & grammar.allowed(ids)]
        if len(ids):
            ids = ids[(-row[ids]).argsort(kind="stable")]
            few = TopK(ids[None], row[None, ids])
            return int(_pick(few, replace(knobs, top_k=knobs.top_k or len(ids)), position, history)[0]), few
    raise NothingAllowed


def _choice(token: int, likeliest: TopK, recorded: int) -> Choice:
    """The choice from this row, and the probabilities to record."""
    ids, logits, log_total = likeliest.ids[0], likeliest.logits[0], likeliest.log_total()
    logit = logits.item(ids.tolist().index(token)) if likeliest.whole is None else likeliest.whole.item(0, token)
    return Choice(token, exp(logit - log_total), ids[:recorded], np.exp(logits[:recorded] - log_total))


def needed(knobs: Knobs) -> int | None:
    """The number of likeliest tokens that decides the choice; None if the whole row must be known.

    A repeat penalty of 1 or more and other penalties of 0 or more only lower logits, and of 64 tokens at most: so many more
    tokens are enough.
    """
    if whole_vocabulary(knobs):
        return None
    lowered = PENALTY_WINDOW if penalties(knobs) != NO_PENALTIES else 0
    return (knobs.top_k if knobs.temperature > 0.0 else 1) + lowered


def _looked_at(knobs: Knobs) -> int:
    """How many of a whole row's likeliest tokens its choice begins with."""
    return needed(knobs) or max(_LOOKED_AT, knobs.top_k)


def tokens_to_keep(knobs: Knobs) -> int | None:
    """How many of a row's likeliest tokens a device is to keep for these settings; None for whole rows.

    As many more than top-k as penalties could need, whether there are any or not: so changing it changes no graph, and
    tokens that are equally likely at top-k's end are there.
    """
    return None if needed(knobs) is None or knobs.top_k > _MOST_KEPT else max(_LOOKED_AT, knobs.top_k) + PENALTY_WINDOW


def submit_rows(
    model: Evaluator, tokens: Sequence[int], rows: int, knobs: Knobs, *, whole: bool = False
) -> Callable[[], NDArray[np.float32] | TopK]:
    """Append the tokens; a function that returns what choosing needs of the last `rows` of them, once they are computed.

    That is the likeliest tokens of each row where the device keeps those, or whole rows, as always where they are `whole`. A
    device of its own computes while Python continues. Both functions raise what `Evaluator.evaluate` raises.
    """
    submit: Submit | None = getattr(model, "submit", None)
    if submit is not None:
        return submit(tokens, rows, None if whole else tokens_to_keep(knobs))
    computed = model.evaluate(tokens, rows)
    return lambda: computed


def evaluate_rows(model: Evaluator, tokens: Sequence[int], rows: int, knobs: Knobs) -> NDArray[np.float32] | TopK:
    """The same, when it is computed."""
    return submit_rows(model, tokens, rows, knobs)()


def _pick(likeliest: TopK, knobs: Knobs, position: int, history: Sequence[int]) -> NDArray[np.intp]:
    """The choice of each row; the first row is for this position. With penalties there is one row. [rows]"""
    if penalties(knobs) != NO_PENALTIES:
        likeliest = penalised_top_k(likeliest, knobs, history)
    tokens: NDArray[np.intp] = likeliest.ids[:, 0].copy()
    if knobs.temperature <= 0.0:
        return tokens
    if not knobs.top_k:
        return np.array([_pick_of_all(likeliest.of(index), knobs, position + index) for index in range(len(tokens))])
    ids, logits = likeliest.ids[:, : knobs.top_k], likeliest.logits[:, : knobs.top_k]
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


def _pick_of_all(likeliest: TopK, knobs: Knobs, position: int) -> int:
    """The choice among all tokens of a single whole row.

    Where top-p and min-p leave all, it is what the noise of each gives, without calculating that: a token that is none of the
    likeliest beats the best of them only if its noise makes up for the distance of the least likely of them.
    """
    assert likeliest.whole is not None
    row, ids = likeliest.whole[0], likeliest.ids[0]
    if knobs.top_p < 1.0 or knobs.min_p > 0.0:
        ids, scores = distribution(row, knobs)
        return int(ids[(scores + gumbel(knobs.seed, position, ids)).argmax()])
    scores = chain(likeliest.logits, knobs)[0]
    best = (scores + gumbel(knobs.seed, position, ids)).max()
    ids = np.append(ids, perhaps_louder(knobs.seed, position, best - scores[-1], len(row)))
    return int(ids[(chain(row[None, ids], knobs)[0] + gumbel(knobs.seed, position, ids)).argmax()])


def _check(likeliest: TopK, index: int) -> None:
    """Raise NumericsError if this row's largest logit is no number."""
    if not isfinite(likeliest.logits.item(index, 0)):
        raise NumericsError(
            "The model computed logits that are not numbers: the file may be damaged, or the device may fail; "
            "try --flash-attn off, another device or another file."
        )
