"""What passes of each model cost on this machine, and up to which size the target's compute the same logits.

Measured once and kept on disk: a table for the target and another for the draft, each under a key of what it depends on
(`placement.target_costs_key`, `placement.draft_costs_key`), so that another draft keeps the target's table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from spectui import paths
from spectui.atomic import write_atomic
from spectui.knobs import Knobs
from spectui.llama.context import Context
from spectui.speculation.candidates import Candidates
from spectui.speculation.choice import evaluate_rows
from spectui.speculation.policies.cost_model import DraftCost, VerifyCost

BOUND_S = 3.0
"""Most seconds that measuring may take; a model that is slower is measured at fewer sizes."""

SIZES = (2, 4, 3, 8, 16, 5, 12), (9, 17, 32, 6, 33, 24, 48)
"""Pass sizes, the most informative first. Size 1 comes before all of them.

They are the sizes at which llama.cpp's kernels step: CPUs take rows in fours (a pass over 4 may cost less than one over 2 or
3) or, K-quants and AMX, in sixteens; CUDA changes kernels after 8.
"""

EQUAL_SIZES = (2, 4, 6, 8, 16)
"""Pass sizes whose logits are compared with those of passes over one token."""

_SINGLES = 8
"""Passes over one token. The first rows of larger passes are compared with them: the time is better spent on further sizes."""

_BEHIND = 600
"""Tokens of context behind which logits are compared once more for --strict: kernels may divide a long context among threads
or cores, ggml's on the CPU from 257 tokens on. Fewer where the context is smaller, or takes more than BOUND_S to read."""

_LOOK_BACK = 128
"""Tokens of context behind which passes over one row and over several tell what context costs; fewer if time runs out."""

_SEVERAL = 16
"""Rows of the pass over several."""

_VISIBLE = 1.2
"""The cost of context is kept where that pass takes at least this many times as long as with an empty context. Smaller
differences are noise in part, which a longer context multiplies: the rounds measure them better."""

_NOISY = 1.5
"""Passes of one size are noisy where the slowest fifth takes this many times as long as the fastest one."""


@dataclass
class TargetCosts:
    """Seconds per pass size with an empty context, and up to which size the logits are equal."""

    verify: dict[int, float] = field(default_factory=dict)
    """Tokens in a pass -> seconds. Empty: unknown."""
    per_row: float = 0.0
    """Seconds that each token of context adds for each row; 0 where a short context does not show it."""
    per_pass: float = 0.0
    """Seconds that it adds once."""
    equal_up_to: int = 1
    """The largest size tried whose logits equal those of single passes, with all smaller ones."""
    tried: int = 1
    """The largest size whose logits were compared."""
    behind: int | None = None
    """Tokens of context behind which all rows of the passes were compared too; None: not compared there."""
    noisy: bool = False
    """Other processes used the machine during the measurement, so the table is not stored."""
    drift: float | None = 1.0
    """Time of a pass now / its measured time; None if the context held a conversation."""

    def model(self) -> VerifyCost:
        """For the policy to start from."""
        return VerifyCost(self.verify, self.drift if self.verify else None, self.per_row, self.per_pass)

    @property
    def strict_up_to(self) -> int:
        """The largest size that --strict may use: 1 where the passes were not compared behind a context."""
        return 1 if self.behind is None else self.equal_up_to

    @property
    def sound(self) -> bool:
        """Could these numbers have been measured?"""
        times = self.verify.get(1, 0) > 0 and all(0 <= seconds < _LONGEST_S for seconds in self.verify.values())
        terms = 0 <= self.per_row < _LONGEST_TERM_S and 0 <= self.per_pass < _LONGEST_TERM_S
        counts = [self.equal_up_to, self.tried, *([] if self.behind is None else [self.behind])]
        whole = all(type(count) is int for count in counts)
        equal = 1 <= self.equal_up_to <= self.tried <= max(EQUAL_SIZES)
        return times and terms and whole and equal and 0 <= (self.behind or 0) <= _BEHIND


@dataclass
class DraftCosts:
    """Seconds per drafted token: the first of a round, which also evaluates the target's last tokens, and each further one."""

    first: float = 0.0
    """0: unknown."""
    next: float = 0.0
    noisy: bool = False
    drift: float | None = 1.0
    """As the target's."""

    def model(self, target_drift: float | None) -> DraftCost:
        """The cost model's start; the model multiplies it by the target's drift."""
        scale = (self.drift or 1.0) / (target_drift or 1.0)
        return DraftCost(self.first * scale, self.next * scale)

    @property
    def sound(self) -> bool:
        """Whether these numbers are plausible measurements."""
        return 0 < self.first < _LONGEST_S and 0 < self.next < _LONGEST_S


_LONGEST_S = 1e4
"""Seconds that no pass takes."""

_LONGEST_TERM_S = 1.0
"""Seconds that no token of context adds to a pass."""

Key = tuple[Any, ...]
Cancelled = Callable[[], bool]


def target_costs(
    target: Context, key: Key, progress: Callable[[float], None], cancelled: Cancelled, strict: bool = False
) -> TargetCosts:
    """The stored costs of `key`, or newly measured ones, or empty ones where the context holds a conversation.

    `strict`: compare the logits behind a long context too, and measure all the same where the context holds a conversation,
    which is then evaluated anew. Raises Interrupted.
    """
    file = state_file("target-costs", key)
    found = _stored_target(file)
    if found is not None and (found.behind is not None or not strict):
        return replace(found, drift=_drift(target, found.verify[1], cancelled))
    if target.tokens and not strict:
        return TargetCosts()  # to measure would discard the conversation's cells; the rounds measure instead
    try:
        if found is None or found.tried < 2:
            found = _measure_target(target, progress, cancelled)
        if strict:
            _compare_behind(target, found, cancelled)
    finally:
        target.truncate(0)  # also the cells of an interrupted pass
    if not cancelled() and not found.noisy:
        _store(file, found)
    return found


def _stored_target(file: Path) -> TargetCosts | None:
    """The costs in the file; None if there are none, or it is damaged."""
    try:
        stored = _read(file)
        found = TargetCosts(verify={int(n): float(s) for n, s in stored.pop("verify").items()}, **stored)
        return found if found.sound else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def draft_costs(draft: Context, key: Key, cancelled: Cancelled) -> DraftCosts:
    """The same for a draft. Raises Interrupted."""
    file = state_file("draft-costs", key)
    try:
        found = DraftCosts(**_read(file))
        if found.sound:
            return replace(found, drift=_drift(draft, found.next, cancelled))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass  # as above
    if draft.tokens:
        return DraftCosts()
    try:
        found = _measure_draft(draft, cancelled)
    finally:
        draft.truncate(0)
    if not cancelled() and not found.noisy:
        _store(file, found)
    return found


def state_file(what: str, key: Key) -> Path:
    """The file for what was found out about the models of `key`, whether or not there is one."""
    return paths.state_directory() / f"{what}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.json"


def _read(file: Path) -> dict[str, Any]:
    """Raises OSError without the file, ValueError where it is damaged."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(stored, dict):
        raise ValueError(file)
    return stored


def _store(file: Path, found: TargetCosts | DraftCosts) -> None:
    """If the disk fails, the next process measures again."""
    with suppress(OSError):
        write_atomic(file, json.dumps(asdict(found)).encode())


def _drift(context: Context, measured: float, cancelled: Cancelled) -> float | None:
    """How much longer a single pass takes now than `measured`; None where the context holds a conversation."""
    if context.tokens:
        return None
    seconds: list[float] = []
    try:
        while not cancelled() and len(seconds) < 4 and sum(seconds) < BOUND_S / 6:
            seconds.append(timed_pass(context, [5], 1)[0])
    finally:
        context.truncate(0)  # also the cells of an interrupted pass
    # The first pass sets things up.
    return min(seconds[1:]) / measured if len(seconds) > 1 else None


def timed_pass(context: Context, tokens: Sequence[int], rows: int) -> tuple[float, np.ndarray[Any, Any] | Candidates]:
    """Seconds of a pass as rounds make it, and its rows: whole ones, or the likeliest tokens where the device keeps those."""
    begun = perf_counter()
    found = evaluate_rows(context, tokens, rows, Knobs())
    return perf_counter() - begun, found


def _is_noisy(seconds: list[float]) -> bool:
    """Whether passes of one size took very different times."""
    return bool(np.quantile(seconds, 0.8) > _NOISY * min(seconds))


def _measure_draft(draft: Context, cancelled: Cancelled) -> DraftCosts:
    """A few passes over one token and over two: after a draft that was accepted whole, a round begins with two."""
    started = perf_counter()
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for n in (1, 1, 1, 1, 1, 2, 2, 2):
        draft.truncate(0)
        seconds[n].append(timed_pass(draft, [5, 2][:n], 1)[0])
        if cancelled() or (seconds[2] and perf_counter() - started > BOUND_S / 3):
            break
    single = seconds[1][1:] or seconds[1]  # the first pass sets things up
    if not seconds[2]:
        return DraftCosts(min(single), min(single))
    return DraftCosts((min(single) + min(seconds[2])) / 2, min(single), noisy=_is_noisy(single))


def _measure_target(target: Context, progress: Callable[[float], None], cancelled: Cancelled) -> TargetCosts:
    started = perf_counter()
    found = TargetCosts()

    def over(more: float = 0.0) -> bool:
        return cancelled() or perf_counter() - started + more > BOUND_S

    # Any tokens do: the kernels do the same work for each.
    tokens = [(7 * n + 5) % target.n_vocab for n in range(max(map(max, SIZES)))]
    largest = min(target.rows, target.n_ctx)
    target.truncate(0)
    timed_pass(target, tokens[:1], 1)  # the first pass sets things up

    # Single passes tell T(1) and give the rows that larger passes are compared with.
    target.truncate(0)
    singles: list[np.ndarray[Any, Any]] = []
    seconds_of_one: list[float] = []
    for n in range(min(_SINGLES, target.n_ctx)):
        seconds, rows = timed_pass(target, tokens[n : n + 1], 1)
        seconds_of_one.append(seconds)
        if not isinstance(rows, Candidates):
            singles.append(rows[0].copy())
        if over() or perf_counter() - started > BOUND_S / 2:
            break
        progress(0.4 * n / _SINGLES)
    found.verify[1] = float(np.median(seconds_of_one))
    found.noisy = _is_noisy(seconds_of_one)

    # The lower of two measurements of each size, because disturbances only add time. In turns: a pass of another size than
    # the last
    # one's costs more than the same again (llama.cpp keeps its graph), and in a reply sizes change.
    alike: dict[int, bool] = {}
    sizes = [size for group in SIZES for size in group * 2 if size <= largest]
    for number, n in enumerate(sizes):
        if number == 2 * len(SIZES[0]):  # the sizes that tell most are known
            _measure_context(target, found, tokens, over)
        if over():
            break
        target.truncate(0)
        seconds, rows = timed_pass(target, tokens[:n], n)
        if n in EQUAL_SIZES and n not in alike and not isinstance(rows, Candidates):
            alike[n] = all(np.array_equal(row, single) for row, single in zip(rows, singles, strict=False))
        found.verify[n] = min(seconds, found.verify.get(n, seconds))
        progress(0.4 + 0.6 * number / len(sizes))
    for n in sorted(alike):
        found.tried = n
        if alike[n] and found.equal_up_to == max([1, *(size for size in alike if size < n)]):
            found.equal_up_to = n
    if not singles:  # the device keeps the likeliest tokens, so whole rows have passes of their own
        target.truncate(0)
        sizes = [n for n in EQUAL_SIZES if n <= largest]
        found.equal_up_to, found.tried = _compare(target, tokens, 0, sizes, cancelled)
    return found


def _measure_context(target: Context, found: TargetCosts, tokens: list[int], over: Callable[[float], bool]) -> None:
    """Measure what tokens of context add to a pass, as far as it shows behind as many as there is time to read."""
    several, slice_ = _SEVERAL, max(found.verify)
    if several not in found.verify:
        return
    look_s = 2 * (found.verify[1] + found.verify[several])
    target.truncate(0)
    while (context := len(target.tokens)) < _LOOK_BACK and not over(found.verify[slice_] + look_s):
        more = min(slice_, target.n_ctx - several - context)
        if more <= 0:
            break
        target.evaluate(tokens[:more], 0)
    if not context:
        return
    added: dict[int, float] = {}
    for n in (several, 1):
        looks: list[float] = []
        for _ in range(2):
            target.truncate(context)
            looks.append(timed_pass(target, tokens[:n], n)[0])
        added[n] = max(0.0, min(looks) - found.verify[n])
    if added[several] >= (_VISIBLE - 1) * found.verify[several]:
        found.per_row = max(0.0, added[several] - added[1]) / ((several - 1) * context)
        found.per_pass = max(0.0, added[1] / context - found.per_row)


def _compare_behind(target: Context, found: TargetCosts, cancelled: Cancelled) -> None:
    """Lower `found.equal_up_to` to the size up to which all rows behind a long context are equal too.

    Takes at most BOUND_S to read the context, and what `_compare` takes. Where the time does not suffice for a comparison,
    `found.behind` stays None, so that the next loading compares.
    """
    if found.tried < 2:
        return
    sizes = [n for n in EQUAL_SIZES if n <= found.equal_up_to]
    longest = max(sizes, default=0)
    text = [(7 * n + 5) % target.n_vocab for n in range(_BEHIND + longest)]
    target.truncate(0)
    _fill(target, text, min(_BEHIND, target.n_ctx - longest) if sizes else 0, cancelled)
    context = len(target.tokens)
    equal_up_to, tried = _compare(target, text, context, sizes, cancelled)
    if tried > 1 or not sizes:
        found.behind, found.equal_up_to = context, equal_up_to


def _fill(target: Context, text: list[int], context: int, cancelled: Cancelled) -> None:
    """Bring the context to its first tokens of the text, as many as BOUND_S lets it read."""
    begun = perf_counter()
    most = max(map(max, SIZES))  # the time of such a pass is known
    while len(target.tokens) < context and perf_counter() - begun < BOUND_S and not cancelled():
        start = len(target.tokens)
        target.evaluate(text[start : min(context, start + most)], 0)


def _compare(
    target: Context, text: list[int], context: int, sizes: Sequence[int], cancelled: Cancelled
) -> tuple[int, int]:
    """The size up to which all rows behind these tokens of the text equal those of single passes, and the largest one tried.

    Takes BOUND_S at most: sizes that there is no time for count as unequal.
    """
    begun = perf_counter()
    together: dict[int, np.ndarray[Any, Any]] = {}
    for n in sizes:
        if cancelled() or perf_counter() - begun > BOUND_S / 2:
            break
        together[n] = target.evaluate(text[context : context + n], n).copy()
        target.truncate(context)
        _fill(target, text, context, cancelled)  # tokens that a recurrent model lost when it was truncated
    longest, singles = max(together, default=0), 0
    unequal: set[int] = set()
    while singles < longest and not cancelled() and perf_counter() - begun <= BOUND_S:
        single = target.evaluate(text[context + singles : context + singles + 1], 1)[0]
        unequal |= {n for n, rows in together.items() if singles < n and not np.array_equal(rows[singles], single)}
        singles += 1
    tried = [n for n in together if n <= singles]
    least = min(unequal, default=longest + 1)
    return max([1, *(n for n in tried if n < least)]), max([1, *tried])
