"""What passes cost on this machine, and up to which size they compute the same logits: measured once at load.

Kept on disk per build, model, device, threads and cell types; whatever is not of this build and file is measured anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from spectui import paths
from spectui.atomic import write_atomic
from spectui.llama.context import Context
from spectui.speculation.policies.cost_model import DraftCost, VerifyCost

BOUND_S = 3.0
"""Most seconds that measuring may take; a model that is slower is measured at fewer sizes."""

SIZES = (2, 16, 4, 3, 8, 6), (32, 24, 33, 12, 48)
"""Pass sizes, the most telling first. Size 1 comes before all of them.

3 is among the first because no line between its neighbours tells it: ggml's AVX2 kernels take 2.4 plain passes for three rows
of Q8_0, but 2.1 for four.
"""

EQUAL_SIZES = (2, 4, 6, 8, 16)
"""Pass sizes whose logits are compared with those of passes over one token."""

_SINGLES = max(EQUAL_SIZES)

_LOOK_BACK = 16, 48
"""Size of the passes that tell what attention costs, and the context that they have."""

_VISIBLE = 1.2
"""So many times as long as with an empty context such a pass must take: less is told from a hiccup by the rounds alone."""


@dataclass
class Profile:
    """Seconds per pass size with an empty context, seconds per drafted token, and what was found of the logits.

    `equal_up_to`: the largest size tried whose logits equal those of single passes, with all smaller ones; `tried`: the
    largest size tried.
    """

    verify: dict[int, float] = field(default_factory=dict)
    kappa: float = 0.0
    """Seconds more for each row and token of context; 0 where a short context does not show it."""
    draft_first: float = 0.0
    draft_next: float = 0.0
    equal_up_to: int = 1
    tried: int = 1
    noisy: bool = False
    """Passes of one size took very different times: something else runs, so it is not worth keeping."""
    speed: float | None = 1.0
    """How much longer passes take now than when they were measured; None if that was not looked at."""

    def costs(self) -> tuple[VerifyCost, DraftCost]:
        """For the policy to start from."""
        return VerifyCost(self.verify, self.speed, self.kappa), DraftCost(self.draft_first, self.draft_next)


def profile(
    target: Context,
    draft: Context | None,
    key: tuple[Any, ...],
    progress: Callable[[float], None],
    cancelled: Callable[[], bool],
    must: bool = False,
) -> Profile:
    """The remembered profile of `key`, or a new one, or nothing where the target's memory holds a conversation.

    `must`: measure all the same; the conversation is then evaluated anew.
    """
    file = kept("profile", key)
    remembered = _read(file)
    if remembered is not None:
        return replace(remembered, speed=_speed(target, remembered, cancelled))
    if target.tokens and not must:
        return Profile()  # measuring would cost the conversation its cells; the rounds will tell
    try:
        measured = _measure(target, draft, progress, cancelled)
    finally:
        target.truncate(0)  # as in _speed
    if not cancelled() and not measured.noisy:
        with suppress(OSError):  # it is measured again the next time
            write_atomic(file, json.dumps(asdict(measured)).encode())
    return measured


def kept(what: str, key: tuple[Any, ...]) -> Path:
    """The file of what was found out about the models of `key`, whether or not there is one."""
    return paths.state_directory() / f"{what}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.json"


def _read(file: Path) -> Profile | None:
    """The profile in the file; None if there is none or it is damaged."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        verify = {int(n): float(seconds) for n, seconds in raw.pop("verify").items()}
        found = Profile(verify=verify, kappa=float(raw.pop("kappa")), **raw)
        numbers = [*verify.values(), found.kappa, found.draft_first, found.draft_next]
        sound = 1 in verify and all(0 <= number < 1e4 for number in numbers) and 1 <= found.equal_up_to <= found.tried
        sound = sound and verify[1] > 0
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return found if sound else None


def _speed(target: Context, remembered: Profile, cancelled: Callable[[], bool]) -> float | None:
    """How fast the machine is today: a few single passes against those that were measured once."""
    if target.tokens:
        return None
    seconds: list[float] = []
    try:
        while not cancelled() and len(seconds) < 4 and sum(seconds) < BOUND_S / 6:
            begun = perf_counter()
            target.evaluate([5], 1)
            seconds.append(perf_counter() - begun)
    finally:
        target.truncate(0)  # also of what a stopped pass leaves, which is no conversation
    # The first pass sets things up.
    return min(seconds[1:]) / remembered.verify[1] if len(seconds) > 1 else None


def _measure(
    target: Context, draft: Context | None, progress: Callable[[float], None], cancelled: Callable[[], bool]
) -> Profile:
    started = perf_counter()
    found = Profile()

    def over(more: float = 0.0) -> bool:
        return cancelled() or perf_counter() - started + more > BOUND_S

    def timed(context: Context, n: int, rows: int) -> float:
        context.truncate(0)
        begun = perf_counter()
        context.evaluate(tokens[:n], rows)
        return perf_counter() - begun

    # Any tokens do: the kernels do the same work for each.
    tokens = [(7 * n + 5) % target.n_vocab for n in range(max(map(max, SIZES)))]
    largest = min(target.rows, target.n_ctx)
    timed(target, 1, 1)  # the first pass sets things up
    if draft is not None:
        for n, rounds in ((1, 4), (2, 2)):
            seconds = min(timed(draft, n, 1) for _ in range(rounds + 1))
            if n == 1:
                found.draft_next = found.draft_first = seconds
            else:
                # A round's first drafted token catches up on one token of the target's, or on two after a full draft.
                found.draft_first = (found.draft_first + seconds) / 2
        draft.truncate(0)

    # Single passes tell T(1) and give the rows that larger passes are compared with.
    target.truncate(0)
    singles: list[np.ndarray[Any, Any]] = []
    seconds_of_one: list[float] = []
    for n in range(min(_SINGLES, target.n_ctx)):
        begun = perf_counter()
        singles.append(target.evaluate(tokens[n : n + 1], 1)[0].copy())
        seconds_of_one.append(perf_counter() - begun)
        if over() or perf_counter() - started > BOUND_S / 2:
            break
        progress(0.4 * n / _SINGLES)
    found.verify[1] = float(np.median(seconds_of_one))
    found.noisy = bool(np.quantile(seconds_of_one, 0.8) > 1.5 * min(seconds_of_one))

    # The lower of two looks at each size, because what disturbs only adds. In turns: a pass of another size than the last
    # one's costs more than the same again (llama.cpp keeps its graph), and in a reply sizes change.
    alike: dict[int, bool] = {}
    sizes = [size for group in SIZES for size in group * 2 if size <= largest]
    for number, n in enumerate(sizes):
        if over():
            break
        target.truncate(0)
        begun = perf_counter()
        rows = target.evaluate(tokens[:n], n)
        seconds = perf_counter() - begun
        if n in EQUAL_SIZES and n <= len(singles) and n not in alike:
            alike[n] = all(np.array_equal(rows[place], singles[place]) for place in range(n))
        found.verify[n] = min(seconds, found.verify.get(n, seconds))
        progress(0.4 + 0.6 * number / len(sizes))
    n, context = _LOOK_BACK
    fits = {n, context} <= found.verify.keys() and n + context <= target.n_ctx
    if fits and not over(found.verify[context] + 2 * found.verify[n]):
        target.truncate(0)
        target.evaluate(tokens[:context], 1)
        seconds = float("inf")
        for _ in range(2):
            target.truncate(context)
            begun = perf_counter()
            target.evaluate(tokens[:n], n)
            seconds = min(seconds, perf_counter() - begun)
        if seconds > _VISIBLE * found.verify[n]:
            found.kappa = (seconds - found.verify[n]) / (n * context)
    for n in sorted(alike):
        found.tried = n
        if alike[n] and found.equal_up_to == max([1, *(size for size in alike if size < n)]):
            found.equal_up_to = n
    return found
