"""T(n): what passes over n = 1..32 tokens take, of both models, at several context lengths; and what follows for draft-max.

`engine/costs.py` measures a few sizes while a pair is loaded. Here every size is measured several times, so that the steps of
the kernels show.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from spectui.engine.costs.measuring import timed_pass
from spectui.engine.events import Message
from spectui.measure.extra_costs import PROMPT, ExtraCosts, extra_costs
from spectui.measure.prompts import PAGE
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.policies.plan import Rounds

if TYPE_CHECKING:
    from spectui.engine.session import Session
    from spectui.llama.context import Context

SIZES = tuple(range(1, 33))
"""Tokens in a pass."""

CONTEXTS = (0, 512, 2048)
"""Tokens of context before the pass."""

REPETITIONS = 5

_SHARES = {"target": 3.0, "draft": 1.0}
"""How the time is divided between the models; the next one gets the time that one does not need."""

_EXTRA = 0.1
"""The share of the time that is added for what drafts cost beside the passes."""

STEEP = 2.0
"""A step is at least this many times the mean cost of one more token in the pass."""

_VISIBLE = 0.05
"""A step is at least this share of the pass."""

_ACCEPTANCES = tuple(n / 20 for n in range(4, 20))
"""Acceptances for which the best draft length is computed: 20 to 95 %."""

_AS_GOOD = 0.98
"""A length is good if, at some acceptance, it reaches this share of the best length's speed."""

Role = Literal["target", "draft"]
Progress = Callable[[float, str], None]
"""Called with the finished share of the work, 0..1, and the name of the present measurement."""


@dataclass
class Passes:
    """Seconds of every pass of one model behind `context` tokens, by its size.

    The target computes logits for each token of a pass, as it does for a draft; the draft model for the last one alone, as it
    does when it catches up.
    """

    model: Role
    context: int
    seconds: dict[int, list[float]] = field(default_factory=dict)
    further: list[float] = field(default_factory=list)
    """Of the draft, behind its shortest context: a further token of a draft. All of several heads read, and one drafts."""

    @property
    def medians(self) -> dict[int, float]:
        """Size -> median seconds, by size."""
        return {n: float(np.median(self.seconds[n])) for n in sorted(self.seconds)}

    def spread(self, n: int) -> float | None:
        """Distance between the quartiles, as a share of the median; None for fewer than 3 passes."""
        seconds = self.seconds.get(n, [])
        if len(seconds) < 3:
            return None
        low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75])
        return float((high - low) / middle)

    @property
    def typical_spread(self) -> float | None:
        """The median of all sizes' spreads."""
        known = [spread for spread in map(self.spread, self.seconds) if spread is not None]
        return float(np.median(known)) if known else None

    @property
    def steps(self) -> list[int]:
        """Sizes from which a pass takes notably longer (see `steps`); none where too few passes tell how much they scatter."""
        if self.typical_spread is None:
            return []
        medians = self.medians
        return steps(medians, {n: (self.spread(n) or 0.0) * medians[n] for n in medians})


class LeftOut(NamedTuple):
    """A cell that was not measured, because the model's context holds only `n_ctx` tokens."""

    model: Role
    context: int
    n_ctx: int


@dataclass
class Measurement:
    """The measurements so far; every cell has passes over one token. `stopped`: before all repetitions."""

    cells: list[Passes] = field(default_factory=list)
    stopped: bool = False
    left_out: list[LeftOut] = field(default_factory=list)
    extra: ExtraCosts = field(default_factory=ExtraCosts)

    def of(self, model: Role, context: int | None = None) -> Passes | None:
        """The passes of a model at this context length, or at the shortest that was measured."""
        return next((each for each in self.cells if each.model == model and context in (None, each.context)), None)

    def costs(self, at_load: CostModel | None = None) -> CostModel:
        """The cost model for the shortest context. `at_load`: the costs measured when the pair was
        loaded. It is used for the draft if the draft was not measured here.
        """
        target, draft = self.of("target"), self.of("draft")
        first, each = (at_load.first, at_load.next) if at_load is not None else (0.0, 0.0)
        foresees = at_load.foresees if at_load is not None else None
        if draft is not None:
            # A round begins with two tokens after a draft that was accepted whole, else with one.
            single = draft.medians[1]
            first = (single + draft.medians.get(2, single)) / 2
            each = float(np.median(draft.further)) if draft.further else single
        return CostModel(target.medians if target is not None else {}, first=first, next=each, foresees=foresees)


def measure(
    call: Callable[..., Any],
    contexts: Sequence[int] = CONTEXTS,
    repetitions: int = REPETITIONS,
    seconds: float = float("inf"),
    progress: Progress = lambda done, what: None,
    found: Measurement | None = None,
    stopped: Callable[[], object] = lambda: False,
) -> Measurement:
    """Measure the loaded pair for at most so many seconds; what was measured until it is stopped is returned.

    `call`: calls a function with the session and more arguments in the engine's thread, such as `EngineModels.call`.
    Contexts that do not fit are left out, and noted. Behind a long text the target has the attention that a chat with such a
    text has. `found` is filled and returned. `stopped`: somebody has stopped it. Raises SpectuiError.
    """
    found = Measurement() if found is None else found
    rooms: dict[Role, int] = call(_rooms)
    plan = [(role, context) for context in sorted(set(contexts)) for role in rooms]
    begun = perf_counter()
    try:
        for at, (role, length) in enumerate(plan):
            if length + SIZES[-1] > rooms[role]:
                found.left_out.append(LeftOut(role, length, rooms[role]))
                continue
            cell = Passes(role, length)
            found.cells.append(cell)
            share = _SHARES[role] / sum(_SHARES[later] for later, _ in plan[at:])
            until = perf_counter() + (begun + seconds - perf_counter()) * share
            what = f"the {role} behind {length} tokens" if length else f"the {role}, empty context"
            for repetition in range(repetitions):
                progress((at + repetition / repetitions) / len(plan), what)
                took = {} if stopped() else call(_repetition, role, length, repetition, until - perf_counter())
                for n, each in took.items():
                    cell.seconds.setdefault(n, []).append(each)
                if len(took) < len(SIZES):
                    found.stopped = True
                    break
            if role == "draft" and length == plan[0][1]:
                cell.further = call(_further_tokens, len(cell.seconds.get(1, ())))
        if not stopped():
            progress(1.0, "what drafts cost beside the passes")
            found.extra = call(_extra, repetitions, seconds * _EXTRA)
        call(_empty)
    finally:
        found.cells = [cell for cell in found.cells if cell.seconds.get(1)]  # without one that ended too early
    return found


def _rooms(session: Session) -> dict[Role, int]:
    """Tokens that each model's context holds."""
    target, draft = session.target_context, session.draft_context
    assert target is not None
    return {"target": target.n_ctx, **({"draft": draft.n_ctx} if draft is not None else {})}


def _empty(session: Session) -> None:
    """Leave no tokens in the contexts."""
    for used in (session.target_context, session.draft_context):
        if used is not None:
            used.truncate(0)


def _repetition(session: Session, model: Role, length: int, repetition: int, seconds: float) -> dict[int, float]:
    """One pass of each size of a loaded model: see `time_sizes`."""
    context, tokens = _prepared(session, length)
    if model == "draft":
        assert session.draft_context is not None
        if context.hidden is not None:  # heads read what the target has read, and a token more
            try:
                _restore(context, tokens, min(length + SIZES[-1] - 1, context.n_ctx))
            except Interrupted:
                return {}
        context = session.draft_context
    return time_sizes(context, [token % context.n_vocab for token in tokens], model, length, repetition, seconds)


def _further_tokens(session: Session, number: int) -> list[float]:
    """Seconds of a second token of a draft, so many times."""
    assert session.draft_context is not None
    _empty(session)
    found: list[float] = []
    with suppress(Interrupted):
        for _ in range(number):
            session.draft_context.truncate(0)
            timed_pass(session.draft_context, [5], 1)
            found.append(timed_pass(session.draft_context, [2], 1)[0])
    return found


def _extra(session: Session, repetitions: int, seconds: float) -> ExtraCosts:
    _empty(session)
    context, tokens = _prepared(session, 2 * PROMPT)
    return extra_costs(context, tokens, repetitions, seconds)


def time_sizes(
    context: Context, tokens: Sequence[int], model: Role, length: int, repetition: int, seconds: float = float("inf")
) -> dict[int, float]:
    """One pass of each size behind the first `length` tokens: its seconds by size. Some are missing where the time was over, or
    somebody stopped it.

    The sizes are in another order each time, so that a slow moment meets other ones. The very first pass is always made.
    """
    until = perf_counter() + seconds
    order = list(SIZES)
    random.Random(f"{length} {repetition}").shuffle(order)
    order.sort(key=lambda n: n != 1)  # first the size that all others are compared with
    found: dict[int, float] = {}
    with suppress(Interrupted):
        if repetition == 0:
            _restore(context, tokens, length)
            timed_pass(context, tokens[length : length + 2], 1)  # the first pass sets things up
        for n in order:
            if perf_counter() > until and (found or repetition):
                break
            # Plain decoding repeats passes over one token, for which llama.cpp keeps its graph; in rounds the sizes change. In
            # its first pass of a size a GPU's driver compiles or loads kernels.
            before = (1,) if n == 1 else (n, 1) if context.asynchronous and repetition == 0 else ()
            for size in (*before, n):
                _restore(context, tokens, length)
                took, _ = timed_pass(context, tokens[length : length + size], size if model == "target" else 1)
            found[n] = took
    return found


def _prepared(session: Session, length: int) -> tuple[Context, list[int]]:
    """The target's context, and the tokens of a text that is longer than `length` tokens and a pass."""
    text = PAGE
    while True:
        context, tokens = session.context_and_prompt([Message("user", text)])
        if len(tokens) >= length + SIZES[-1] or len(tokens) > context.n_ctx:
            return context, tokens
        text += "\n" + text


def _restore(context: Context, tokens: Sequence[int], length: int) -> None:
    """Make the context hold the first `length` tokens. A recurrent one may have lost some."""
    context.truncate(length)
    held = len(context.tokens)
    if held < length:
        context.evaluate(tokens[held:length], 0)


def steps(seconds: Mapping[int, float], noise: Mapping[int, float] | None = None) -> list[int]:
    """Sizes n at which the cost steps.

    L(n) is the cheapest pass over at least n tokens, so a pass that was disturbed is no step where a larger one costs less.
    A step: L(n) is above L(n - 1) by more than STEEP times what a token more costs on average, by more than 5 % of L(n), and by
    more than such passes scatter (`noise`: the distance between their quartiles, in seconds). The largest size is none, because
    nothing confirms it.
    """
    sizes = sorted(seconds)
    if len(sizes) < 3:
        return []
    noise = noise or {}
    cheapest = {n: min((m for m in sizes if m >= n), key=seconds.__getitem__) for n in sizes}
    least = {n: seconds[cheapest[n]] for n in sizes}
    average = (least[sizes[-1]] - least[sizes[0]]) / (sizes[-1] - sizes[0])
    return [
        n
        for before, n in pairwise(sizes[:-1])
        if least[n] - least[before]
        > max(STEEP * average * (n - before), _VISIBLE * least[n], *(noise.get(cheapest[m], 0.0) for m in (before, n)))
    ]


class Advice(NamedTuple):
    """`best`: the values of draft-max worth setting. `never`: runs of lengths (first, last) that no acceptance makes good."""

    best: tuple[int, ...]
    never: tuple[tuple[int, int], ...]
    sentence: str


def advise(costs: CostModel) -> Advice:
    """Which draft-max to set.

    A length is good if at some acceptance of 20 to 95 % it reaches 98 % of the best one's expected speed; of neighbouring good
    lengths the longest is named, because it costs little more than the others and bounds them.
    """
    rounds = Rounds.of(costs, 0, SIZES[-1] - 1)
    lengths, longest = range(len(rounds.drafting)), len(rounds.drafting) - 1
    # A pass that was disturbed is no dearer than a larger one.
    rounds = rounds._replace(passes=tuple(min(rounds.passes[m:]) for m in lengths))
    good: set[int] = set()
    for acceptance in _ACCEPTANCES:
        speeds = [rounds.speed_up(acceptance, m) for m in lengths]
        good.update(m for m in lengths if speeds[m] >= _AS_GOOD * max(speeds))
    best = tuple(last for _, last in _runs(sorted(good - {0})))
    never = tuple(_runs([m for m in lengths if m and m not in good]))
    if not best:
        return Advice((), never, "No draft: at no acceptance up to 95 % does one bring more than it costs.")
    inner = [run for run in never if run[1] < longest]
    sentence = f"draft-max {_listed([(m, m) for m in best])}"
    if inner:
        sentence += f"; never {_listed(inner)}"
    if len(inner) < len(never):
        sentence += f", and no more than {best[-1]}" if inner else "; no more"
    return Advice(best, never, sentence + ".")


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers, which rise."""
    groups = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return [(run[0], run[-1]) for run in runs]


def _listed(runs: Sequence[tuple[int, int]]) -> str:
    """ "3 to 6, 7 or 15"."""
    words = [f"{first}" if first == last else f"{first} to {last}" for first, last in runs]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
