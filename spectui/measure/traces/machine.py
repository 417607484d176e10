"""The cost of passes in a trace: the table measured at load gives the shape, the rounds give the level and the context
term."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import mean, median

import numpy as np
from numpy.typing import NDArray

from spectui.measure.traces.replies import RecordedReply
from spectui.measure.traces.simulation import Machine
from spectui.speculation.policies.cost_model import CostModel, CostSnapshot, DraftCost, VerifyCost, by_model
from spectui.speculation.records import Round

_ENOUGH = 4
"""Passes of one size from which their own times count too, and not those of all sizes alone."""

_HICCUP = 4.0
"""Limit of a time, in multiples of the expected time: more has another cause."""

_SPREAD = 0.2
"""Relative error of a time from which it counts for half in the fit."""


def costs_at_load(reply: RecordedReply) -> CostModel:
    """The cost model when the models were ready."""
    costs = reply.loaded.costs if reply.loaded is not None else None
    return CostModel.of(costs or CostSnapshot())


def fit_machine(replies: Sequence[RecordedReply]) -> Machine:
    """A machine on which the rounds of these replies take the recorded time."""
    rounds = [each for reply in replies for each in reply.rounds]
    costs = costs_at_load(replies[0])
    verify = _Passes(rounds, costs.verify)
    next_s = costs.draft.next * costs.verify.drift
    asked = [_asked(each, next_s) for each in rounds]
    # Rounds without the model show the time of a look for repetitions.
    alone = [
        each.draft_s for each, tokens in zip(rounds, asked, strict=True) if not tokens and each.knobs.drafter != "off"
    ]
    look = _typical(alone)
    drafted = [
        (tokens, each.position, max(0.0, each.draft_s - (look if each.knobs.drafter == "auto" else 0.0)))
        for each, tokens in zip(rounds, asked, strict=True)
        if tokens
    ]
    draft = _Drafts(drafted, costs.draft)
    read = [
        (reply.read.seconds, reply.read.total - reply.read.reused)
        for reply in replies
        if reply.read is not None and reply.read.total - reply.read.reused > 1
    ]
    pace = sum(seconds for seconds, _ in read) / sum(tokens for _, tokens in read) if read else 0.0
    share = draft(1, 0) / verify(1, 0)  # of the draft model in reading, which was timed with the target's
    return Machine(
        verify,
        draft,
        look=look,
        choose=_typical([each.choose_s / len(each.tokens) for each in rounds]),
        rest=_typical([each.rest_s for each in rounds]),
        read=pace / (1 + share),
        draft_read=pace * share / (1 + share),
    )


class _Passes:
    """Seconds of a target pass over (rows, tokens of context): level * table + (per_row * rows + per_pass) * context."""

    def __init__(self, rounds: Sequence[Round], measured: VerifyCost) -> None:
        self._table = VerifyCost(measured.table, 1.0) if measured.known else VerifyCost({1: 1.0, 2: 1.0})
        size, context, seconds = (
            np.array([getattr(each, name) for each in rounds], float) for name in ("pass_size", "position", "verify_s")
        )
        if measured.known:  # the rounds have no passes with an empty context
            sizes = np.array(sorted(measured.table), float)
            size, context = np.concatenate([size, sizes]), np.concatenate([context, 0 * sizes])
            seconds = np.concatenate([seconds, [measured.drift * measured.table[int(n)] for n in sizes]])
        base = np.array([self._table(int(n), 0) for n in size])
        rows = size if not measured.known else 0 * size  # without a table, rows are taken to cost alike
        self._level, self._per_row, self._per_pass, self._row = _fit([base, size * context, context, rows], seconds)
        self._factors: dict[int, float] = {}
        by_size: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
        for each in rounds:
            by_size[each.pass_size].append((each.verify_s, self(each.pass_size, each.position)))
        self._other = _ratio(pair for pairs in by_size.values() for pair in pairs)
        self._factors = {n: _ratio(pairs) for n, pairs in by_size.items() if len(pairs) >= _ENOUGH}

    _other = 1.0

    def __call__(self, rows: int, context: int) -> float:
        seconds = (
            self._level * self._table(rows, 0) + (self._per_row * rows + self._per_pass) * context + self._row * rows
        )
        return max(1e-9, seconds * self._factors.get(rows, self._other))


class _Drafts:
    """Seconds of a pass of the draft model."""

    def __init__(self, drafted: Sequence[tuple[int, int, float]], measured: DraftCost) -> None:
        """`drafted`: tokens that the model was asked for, the context, seconds."""
        self._first, self._next = (measured.first, measured.next) if measured.first else (1.0, 1.0)
        self._level, self._per_token = 1.0, 0.0
        if drafted:
            tokens, context, seconds = (np.array(column, float) for column in zip(*drafted, strict=True))
            base = self._first + (tokens - 1) * self._next
            self._level, self._per_token = _fit([base, tokens * context], seconds)
            expected = self._level * base + self._per_token * tokens * context
            ratio = _ratio(zip(seconds, expected, strict=True))
            self._level, self._per_token = ratio * self._level, ratio * self._per_token
        elif not measured.first:
            self._first = self._next = 0.0  # there is no draft model

    def __call__(self, rows: int, context: int) -> float:
        # A draft begins with a pass over one token or over two; `first` is the mean of both.
        base = self._next if rows < 2 else max(self._next, 2 * self._first - self._next)
        return self._level * base + self._per_token * context


def refused_by_model(each: Round, next_s: float) -> float | None:
    """The draft model's confidence in a token that p-min refused in this round; None where it refused none of the model's.

    `next_s`: seconds that the model takes for a token. A repetition that is refused takes nearly none.
    """
    if each.knobs.policy != "fixed" or each.reason is None or each.reason.confidence is None:
        return None
    asked = each.knobs.drafter == "model" or each.draft_s > (by_model(each.drafted) + 0.5) * next_s > 0
    return each.reason.confidence if asked else None


def seen_sizes(replies: Iterable[RecordedReply]) -> set[int]:
    """Sizes of pass whose times the rounds tell."""
    counts: defaultdict[int, int] = defaultdict(int)
    for reply in replies:
        for each in reply.rounds:
            counts[each.pass_size] += 1
    return {size for size, count in counts.items() if count >= _ENOUGH}


def _asked(each: Round, next_s: float) -> int:
    """Number of tokens requested from the draft model: those it drafted, and one that p-min refused."""
    return by_model(each.drafted) + (refused_by_model(each, next_s) is not None)


def _fit(columns: Sequence[NDArray[np.float64]], seconds: NDArray[np.float64]) -> list[float]:
    """Coefficients, none below 0, whose sum over the columns has the smallest relative errors; outliers count little."""
    found = [0.0] * len(columns)
    positive = seconds > 0
    if not positive.any():
        return found
    matrix = np.stack(columns, axis=1)[positive] / seconds[positive, None]
    weight = np.ones(len(matrix))
    used = [n for n in range(len(columns)) if matrix[:, n].any()]
    for _ in range(12):
        solution = np.linalg.lstsq(matrix[:, used] * weight[:, None], weight, rcond=None)[0]
        if len(used) > 1 and solution.min() < 0:
            used.pop(int(solution.argmin()))
            continue
        weight = 1 / np.sqrt(1 + ((matrix[:, used] @ solution - 1) / _SPREAD) ** 2)
    for n, value in zip(used, solution, strict=True):
        found[n] = max(0.0, float(value))
    return found


def _ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """Measured over expected seconds, in sum."""
    found = [(min(measured, _HICCUP * expected), expected) for measured, expected in pairs]
    expected = sum(each for _, each in found)
    return float(sum(each for each, _ in found) / expected) if expected else 1.0


def _typical(seconds: Sequence[float]) -> float:
    """The mean with outliers limited; 0 of no values."""
    if not seconds:
        return 0.0
    most = _HICCUP * median(seconds)
    return mean(min(each, most) for each in seconds)
