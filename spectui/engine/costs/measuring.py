"""What passes of each model cost on this machine, and up to which size the target's compute the same logits.

Measured once; `cost_files` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from spectui.engine.costs import files as cost_files
from spectui.engine.costs.files import BEHIND, EQUAL_SIZES, MEASURED, DraftCosts, Key, TargetCosts
from spectui.knobs import Knobs
from spectui.llama.context import Context
from spectui.speculation.choice import evaluate_rows
from spectui.speculation.evaluator import Cancelled
from spectui.speculation.top_k import TopK

BOUND_S = 3.0
"""Most seconds that measuring may take; a model that is slower is measured at fewer sizes."""

SIZES = (2, 4, 3, 8, 16, 5, 12), (9, 17, 32, 6, 33, 24, 48)
"""Pass sizes, the most informative first. Size 1 comes before all of them.

They are the sizes at which llama.cpp's kernels step: CPUs take rows in fours (a pass over 4 may cost less than one over 2 or
3) or, K-quants and AMX, in sixteens; CUDA changes kernels after 8.
"""

_SINGLES = 8
"""Passes over one token. The first rows of larger passes are compared with them: the time is better spent on further sizes."""

_LOOK_BACK = 128
"""Tokens of context behind which passes over one row and over several tell what context costs; fewer if time runs out."""

_SEVERAL = 16
"""Rows of the pass over several."""

_VISIBLE = 1.2
"""The cost of context is kept where that pass takes at least this many times as long as with an empty context. Smaller
differences are noise in part, which a longer context multiplies: the rounds measure them better."""

_NOISY = 1.5
"""Passes of one size are noisy where the slowest fifth takes this many times as long as the fastest one."""


@dataclass(frozen=True)
class Difference:
    """How the rows of a pass differ from those of passes over one token each."""

    equal: bool = True
    """All bits are the same."""
    largest: float = 0.0
    """By how much a logit differs at most."""
    changed: int = 0
    """Rows whose likeliest token is another one."""

    def with_row(self, row: np.ndarray[Any, Any], single: np.ndarray[Any, Any]) -> Difference:
        """With another row, which is not equal."""
        known = np.isfinite(single)  # not where a token is suppressed
        largest = float(np.abs(row[known] - single[known]).max(initial=0.0))
        return Difference(False, max(self.largest, largest), self.changed + bool(row.argmax() != single.argmax()))


def target_costs(
    target: Context,
    key: Key,
    progress: Callable[[float], None],
    cancelled: Cancelled,
    strict: bool = False,
    disturbed: Callable[[], bool] = lambda: False,
) -> TargetCosts:
    """The stored costs of `key`, or newly measured ones, or empty ones where the context holds a conversation.

    `strict`: compare the logits behind a long context too, and measure all the same where the context holds a conversation,
    which is then evaluated anew. `disturbed`: whether other processes took its cores meanwhile; then the costs are marked
    as noisy. Raises Interrupted.
    """
    file = cost_files.path("target-costs", key)
    costs = cost_files.read(file, TargetCosts)
    if costs is not None and (costs.behind is not None or not strict):
        return costs
    if target.tokens and not strict:
        return TargetCosts()  # to measure would discard the conversation's cells; the rounds measure instead
    try:
        if costs is None or costs.tried < 2:
            costs = _measure_target(target, progress, cancelled)
            costs.noisy |= disturbed()
        if strict:
            _compare_behind(target, costs, cancelled)
    finally:
        target.truncate(0)  # also the cells of an interrupted pass
    if not cancelled():
        cost_files.write(file, costs)
    return costs


def draft_costs(draft: Context, key: Key, cancelled: Cancelled, disturbed: Callable[[], bool] = lambda: False) -> DraftCosts:
    """The same for a draft. Raises Interrupted."""
    file = cost_files.path("draft-costs", key)
    if (costs := cost_files.read(file, DraftCosts)) is not None:
        return costs
    if draft.tokens:
        return DraftCosts()
    try:
        costs = _measure_draft(draft, cancelled)
        costs.noisy |= disturbed()
    finally:
        draft.truncate(0)
    if not cancelled():
        cost_files.write(file, costs)
    return costs


def timed_pass(context: Context, tokens: Sequence[int], rows: int) -> tuple[float, np.ndarray[Any, Any] | TopK]:
    """Seconds of a pass as rounds make it, and its rows: whole ones, or the likeliest tokens where the device keeps those."""
    begun = perf_counter()
    computed = evaluate_rows(context, tokens, rows, Knobs())
    return perf_counter() - begun, computed


def _is_noisy(seconds: list[float]) -> bool:
    """Whether passes of one size took very different times."""
    return bool(np.quantile(seconds, 0.8) > _NOISY * min(seconds))


def _measure_draft(draft: Context, cancelled: Cancelled) -> DraftCosts:
    """A few passes over one token and over two: after a draft that was accepted whole, a round begins with two.

    And one token behind another: all of several heads read the first one, and one of them evaluates the second; a head that
    foresees a block has foreseen the second with the first.
    """
    for n in (2, 1):  # the first pass of a size sets things up: a GPU's driver compiles or loads kernels
        draft.truncate(0)
        timed_pass(draft, [5, 2][:n], 1)
    started = perf_counter()
    seconds: dict[int, list[float]] = {1: [], 2: []}
    further: list[float] = []
    for n in (1, 1, 2, 1, 2, 1, 2):
        draft.truncate(0)
        seconds[n].append(timed_pass(draft, [5, 2][:n], 1)[0])
        if n == 1:
            further.append(timed_pass(draft, [2], 1)[0])
        if cancelled() or (seconds[2] and perf_counter() - started > BOUND_S / 3):
            break
    single = min(seconds[1])
    if not seconds[2]:
        return DraftCosts(single, min(further))
    return DraftCosts((single + min(seconds[2])) / 2, min(further), noisy=_is_noisy(seconds[1]))


def _measure_target(target: Context, progress: Callable[[float], None], cancelled: Cancelled) -> TargetCosts:
    started = perf_counter()
    costs = TargetCosts()

    def over(more: float = 0.0) -> bool:
        return cancelled() or perf_counter() - started + more > BOUND_S

    # Any tokens do: the kernels do the same work for each.
    tokens = [(7 * n + 5) % target.n_vocab for n in range(max(map(max, SIZES)))]
    largest = min(target.rows, target.n_ctx)
    target.truncate(0)
    first = timed_pass(target, tokens[:1], 1)[0]  # it sets things up, and counts where there are few

    # Single passes tell T(1) and give the rows that larger passes are compared with.
    target.truncate(0)
    singles: list[np.ndarray[Any, Any]] = []
    seconds_of_one: list[float] = []
    for n in range(min(_SINGLES, target.n_ctx)):
        seconds, rows = timed_pass(target, tokens[n : n + 1], 1)
        seconds_of_one.append(seconds)
        if not isinstance(rows, TopK):
            singles.append(rows[0].copy())
        if over() or perf_counter() - started > BOUND_S / 2:
            break
        progress(0.4 * n / _SINGLES)
    costs.verify[1] = sorted([first, *seconds_of_one])[len(seconds_of_one) // 2]
    costs.noisy = _is_noisy([min(first, max(seconds_of_one)), *seconds_of_one])  # a slow first pass is no noise

    # The lower of two measurements of each size, because disturbances only add time. In turns: a pass of another size than
    # the last one costs more than the same again (llama.cpp keeps its graph), and in a reply sizes change.
    alike: dict[int, bool] = {}
    sizes = [size for group in SIZES for size in group * 2 if size <= largest]
    for number, n in enumerate(sizes):
        if number == 2 * len(SIZES[0]):  # the sizes that tell most are known
            _measure_context(target, costs, tokens, over)
        if over():
            break
        # In its first pass of a size a GPU's driver compiles or loads kernels.
        for size in (n, 1, n) if target.asynchronous and n not in costs.verify else (n,):
            target.truncate(0)
            seconds, rows = timed_pass(target, tokens[:size], size)
        if n in EQUAL_SIZES and n not in alike and not isinstance(rows, TopK):
            alike[n] = all(np.array_equal(row, single) for row, single in zip(rows, singles, strict=False))
        costs.verify[n] = min(seconds, costs.verify.get(n, seconds))
        progress(0.4 + 0.6 * number / len(sizes))
    if alike:
        costs.equal_up_to, costs.tried = _equal_sizes(alike)
    if not singles:  # the device keeps the likeliest tokens, so whole rows have passes of their own
        target.truncate(0)
        sizes = [n for n in EQUAL_SIZES if n <= largest]
        costs.equal_up_to, costs.tried = _compare(target, tokens, 0, sizes, cancelled)
    return costs


def _equal_sizes(alike: dict[int, bool]) -> tuple[int, int]:
    """The size up to which all passes have the rows of single ones, and the largest that was tried."""
    equal = 1
    for n in sorted(alike):
        if not alike[n]:
            break
        equal = n
    return equal, max(alike)


def _measure_context(target: Context, costs: TargetCosts, tokens: list[int], over: Callable[[float], bool]) -> None:
    """Measure what tokens of context add to a pass, as far as it shows behind as many as there is time to read."""
    several, slice_ = _SEVERAL, max(costs.verify)
    if several not in costs.verify:
        return
    look_s = 2 * (costs.verify[1] + costs.verify[several])
    target.truncate(0)
    while (context := len(target.tokens)) < _LOOK_BACK and not over(costs.verify[slice_] + look_s):
        more = min(slice_, target.n_ctx - several - context)
        if more <= 0:
            break
        target.keep_at = [context + more]  # recurrent states are gone back to
        target.evaluate(tokens[:more], 0)
    if not context:
        return
    added: dict[int, float] = {}
    for n in (several, 1):
        looks: list[float] = []
        for _ in range(2):
            target.truncate(context)
            looks.append(timed_pass(target, tokens[:n], n)[0])
        added[n] = max(0.0, min(looks) - costs.verify[n])
    if added[several] >= (_VISIBLE - 1) * costs.verify[several]:
        costs.per_row = max(0.0, added[several] - added[1]) / ((several - 1) * context)
        costs.per_pass = max(0.0, added[1] / context - costs.per_row)


def _compare_behind(target: Context, costs: TargetCosts, cancelled: Cancelled) -> None:
    """Lower `costs.equal_up_to` to the size up to which all rows behind a long context are equal too.

    Takes at most BOUND_S to read the context, and what `_compare` takes. Where the time does not suffice for a comparison,
    `costs.behind` stays None, so that the next loading compares.
    """
    if costs.tried < 2:
        return
    text = [(7 * n + 5) % target.n_vocab for n in range(MEASURED)]
    possible = [n for n in EQUAL_SIZES if n <= min(target.rows, target.n_ctx)]
    if costs.equal_up_to == costs.tried < possible[-1]:  # the time did not suffice, as where a GPU's driver compiled kernels
        target.truncate(0)
        equal_up_to, tried = _compare(target, text, 0, possible, cancelled)
        if tried > costs.tried:
            costs.equal_up_to, costs.tried = equal_up_to, tried
    sizes = [n for n in EQUAL_SIZES if n <= costs.equal_up_to]
    longest = max(sizes, default=0)
    target.truncate(0)
    fill(target, text, min(BEHIND, target.n_ctx - longest) if sizes else 0, cancelled)
    context = len(target.tokens)
    equal_up_to, tried = _compare(target, text, context, sizes, cancelled)
    if tried > 1 or not sizes:
        costs.behind, costs.equal_up_to = context, equal_up_to


def fill(target: Context, text: list[int], context: int, cancelled: Cancelled, bound_s: float = BOUND_S) -> None:
    """Bring the context to its first tokens of the text, as many as `bound_s` lets it read."""
    begun = perf_counter()
    most = max(map(max, SIZES))  # the time of such a pass is known
    target.keep_at = [context]
    while len(target.tokens) < context and perf_counter() - begun < bound_s and not cancelled():
        start = len(target.tokens)
        target.evaluate(text[start : min(context, start + most)], 0)


def _compare(target: Context, text: list[int], context: int, sizes: Sequence[int], cancelled: Cancelled) -> tuple[int, int]:
    """The size up to which all rows behind these tokens of the text equal those of single passes, and the largest one tried."""
    differences = compare(target, text, context, sizes, cancelled, BOUND_S)
    return _equal_sizes({1: True} | {n: difference.equal for n, difference in differences.items()})


def compare(
    target: Context, text: list[int], context: int, sizes: Sequence[int], cancelled: Cancelled, bound_s: float = inf
) -> dict[int, Difference]:
    """How passes of these sizes behind so many tokens of the text, which the context holds, differ from single ones.

    Takes `bound_s` at most: sizes that there is no time for are left out.
    """
    begun = perf_counter()
    together: dict[int, np.ndarray[Any, Any]] = {}
    for n in sizes:
        if cancelled() or perf_counter() - begun > bound_s / 2:
            break
        together[n] = target.evaluate(text[context : context + n], n).copy()
        target.truncate(context)
        fill(target, text, context, cancelled, bound_s)  # tokens that a recurrent model lost when it was truncated
    longest, singles = max(together, default=0), 0
    differences = dict.fromkeys(together, Difference())
    while singles < longest and not cancelled() and perf_counter() - begun <= bound_s:
        single = target.evaluate(text[context + singles : context + singles + 1], 1)[0]
        for n, rows in together.items():
            if singles < n and not np.array_equal(rows[singles], single):
                differences[n] = differences[n].with_row(rows[singles], single)
        singles += 1
    return {n: difference for n, difference in differences.items() if n <= singles}
