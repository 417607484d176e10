"""Which of several drafts is best for a target: acceptance, costs, divergence, and the speed-up that was measured.

The target is loaded once, the drafts one after the other. With each of them every prompt is decoded plainly, with the knobs as
they are, and with a short draft of a fixed length: so each speed-up has its baseline beside it, and acceptances do not depend
on what the automatic length chose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter

from spectui.engine.events import Event, Message, ModelInfo, RoundDone
from spectui.engine.session import Session
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, Setup
from spectui.measure.divergence import Divergence, TargetRows, divergence, target_rows
from spectui.measure.prompts import PROMPTS
from spectui.speculation.drafters.cross_vocabulary.drafters import IntersectionDrafter, RetokenisingDrafter
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.expectations import expected_tokens
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import Round, StopReason
from spectui.speculation.statistics import Statistics, ratio

KINDS = ("python", "table", "toaster", "story")
"""The default prompts."""

TOKENS = 64
"""Length of a reply."""

DRAFT_MAX = 4
"""Length of the drafts with which the acceptance is measured."""

_LONGEST = 16
"""Draft lengths for which the expected speed-up is computed."""

SUFFIX = "suffix lookup"

Progress = Callable[[float, str], None]


@dataclass
class Replies:
    """The rounds of one prompt's replies: `measured` with the knobs as they are, `drafted` with drafts of a fixed length."""

    plain: list[Round] = field(default_factory=list)
    measured: list[Round] = field(default_factory=list)
    drafted: list[Round] = field(default_factory=list)

    @property
    def speed_up(self) -> float | None:
        """Measured: tokens per second with drafts / without; None if one is missing."""
        with_drafts, plain = (Statistics.of(rounds).tokens_per_s for rounds in (self.measured, self.plain))
        return with_drafts / plain if with_drafts and plain else None


@dataclass
class Row:
    """One drafter. `problem`: the error if it failed."""

    name: str
    path: str | None = None
    """None: suffix lookup."""
    info: ModelInfo | None = None
    vocabulary: str | None = None
    """same, mapped (over shared tokens) or by text."""
    problem: str | None = None
    divergence: Divergence | None = None
    costs: CostModel | None = None
    """As measured when it was loaded."""
    replies: dict[str, Replies] = field(default_factory=dict)
    complete: bool = False

    @property
    def drafting(self) -> Statistics:
        """Of all rounds with drafts of a fixed length."""
        return Statistics.of(round for each in self.replies.values() for round in each.drafted)

    @property
    def draft_s(self) -> float | None:
        """Seconds per drafted token."""
        figures = self.drafting
        return ratio(figures.draft_s, figures.drafted) if self.path else None

    @property
    def speed_up(self) -> float | None:
        """Geometric mean of the prompts' measured speed-ups; None without one."""
        known = [each.speed_up for each in self.replies.values() if each.speed_up]
        return geometric_mean(known) if known else None

    @property
    def expected_by_length(self) -> list[float]:
        """Estimates: the speed-up with drafts of 0, 1, 2 ... tokens, from the measured costs and the chance of acceptance.

        Empty if those are unknown.
        """
        figures = self.drafting
        chance = ratio(sum(figures.kept), sum(figures.reached))
        if chance is None or self.costs is None or not self.costs.verify.known or not self.path:
            return []
        return expected_speed_ups(self.costs, chance)

    @property
    def expected(self) -> float | None:
        """Estimate: the best speed-up of a fixed length; None if unknown."""
        return max(self.expected_by_length, default=None)


def expected_speed_ups(costs: CostModel, chance: float) -> list[float]:
    """By length, 0 to 16, if each drafted token is accepted with this probability, provided those before it
    were. Estimates, for an
    empty context; that of length 0 is 1."""
    plain = costs.verify(1, 0)
    return [
        expected_tokens(chance, length) * plain / (costs.verify(length + 1, 0) + costs.drafting(length))
        for length in range(_LONGEST + 1)
    ]


@dataclass
class Comparison:
    """The results so far. `rows`: suffix lookup first, then the drafts as they were named."""

    target: ModelInfo | None = None
    knobs: Knobs = field(default_factory=Knobs)
    kinds: tuple[str, ...] = KINDS
    positions: int = 0
    """Positions of the text at which the divergence is computed."""
    rows: list[Row] = field(default_factory=list)
    stopped: bool = False

    def ranked(self) -> list[Row]:
        """Sorted by measured speed-up, the best first; those without one are last."""
        return sorted(self.rows, key=lambda row: -(row.speed_up or 0.0))

    def plain(self, kind: str | None = None) -> Statistics:
        """The target alone, over all its replies or those to one prompt."""
        return Statistics.of(
            round
            for row in self.rows
            for name, each in row.replies.items()
            if kind in (None, name)
            for round in each.plain
        )

    @property
    def scatter(self) -> float | None:
        """By how much the plain speed of one prompt differed between rows: the largest distance over the mean of both ends.
        None with one row. Differences of speed-ups within it rank nothing."""
        found = []
        for kind in self.kinds:
            speeds = [
                speed
                for row in self.rows
                if kind in row.replies and (speed := Statistics.of(row.replies[kind].plain).tokens_per_s)
            ]
            if len(speeds) > 1:
                found.append((max(speeds) - min(speeds)) / ((max(speeds) + min(speeds)) / 2))
        return max(found) if found else None

    def ties(self, row: Row) -> bool:
        """Whether this row's speed-up is too close to the best one's to rank them."""
        best, own = self.ranked()[0].speed_up, row.speed_up
        return bool(best and own) and best / own - 1 <= (self.scatter or 0.0)  # type: ignore[operator]


class _Over(Exception):
    """The time is over, or a person stopped it."""


class _Run:
    """One comparison while it runs."""

    def __init__(self, session: Session, found: Comparison, tokens: int, seconds: float, progress: Progress) -> None:
        self.session, self.found, self.tokens, self.progress = session, found, tokens, progress
        self.until = perf_counter() + seconds
        self.deadline = self.until
        self.steps, self.done = 1, 0

    def tell(self, what: str) -> None:
        self.progress(min(1.0, self.done / self.steps), what)

    def step(self, what: str) -> None:
        """A part of the work begins. Raises _Over if this row's time is over."""
        if perf_counter() >= self.deadline:
            raise _Over
        self.tell(what)
        self.done += 1

    def reply(self, kind: str, knobs: Knobs) -> list[Round]:
        """The rounds of a reply to this prompt. Raises _Over if it was stopped."""
        rounds: list[Round] = []

        def listen(event: Event) -> None:
            if isinstance(event, RoundDone):
                rounds.append(event.round)

        self.session.knobs = replace(knobs, predict=self.tokens)
        with self.session.listening(listen):
            finished = self.session.generate([Message("user", PROMPTS[kind])])
        if finished.reason is StopReason.CANCELLED:
            self.found.stopped = True
            raise _Over
        return rounds

    def fill(self, row: Row, target: TargetRows | None) -> None:
        """Measure the drafter that is loaded."""
        knobs = self.found.knobs
        plain = replace(knobs, drafter="off")
        uses_model = "model" if knobs.drafter == "model" else "auto"
        measured = replace(knobs, drafter=uses_model if row.path else "suffix")
        fixed = replace(knobs, drafter="model", policy="fixed", draft_max=DRAFT_MAX, draft_min=0, p_min=0.0)
        for kind in self.found.kinds:
            replies = Replies()
            self.step(f"{row.name}: {kind}, plain")
            replies.plain = self.reply(kind, plain)
            self.step(f"{row.name}: {kind}")
            replies.measured = self.reply(kind, measured)
            row.replies[kind] = replies
            if row.path:
                self.step(f"{row.name}: {kind}, acceptance")
                replies.drafted = self.reply(kind, fixed)
            if row.path and row.divergence is None and target is not None:
                # After the first prompt, because the time may be over before the last one.
                self.step(f"{row.name}: divergence")
                row.divergence = divergence(self.session, target, lambda: perf_counter() > self.deadline)
        row.complete = True


def compare(
    session: Session,
    setup: Setup,
    drafts: Sequence[str],
    knobs: Knobs,
    kinds: Sequence[str] = KINDS,
    tokens: int = TOKENS,
    seconds: float = float("inf"),
    progress: Progress = lambda done, what: None,
    positions: int | None = None,
    found: Comparison | None = None,
) -> Comparison:
    """Compare these drafts for the set-up's target, for at most so many seconds (a reply that has begun is finished).

    `session.stop` ends it; what was measured until then is returned. A draft that fails is a row with its sentence. `found`
    is filled and returned. Raises SpectuiError if the target cannot be loaded.
    """
    found = Comparison() if found is None else found
    found.knobs, found.kinds = knobs, tuple(kinds)
    run = _Run(session, found, tokens, seconds, progress)
    run.steps = 2 * len(kinds) + 1 + len(drafts) * (3 * len(kinds) + 2)
    alone = replace(setup, draft=None, remember="off")
    target: TargetRows | None = None
    found.rows = [Row(Path(draft).name if draft else SUFFIX, draft) for draft in (None, *drafts)]
    try:
        for at, row in enumerate(found.rows):
            # The rows after a row share the time that it leaves.
            run.deadline = perf_counter() + max(0.0, run.until - perf_counter()) / (len(found.rows) - at)
            done = run.done
            try:
                run.step(f"{row.name}: loading")
                _load(session, replace(alone, draft=row.path), row, found)
                if target is None:
                    target = target_rows(session) if positions is None else target_rows(session, positions)
                    found.positions = len(target.positions)
                run.fill(row, target)
            except _Over:
                if found.stopped:
                    break
            except SpectuiError as error:
                if row.path is None:
                    raise
                row.problem = str(error)
            run.done = done + (3 if row.path else 2) * len(kinds) + (2 if row.path else 1)
    except Interrupted:
        found.stopped = True
    return found


def _load(session: Session, setup: Setup, row: Row, found: Comparison) -> None:
    """Load the row's draft beside the target, which stays. Raises SpectuiError, and Interrupted if it was stopped."""
    from spectui.llama.model import LoadCancelled

    if session.target_context is not None:
        # Costs that were not kept, because the machine was busy, are measured again, and only in an empty context.
        session.target_context.truncate(0)
    try:
        loaded = session.load(setup)
    except LoadCancelled:
        raise Interrupted from None
    found.target, row.info = loaded.target, loaded.draft
    if loaded.costs is not None:
        row.costs = CostModel.of(loaded.costs)
    if row.path:
        row.vocabulary = _vocabulary(session)


def _vocabulary(session: Session) -> str:
    drafter = session.strategy.model
    if isinstance(drafter, RetokenisingDrafter):
        return "by text"
    return "mapped" if isinstance(drafter, IntersectionDrafter) else "same"


def chosen_kinds(text: str) -> tuple[str, ...]:
    """The kinds in "python,story". Raises UsageError."""
    kinds = tuple(part.strip() for part in text.split(","))
    unknown = [kind for kind in kinds if kind not in PROMPTS]
    if unknown:
        raise UsageError(f"There is no prompt {unknown[0]!r}: choose among {', '.join(PROMPTS)}.")
    return tuple(dict.fromkeys(kinds))
