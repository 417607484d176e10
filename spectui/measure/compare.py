"""Which of several drafts is best for a target: acceptance, costs, divergence, and the speed-up that was measured.

The target is loaded once, the drafts one after the other. With each of them every prompt is answered plainly and with the knobs
as they are, several times in turn, and once with a short draft of a fixed length: so each speed-up has its baseline beside it,
and acceptances do not depend on what the automatic length chose. Each reply begins from cold, as in a bench.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from spectui.engine.events import Event, Message, ModelInfo, RoundDone
from spectui.engine.session import Session
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, Setup
from spectui.measure.divergence import Divergence, TargetRows, divergence, drafter_of, target_rows
from spectui.measure.prompts import PROMPTS
from spectui.measure.verdict import Verdict, judge
from spectui.speculation.drafters.cross_vocabulary.drafters import IntersectionDrafter, RetokenisingDrafter
from spectui.speculation.evaluator import Interrupted
from spectui.speculation.expectations import expected_tokens
from spectui.speculation.policies.cost_model import CostModel
from spectui.speculation.records import StopReason
from spectui.speculation.statistics import Statistics, ratio, total

KINDS = ("python", "table", "toaster", "story")
"""The default prompts."""

TOKENS = 64
"""Length of a reply."""

DRAFT_MAX = 4
"""Length of the drafts with which the acceptance is measured."""

RUNS = 3
"""Replies to each prompt."""

_FAMILIES = 2
"""Verdicts against the target alone, and those of drafters against each other: both are spoken."""

_LONGEST = 16
"""Draft lengths for which the expected speed-up is computed."""

SUFFIX = "suffix lookup"

Progress = Callable[[float, str], None]


class Answer(NamedTuple):
    """A reply: its tokens, its figures, and the seconds in which its prompt was read, by the draft model too."""

    tokens: tuple[int, ...]
    statistics: Statistics
    prompt_s: float

    @property
    def speed(self) -> float:
        """Tokens per second of the whole reply; 0 for an empty one."""
        return ratio(len(self.tokens), self.prompt_s + self.statistics.decode_s) or 0.0


@dataclass
class Replies:
    """The replies to one prompt by repetition. `measured`: with the knobs as they are. `drafted`: with drafts of one length."""

    plain: list[Answer] = field(default_factory=list)
    measured: list[Answer] = field(default_factory=list)
    drafted: Answer | None = None

    def pairs(self, decoding: bool = False) -> list[float]:
        """ln(speed with drafts / without) by repetition, of whole replies or of `decoding` alone."""
        both = zip(self.measured, self.plain, strict=False)
        speeds = [
            tuple((each.statistics.tokens_per_s or 0.0) if decoding else each.speed for each in pair) for pair in both
        ]
        return [log(drafted / plain) for drafted, plain in speeds if drafted and plain]


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
        """Of all replies with drafts of a fixed length."""
        return total(each.drafted.statistics for each in self.replies.values() if each.drafted is not None)

    @property
    def draft_s(self) -> float | None:
        """Seconds per drafted token."""
        figures = self.drafting
        return ratio(figures.draft_s, figures.drafted) if self.path else None

    def pairs(self, decoding: bool = False) -> dict[str, list[float]]:
        """By prompt, for `judge`: how many times as fast as the target alone."""
        return {kind: pairs for kind, each in self.replies.items() if (pairs := each.pairs(decoding))}

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

    def gain(self, row: Row, decoding: bool = False) -> Verdict | None:
        """The verdict on this row against the target alone, of whole replies or of `decoding`; None if it was not measured."""
        pairs = row.pairs(decoding)
        return judge(pairs, _FAMILIES * max(1, len(self._measured))) if pairs else None

    def behind(self, row: Row, other: Row) -> Verdict | None:
        """The verdict on this row against another one; None where they have no prompts in common."""
        own, its = row.pairs(), other.pairs()
        pairs = {kind: [a - b for a, b in zip(own[kind], its[kind], strict=False)] for kind in own if kind in its}
        count = len(self._measured)
        return judge(pairs, _FAMILIES * max(1, count * (count - 1) // 2)) if pairs else None

    @property
    def _measured(self) -> list[Row]:
        return [row for row in self.rows if row.pairs()]

    def ranked(self) -> list[Row]:
        """Sorted by gain, the best first; those without one are last."""
        return sorted(self.rows, key=lambda row: -(gain.ratio if (gain := self.gain(row)) else 0.0))

    def plain(self, kind: str | None = None) -> Statistics:
        """The target alone, over all its replies or those to one prompt."""
        return total(
            answer.statistics
            for row in self.rows
            for name, each in row.replies.items()
            if kind in (None, name)
            for answer in each.plain
        )

    def ties(self, row: Row) -> bool:
        """Whether this row cannot be told from the best one, which is another."""
        best = self.ranked()[0]
        behind = None if row is best else self.behind(row, best)
        return behind is not None and not behind.told


class _Over(Exception):
    """The time is over, or a person stopped it."""


class _Run:
    """One comparison while it runs."""

    def __init__(
        self, session: Session, found: Comparison, tokens: int, runs: int, seconds: float, progress: Progress
    ) -> None:
        self.session, self.found, self.tokens, self.runs, self.progress = session, found, tokens, runs, progress
        self.setup = Setup()
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

    def reply(self, kind: str, knobs: Knobs) -> Answer:
        """A reply to this prompt. Raises _Over if it was stopped."""
        tokens: list[int] = []

        def listen(event: Event) -> None:
            if isinstance(event, RoundDone):
                tokens.extend(token.id for token in event.round.tokens)

        self.session.begin_cold(self.setup)
        self.session.knobs = replace(knobs, predict=self.tokens)
        with self.session.listening(listen):
            finished = self.session.generate([Message("user", PROMPTS[kind])])
        if finished.reason is StopReason.CANCELLED:
            self.found.stopped = True
            raise _Over
        return Answer(tuple(tokens), finished.statistics, finished.prompt_s or 0.0)

    def fill(self, row: Row, target: TargetRows | None) -> None:
        """Measure the drafter that is loaded."""
        knobs = self.found.knobs
        uses_model = "model" if knobs.drafter == "model" else "auto"
        measured = replace(knobs, drafter=uses_model if row.path else "suffix")
        fixed = replace(knobs, drafter="model", policy="fixed", draft_max=DRAFT_MAX, draft_min=0, p_min=0.0)
        self.reply(self.found.kinds[0], measured)  # the first reply after loading sets things up, and does not count
        for run in range(self.runs):
            for kind in self.found.kinds:
                replies = row.replies.get(kind) or Replies()
                both = [(replies.plain, replace(knobs, drafter="off"), ", plain"), (replies.measured, measured, "")]
                for kept, own, what in both if run % 2 == 0 else both[::-1]:
                    self.step(f"{row.name}: {kind}{what}")
                    kept.append(self.reply(kind, own))
                    row.replies[kind] = replies
                if row.path and run == 0:
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
    runs: int = RUNS,
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
    run = _Run(session, found, tokens, runs, seconds, progress)
    of_suffix = 1 + 2 * runs * len(kinds)
    of_draft = of_suffix + 1 + len(kinds)
    run.steps = of_suffix + len(drafts) * of_draft
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
                run.setup = replace(alone, draft=row.path)
                _load(session, run.setup, row, found)
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
            run.done = done + (of_draft if row.path else of_suffix)
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
    drafter = drafter_of(session)
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
